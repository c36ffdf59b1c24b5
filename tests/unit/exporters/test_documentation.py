from __future__ import annotations

import inspect
import re
from pathlib import Path

import exporters
from exporters import NullExporter, RolloutExporter

DOCS = Path(__file__).parents[3] / "docs"
OPTIONS = (DOCS / "exporter_settings.md").read_text(encoding="utf-8").split("## Options")[1]
TABLE = OPTIONS.split("\n## ")[0]
GUIDES = "".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("exporter*.md")))


def test_every_option_is_in_the_table_and_in_the_docstring():
    options = [n for n in inspect.signature(RolloutExporter.__init__).parameters if n != "self"]
    rows = re.findall(r"^\| (`[^|]*) \|", TABLE, flags=re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(rows)) == options
    assert not [option for option in options if option not in (RolloutExporter.__doc__ or "")]


def test_the_table_gives_the_defaults():
    for name, parameter in inspect.signature(RolloutExporter.__init__).parameters.items():
        if isinstance(parameter.default, str) or parameter.default in (1, 2, 5):
            (row,) = re.findall(rf"^\| `{name}` \| ([^|]*) \|", TABLE, flags=re.MULTILINE)
            shown = row.strip("`")
            assert shown.strip('"') == str(parameter.default) or parameter.default is True


def test_every_public_call_and_name_is_documented():
    calls = [name for name in vars(NullExporter) if not name.startswith("_")]
    calls = [name for name in calls if callable(getattr(NullExporter, name))]
    assert not [name for name in (*calls, "counts") if f"`{name}" not in GUIDES]
    public = set(exporters.__all__) - {"SCHEMA_VERSION", "DataShard"}
    assert not [name for name in public if name not in GUIDES]
