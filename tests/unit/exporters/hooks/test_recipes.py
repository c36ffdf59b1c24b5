from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
INDEX = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
GUIDES = "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs/hooks").glob("*.md")))
SHARED = ("__init__", "guard", "once")
HOOKS = sorted(p for p in (ROOT / "exporters/hooks").glob("*.py") if p.stem not in SHARED)
RECIPES = re.findall(r"```python\n(.*?)```", GUIDES, flags=re.DOTALL)


def test_every_hook_is_in_the_index_and_has_a_recipe():
    for hook in HOOKS:
        assert f"`hooks/{hook.name}`" in INDEX
        assert f"exporters.hooks.{hook.stem} import" in GUIDES
    assert "`exporters/trl.py`" in INDEX
    assert "exporters.trl import" in GUIDES


def test_every_hook_is_under_120_lines():
    lengths = {p.name: len(p.read_text().splitlines()) for p in (*HOOKS, ROOT / "exporters/trl.py")}
    assert not {name: length for name, length in lengths.items() if length >= 120}


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_python_and_imports_what_is_there(recipe):
    pytest.importorskip("trl")
    for node in ast.walk(ast.parse(recipe)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("exporters"):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, name.name) for name in node.names)
