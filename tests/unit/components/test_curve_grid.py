from __future__ import annotations

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
