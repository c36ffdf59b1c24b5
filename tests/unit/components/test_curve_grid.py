from __future__ import annotations

import json
from pathlib import Path

import pytest

from board.components import curve_grid

FOLDER = Path(curve_grid.__file__).parent
SCRIPTS = sorted((FOLDER / "js").glob("*.js"))
MARKUP_SINKS = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc")


@pytest.mark.parametrize(
    "script",
    [
        *SCRIPTS,
        FOLDER / "uplot" / "uPlot.iife.min.js",
        FOLDER.parent / "share_bars" / "share_bars.js",
    ],
    ids=lambda path: path.stem,
)
def test_the_script_has_no_way_to_turn_text_into_markup(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    assert [sink for sink in MARKUP_SINKS if sink in source] == []


def test_every_script_part_is_loaded() -> None:
    loaded = {name.removeprefix("js/") for name in curve_grid._SCRIPTS if name.startswith("js/")}
    assert loaded == {path.name for path in SCRIPTS}


def test_what_others_wrote_lies_beside_its_licence() -> None:
    licence = (FOLDER / "uplot" / "LICENSE").read_text(encoding="utf-8")
    assert "The MIT License" in licence
    assert "uPlot (v1.6.32)" in (FOLDER / "uplot" / "uPlot.iife.min.js").read_text()[:80]


def test_each_chart_is_a_line_of_its_own_whatever_it_is_called() -> None:
    names = ["Reward", "two\nlines", "half \ud800", "\u2028"]
    chart = {"lines": [{"y": [0.5, None]}]}
    cards = [curve_grid.Card(name, name, chart) for name in names]
    common, *lines = curve_grid._written(7, 2, cards).split(b"\n")
    assert json.loads(common) == {"step": 7, "across": 2}
    assert [json.loads(line)["title"] for line in lines] == names
    assert json.loads(lines[0])["chart"] == chart
