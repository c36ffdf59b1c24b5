from __future__ import annotations

import inspect
import re
from pathlib import Path

import exporters
from exporters import NullExporter, RolloutExporter

PAGE = (Path(__file__).parents[3] / "docs" / "exporter.md").read_text(encoding="utf-8")


def test_every_option_stands_in_the_page_s_table_and_in_the_docstring() -> None:
    options = [n for n in inspect.signature(RolloutExporter.__init__).parameters if n != "self"]
    table = PAGE.split("## Options")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", table, flags=re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(rows)) == options
    assert not [option for option in options if option not in (RolloutExporter.__doc__ or "")]


def test_the_page_names_the_defaults_as_they_are() -> None:
    table = PAGE.split("## Options")[1].split("\n## ")[0]
    for name, parameter in inspect.signature(RolloutExporter.__init__).parameters.items():
        if isinstance(parameter.default, str) or parameter.default in (1, 2, 5):
            (row,) = re.findall(rf"^\| `{name}` \| ([^|]*) \|", table, flags=re.MULTILINE)
            shown = row.strip("`")
            assert shown.strip('"') == str(parameter.default) or parameter.default is True


def test_every_public_call_and_name_stands_in_the_page() -> None:
    calls = [name for name in vars(NullExporter) if not name.startswith("_")]
    calls = [name for name in calls if callable(getattr(NullExporter, name))]
    assert not [name for name in (*calls, "counts") if f"`{name}" not in PAGE]
    public = set(exporters.__all__) - {"SCHEMA_VERSION", "DataShard"}
    assert not [name for name in public if name not in PAGE]
