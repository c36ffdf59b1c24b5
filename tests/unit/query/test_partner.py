"""What a run shares with another, and which runs are looked at for it."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import run_at
from written_logs import write_lines

from board.query.compare.partner import MOST_LOOKED_AT, nearest, shared_of

PROMPTS = st.sets(st.sampled_from("abcdef"), min_size=1)
SETTINGS = st.dictionaries(st.sampled_from(["lr", "kl", "seed", "run_name"]), st.integers(0, 1))


def run_with(folder, prompts, own):
    rows = [{"step": 1, "prompt": prompt, "response": "r", "reward": 1.0} for prompt in prompts]
    write_lines(folder / "log.jsonl", rows)
    (folder / "run-1.json").write_text(json.dumps({"config": own}))
    return run_at(folder)


@settings(max_examples=15)
@given(PROMPTS, PROMPTS, SETTINGS, SETTINGS)
def test_what_is_shared_is_counted_without_seeds_and_names(tmp_path_factory, left, right, a, b):
    root = tmp_path_factory.mktemp("shared")
    first, second = run_with(root / "a", left, a), run_with(root / "b", right, b)
    shared = shared_of(first, second)
    assert shared.prompts == len(left & right) / min(len(left), len(right))
    told = {"lr", "kl"}
    assert shared.of_settings == len((a.keys() | b.keys()) & told)
    assert shared.settings == len(
        {name for name in a.keys() & b.keys() & told if a[name] == b[name]}
    )
    assert shared_of(second, first) == shared


def test_runs_without_prompts_share_none(tmp_path):
    rows = [{"step": 1, "response": "r", "reward": 1.0}]
    runs = [run_at(write_lines(tmp_path / name / "x.jsonl", rows).parent) for name in "ab"]
    assert shared_of(*runs).prompts == 0
    assert shared_of(*runs).text == "neither prompts nor settings"


def test_the_nearest_are_looked_at_and_no_more_than_can_be_read_at_once(tmp_path):
    info = run_with(tmp_path / "base", "a", {}).info
    names = ["other/z", *(f"seed{n}" for n in range(12))]
    others = [replace(info, name=name) for name in names]
    found = nearest(replace(info, name="seed"), others, 1 << 30)
    assert len(found) == MOST_LOOKED_AT
    assert all(one.name.startswith("seed") for one in found)
    few = nearest(replace(info, name="seed"), others, 2 * info.bytes)
    assert [one.name for one in few] == [one.name for one in found[:2]]
