"""Every page of logs that frameworks wrote: nothing breaks, nothing is empty without a word."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from shown import PAGES, OpenApp, assert_sound, cards, go_to, readers, texts, tiles

DATA = Path(__file__).parents[1] / "formats" / "data"
# What tells most apart: two logs joined, parts of rewards without a total, groups of one, no tokens.
RUNS = ("prime_rl/joined", "ms_swift/table", "areal/trial0", "tinker/texts")
_NOTHING = re.compile(r"\b(?:nan|NaT|None)\b(?! of the recorded)")


@pytest.mark.parametrize("name", RUNS)
def test_no_page_of_a_format_breaks_or_shows_what_says_nothing(
    open_app: OpenApp, tmp_path: Path, name: str
) -> None:
    shutil.copytree(DATA / name, tmp_path / "run")
    app = open_app(tmp_path / "run")
    for page in PAGES:
        if page != "overview":
            go_to(app, page)
        assert_sound(app)
        assert not app.error, page
        assert not _NOTHING.search(texts(app)), page
        assert all(element.value.strip() for element in app.main.get("caption")), page
        for tile in tiles(app).values():
            assert not _NOTHING.search(f"{tile['value']} {tile['change']}"), (page, tile["label"])
        for metric in app.metric:
            assert not _NOTHING.search(f"{metric.value} {metric.delta}"), (page, metric.label)
        for card in cards(app):
            drawn = any(y is not None for line in card["chart"]["lines"] for y in line["y"])
            assert drawn or card["notes"], (page, card["key"])
            assert "nan%" not in str(card["chart"]["lines"]), (page, card["key"])
        for shown in app.dataframe:
            frame = shown.value
            told = {name for name in frame if {*map(str, frame[name])} - {"", "nan", "None"}}
            assert told == {*frame}, page
            assert shown.proto.placeholder or not frame.isna().any(axis=None), page
        if page == "rollout":
            has_tokens = name == "prime_rl/joined"
            assert ("Tokenizer" in [field.label for field in app.text_input]) == has_tokens
            assert all(view["turns"] or view["canSwitch"] for view in readers(app))
