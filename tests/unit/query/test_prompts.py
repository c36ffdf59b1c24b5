"""Prompts as the index keeps them are those of all rollouts, whether they come once or often."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.index import segments
from board.index.discovery.discovered_runs import RunInfo, discover
from board.index.discovery.run_info import LogFile
from board.index.manifest import FileState, Manifest
from board.index.reading.batch import put_rows, tallies_of
from board.index.storage import MemoryStorage
from board.query.open_run import Run, indexed_run, open_run, with_steps
from board.query.prompts import (
    RunPrompts,
    key_from,
    prompt_rollouts,
    prompt_table,
    run_prompts,
    shared_prompts,
    written_key,
)

NAN = float("nan")
Rollout = tuple[int, int | None, float | None]
"""Step, number of the prompt, reward."""

ROLLOUTS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.none() | st.integers(0, 8),
        st.none() | st.sampled_from([0.0, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=40,
)


def indexed(rollouts: Sequence[Rollout]) -> Run:
    """The run of these rollouts."""
    rows = [
        {"step": step, "line": line, "offset": line, "size": 1, "file": 0, "rank": 0}
        | ({} if prompt is None else {"prompt": f"p{prompt}", "prompt_tokens": prompt % 3})
        | ({} if reward is None else {"reward": reward})
        | {"env": f"e{line % 2}"}
        for line, (step, prompt, reward) in enumerate(sorted(rollouts, key=lambda r: r[0]), 1)
    ]
    table = segments.table_of(rows)
    kept = MemoryStorage()
    state = FileState(0, "x.jsonl", "native", size=1, consumed=1, tallies=tallies_of(table))
    steps = frozenset(step for step, _, _ in rollouts)
    manifest = Manifest("k", 1, (state,), (put_rows(kept, table),), stale=steps, total=1)
    log = LogFile(Path("x.jsonl"), "native", 1, 0, 0)
    info = RunInfo("made", Path(), (log,), (), Path())
    kept.commit(with_steps(kept, manifest, info))
    return indexed_run(kept, info)


@settings(max_examples=20, deadline=None)
@given(ROLLOUTS)
def test_prompts_of_an_index_are_those_of_its_rollouts(rollouts: list[Rollout]) -> None:
    run = indexed(rollouts)
    found = run_prompts(run)
    rows = run.rollouts
    if "prompt" not in rows or "reward" not in rows:
        assert found is None
        return
    assert found is not None
    names = rows["prompt"].dropna().unique().tolist()
    table = prompt_table(run, found.keys.tolist())
    assert table["prompt"].tolist() == names
    for place, name in enumerate(names):
        own = rows[rows["prompt"] == name]
        listed = prompt_rollouts(run, int(found.keys[place]))
        assert listed.steps.tolist() == own["step"].tolist()
        assert listed.indices.tolist() == own["index"].tolist()
        np.testing.assert_array_equal(listed.rewards, own["reward"])
        means = own.groupby("step")["reward"].mean()
        rates = solve_rates(rows, own)
        known = rates[np.isfinite(rates)]
        assert (found.steps[place], found.graded[place]) == (len(means), len(known))
        np.testing.assert_allclose(table["rewards"][place], means)
        assert table["rollouts"][place] == len(own)
        if len(known):
            ends = table[["first_rate", "last_rate"]].iloc[place]
            np.testing.assert_allclose(ends, [known[0], known[-1]])
        np.testing.assert_allclose(found.volatility[place], means.std(), atol=1e-12)
        assert flags_of(found, place) == expected_flags(known)


def flags_of(found: RunPrompts, place: int) -> tuple[bool, bool, bool]:
    flags = (found.never_solved, found.newly_solved, found.lost_again)
    return bool(flags[0][place]), bool(flags[1][place]), bool(flags[2][place])


def expected_flags(rates: np.ndarray) -> tuple[bool, bool, bool]:
    """Never solved, newly solved, lost again. rates: of the steps that are judged."""
    if len(rates) < 2:
        return False, False, False
    first, last, best = rates[0], rates[-1], rates.max()
    return best == 0, first == 0 and last > 0, last == 0 and best > 0


def rows_with(*rewards: Sequence[float]) -> list[Rollout]:
    """One prompt with these rewards at steps 1, 2, ...; two others span the run's rewards."""
    own = [(step, 0, reward) for step, of in enumerate(rewards, 1) for reward in of]
    return [(0, 7, 0.0), (0, 8, 1.0), *own]


@pytest.mark.parametrize(
    ("rewards", "flags"),
    [
        (([0, 0], [0]), (True, False, False)),
        (([0], [0, 1]), (False, True, False)),
        (([1], [0]), (False, False, True)),
        (([0], [1], [0]), (False, False, True)),
        (([0],), (False, False, False)),
    ],
)
def test_prompts_are_never_solved_newly_solved_or_lost_again(
    rewards: Sequence[Sequence[float]], flags: tuple[bool, bool, bool]
) -> None:
    found = run_prompts(indexed(rows_with(*rewards)))
    assert found is not None
    assert flags_of(found, 2) == flags


def test_equal_rewards_have_no_volatility_however_they_were_summed() -> None:
    found = run_prompts(indexed(rows_with([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.1, 0.3])))
    assert found is not None
    assert found.volatility[2] == 0.0
    assert np.isnan(found.volatility[:2]).all()


def test_a_key_is_read_back_from_what_links_say() -> None:
    for key in (0, 1, -1, 2**63 - 1, -(2**63)):
        assert len(written_key(key)) == 16
        assert key_from(written_key(key)) == key
    for text in ("", "7", "zzzzzzzzzzzzzzzz", "0" * 17):
        with pytest.raises(ValueError, match=r"digits|invalid"):
            key_from(text)


def solve_rates(rows: pd.DataFrame, own: pd.DataFrame) -> np.ndarray:
    """By step of `own` the share of highest rewards of the run among highest and lowest ones."""
    low, high = rows["reward"].min(), rows["reward"].max()
    graded = own["reward"].map(lambda r: {high: 1.0, low: 0.0}.get(r, NAN) if low < high else NAN)
    return graded.groupby(own["step"]).mean().to_numpy()


@settings(max_examples=10, deadline=None)
@given(ROLLOUTS, ROLLOUTS)
def test_prompts_that_two_runs_share_are_found_in_the_order_of_the_first(
    ours: list[Rollout], theirs: list[Rollout]
) -> None:
    runs = [indexed(side) for side in (ours, theirs)]
    left, right = map(run_prompts, runs)
    if left is None or right is None:
        return
    expected = [key for key in left.keys.tolist() if key in right.keys]
    shared = shared_prompts(*runs, 100)
    assert shared["key"].tolist() == expected
    assert shared["prompt"].tolist() == prompt_table(runs[0], expected)["prompt"].tolist()
    assert shared_prompts(*runs, 2)["key"].tolist() == expected[:2]
    names = {p for _, p, _ in ours} & {p for _, p, _ in theirs} - {None}
    assert len(expected) == len(names)


@settings(max_examples=8, deadline=None)
@given(ROLLOUTS)
def test_a_narrowed_run_is_that_of_its_rollouts_alone(rollouts: list[Rollout]) -> None:
    run = indexed(rollouts)
    found = run.where(envs=["e1"])
    rows = run.rollouts[run.rollouts["env"] == "e1"]
    counts = rows["step"].value_counts().sort_index()
    assert found.counts == counts.to_dict()
    assert len(found.frame(("reward",))) == len(rows)
    if "reward_mean" in found.steps:
        means = rows.groupby("step")["reward"].mean()
        np.testing.assert_allclose(found.steps["reward_mean"], means)
    prompts = run_prompts(found)
    if prompts is not None and "prompt" in rows:
        seen = rows.groupby("prompt", sort=False)["step"].nunique()
        texts = prompt_table(found, prompts.keys.tolist())["prompt"]
        assert dict(zip(texts, prompts.steps.tolist(), strict=True)) == seen.to_dict()


def test_prompts_behind_one_long_system_prompt_have_rows_that_differ(tmp_path: Path) -> None:
    system = "You are a helpful assistant. " * 20
    lines = [
        {"step": step, "prompt": f"{system}{n} + {n}?", "response": "x", "reward": 1.0}
        for step in (1, 2)
        for n in range(4)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (info,) = discover(tmp_path).runs
    run = open_run(info)
    found = run_prompts(run)
    assert found is not None
    table = prompt_table(run, found.keys.tolist())
    assert table["prompt"].tolist() == [f"{system}{n} + {n}?" for n in range(4)]
    assert table["rollouts"].tolist() == [2, 2, 2, 2]
