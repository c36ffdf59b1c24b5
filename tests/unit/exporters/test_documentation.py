"""What is said of the exporter and its hooks is what is there, and the null exporter has all of it."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import exporters
from exporters import NullExporter, RolloutExporter

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
OPTIONS = (DOCS / "exporter_settings.md").read_text(encoding="utf-8").split("## Options")[1]
TABLE = OPTIONS.split("\n## ")[0]
GUIDES = "".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("exporter*.md")))
INDEX = (DOCS / "hooks.md").read_text(encoding="utf-8")
HOOK_GUIDES = "".join(p.read_text(encoding="utf-8") for p in sorted((DOCS / "hooks").glob("*.md")))

HOOKS = sorted(p for p in (ROOT / "exporters/hooks").glob("*.py") if p.stem != "__init__")
RECIPES = re.findall(r"```python\n(.*?)```", HOOK_GUIDES, flags=re.DOTALL)
CALLS = ("log", "log_packed", "log_ragged", "end_step", "flush", "close", "wants")


def test_every_option_is_in_the_table_and_in_the_docstring():
    options = [n for n in inspect.signature(RolloutExporter.__init__).parameters if n != "self"]
    rows = re.findall(r"^\| (`[^|]*) \|", TABLE, flags=re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(rows)) == options
    assert not [option for option in options if option not in (RolloutExporter.__doc__ or "")]


def test_the_table_gives_the_defaults():
    for name, parameter in inspect.signature(RolloutExporter.__init__).parameters.items():
        if isinstance(parameter.default, str) or parameter.default in (1, 2, 5):
            (row,) = re.findall(rf"^\| `{name}` \| ([^|]*) \|", TABLE, flags=re.MULTILINE)
            visible = row.strip("`")
            assert visible.strip('"') == str(parameter.default) or parameter.default is True


def test_every_public_call_and_name_is_documented():
    calls = [name for name in vars(NullExporter) if not name.startswith("_")]
    calls = [name for name in calls if callable(getattr(NullExporter, name))]
    assert not [name for name in (*calls, "counts") if f"`{name}" not in GUIDES]
    public = set(exporters.__all__) - {"SCHEMA_VERSION", "DataShard"}
    assert not [name for name in public if name not in GUIDES]


def test_every_hook_is_in_the_index_and_has_a_recipe():
    for hook in HOOKS:
        assert f"`hooks/{hook.name}`" in INDEX
        assert f"exporters.hooks.{hook.stem} import" in HOOK_GUIDES
    assert "`exporters/trl.py`" in INDEX
    assert "exporters.trl import" in HOOK_GUIDES


def test_every_hook_is_under_140_lines():
    lengths = {p.name: len(p.read_text().splitlines()) for p in (*HOOKS, ROOT / "exporters/trl.py")}
    assert not {name: length for name, length in lengths.items() if length >= 140}


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_python_and_imports_what_is_there(recipe):
    pytest.importorskip("trl")
    for node in ast.walk(ast.parse(recipe)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("exporters"):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, name.name) for name in node.names)


def test_the_null_exporter_has_every_public_name_of_the_real_one(tmp_path):
    with RolloutExporter(tmp_path) as real:
        names = {name for name in dir(real) if not name.startswith("_")} - {"disable_in_child"}
    assert names <= {name for name in dir(NullExporter()) if not name.startswith("_")}


def test_the_null_exporter_takes_every_argument_of_the_real_one():
    for name in CALLS:
        real = inspect.signature(getattr(RolloutExporter, name)).parameters
        null = inspect.signature(getattr(NullExporter, name)).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in null.values())
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        positional = [(n, p.kind) for n, p in real.items() if p.kind in kinds]
        assert [(n, p.kind) for n, p in null.items() if p.kind in kinds] == positional, name
        assert takes_all or set(real) <= set(null), name


def test_the_null_exporter_does_nothing():
    with NullExporter() as exporter:
        exporter.log(1, prompt_ids=None, response_ids=None)
        exporter.log_packed(1, input_ids=None, seq_lens=None, loss_mask=None)
        exporter.log_ragged(1, token_ids=None)
        exporter.end_step(1, loss=0.5)
        assert exporter.flush()
        assert not exporter.wants(1)
    assert exporter.counts == {"records": 0, "lost": 0}
    assert exporter.path is None
