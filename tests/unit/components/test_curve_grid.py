import json
from pathlib import Path

from sent_curves import unpacked

from board.components import curve_grid

FOLDER = Path(curve_grid.__file__).parent


def test_what_others_wrote_lies_beside_its_licence():
    licence = (FOLDER / "uplot" / "LICENSE").read_text(encoding="utf-8")
    assert "The MIT License" in licence
    assert "uPlot (v1.6.32)" in (FOLDER / "uplot" / "uPlot.iife.min.js").read_text()[:80]


def test_charts_arrive_as_they_are_whatever_they_are_called_and_keep_their_sign():
    names = ["Reward", "two\nlines", "half \ud800", "\u2028"]
    cards = [curve_grid.Card(name, name, {"lines": [{"y": [0.5, None]}]}) for name in names]
    sent = curve_grid._written({"step": 7}, cards)
    common, charts = unpacked(sent)
    assert common == {"step": 7}
    assert [chart["title"] for chart in charts] == names
    assert charts[0]["chart"] == cards[0].chart
    cards[0] = curve_grid.Card("Reward", "Reward", {"lines": [{"y": [0.5, 1.0]}]})
    before, after = (
        json.loads(one.partition(b"\n")[0])["charts"]
        for one in (sent, curve_grid._written({"step": 7}, cards))
    )
    is_same = [old[0] == new[0] for old, new in zip(before, after, strict=True)]
    assert is_same == [False, True, True, True]
