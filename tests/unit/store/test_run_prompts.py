"""Prompts as the index keeps them are those of all rollouts, whether they come once or often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.query.narrowing import narrowed
from board.query.prompts import run_prompts, shared_prompts
from board.store import renewal, segments, step_store, storage
from board.store.batch import put_rows, tallies_of
from board.store.discovery import RunInfo
from board.store.log_file import LogFile
from board.store.manifest import FileState, Manifest
from board.store.memory_storage import MemoryStorage
from board.store.run import Run, indexed_run

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
AGAIN = st.sets(st.integers(0, 6))


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> Iterator[None]:
    """Several parts of each kind, and several row groups of each part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_store, "_CHUNK_ROLLOUTS", 6)
        patch.setattr(renewal, "_PART_ROWS", 3)
        patch.setattr(renewal, "_FULL_ROWS", 5)
        patch.setattr(storage, "_PART_ROW_GROUP", 2)
        yield


def indexed(
    kept: storage.Storage, rollouts: Sequence[Rollout], again: Set[int] = frozenset()
) -> Run:
    """The run of these rollouts; again: steps of which all that is kept is made a second time."""
    rows = [
        {"step": step, "line": line, "offset": line, "size": 1, "file": 0, "rank": 0}
        | ({} if prompt is None else {"prompt": f"p{prompt}", "prompt_tokens": prompt % 3})
        | ({} if reward is None else {"reward": reward})
        | {"env": f"e{line % 2}"}
        for line, (step, prompt, reward) in enumerate(sorted(rollouts, key=lambda r: r[0]), 1)
    ]
    table = segments.table_of(rows)
    state = FileState(0, "x.jsonl", "native", size=1, consumed=1, tallies=tallies_of(table))
    steps = frozenset(step for step, _, _ in rollouts)
    manifest = Manifest("k", 1, (state,), (put_rows(kept, table),), stale=steps, total=1)
    manifest = step_store.refreshed(kept, manifest, ["x.jsonl"])
    if again:
        stale = Manifest(
            "k", 1, manifest.files, manifest.segments, None, manifest.steps, frozenset(again),
            manifest.rules, 1, manifest.parts,
        )  # fmt: skip
        manifest = step_store.refreshed(kept, stale, ["x.jsonl"])
    kept.commit(manifest)
    log = LogFile(Path("x.jsonl"), "native", 1, 0, 0)
    return indexed_run(kept, RunInfo("made", Path(), (log,), (), Path()))


@settings(max_examples=20, deadline=None)
@given(ROLLOUTS, AGAIN)
def test_prompts_of_an_index_are_those_of_its_rollouts(
    rollouts: list[Rollout], again: set[int]
) -> None:
    run = indexed(MemoryStorage(), rollouts, again)
    found = run_prompts(run)
    rows = run.rollouts
    if "prompt" not in rows or "reward" not in rows:
        assert found is None
        return
    assert found is not None
    names = rows["prompt"].dropna().unique().tolist()
    codes = range(len(names))
    assert found.texts(codes) == names
    means = rows.groupby(["prompt", "step"])["reward"].mean()
    assert found.seen().tolist() == [len(means[name]) for name in names]
    of_all = found.of(codes)
    for code, name in enumerate(names):
        own = rows[rows["prompt"] == name]
        table = found.rollouts(code)
        assert list(zip(table.steps, table.indices, strict=True)) == list(
            zip(own["step"], own["index"], strict=True)
        )
        np.testing.assert_array_equal(table.rewards, own["reward"])
        visits = of_all.visits.of(code)
        assert of_all.visits.steps[visits].tolist() == means[name].index.tolist()
        np.testing.assert_allclose(of_all.visits.rewards[visits], means[name])
        np.testing.assert_allclose(
            of_all.visits.solve_rate[visits], solve_rates(rows, own), err_msg=name
        )
    assert {*found.several.visits.prompts.tolist()} == {*np.flatnonzero(found.seen() > 1).tolist()}


def solve_rates(rows: pd.DataFrame, own: pd.DataFrame) -> list[float]:
    """By step of `own` the share of highest rewards of the run among highest and lowest ones."""
    low, high = rows["reward"].min(), rows["reward"].max()
    judged = own["reward"].map(lambda r: {high: 1.0, low: 0.0}.get(r, NAN) if low < high else NAN)
    return judged.groupby(own["step"]).mean().tolist()


@settings(max_examples=10, deadline=None)
@given(ROLLOUTS, ROLLOUTS)
def test_prompts_that_two_runs_share_are_found_in_the_order_of_the_first(
    ours: list[Rollout], theirs: list[Rollout]
) -> None:
    left, right = (run_prompts(indexed(MemoryStorage(), side)) for side in (ours, theirs))
    if left is None or right is None:
        return
    names = left.texts(range(len(left.keys)))
    held = set(right.texts(range(len(right.keys))))
    expected = [code for code, name in enumerate(names) if name in held]
    assert shared_prompts(left, right, 100).tolist() == expected
    assert shared_prompts(left, right, 2).tolist() == expected[:2]


@settings(max_examples=6, deadline=None)
@given(rollouts=ROLLOUTS, again=AGAIN, data=st.data())
def test_some_rows_of_what_is_kept_are_those_of_all(
    rollouts: list[Rollout],
    again: set[int],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = storage.FolderStorage(tmp_path_factory.mktemp("index"))
    run = indexed(folder, rollouts, again)
    for kind in ("prompts",):
        whole = run.part(kind, ("size", "total", "step"))
        if whole is None:
            return
        assert whole.column("step").to_pylist() == sorted(whole.column("step").to_pylist())
        places = data.draw(st.lists(st.integers(0, whole.num_rows - 1), max_size=6))
        wanted = np.array(places, np.int64)
        found = run.part_rows(kind, whole.column_names, wanted)
        assert found.to_pydict() == whole.take(pa.array(wanted)).to_pydict()


@settings(max_examples=8, deadline=None)
@given(ROLLOUTS)
def test_a_narrowed_run_is_that_of_its_rollouts_alone(rollouts: list[Rollout]) -> None:
    run = indexed(MemoryStorage(), rollouts)
    found = narrowed(run, ["e1"])
    rows = run.rollouts[run.rollouts["env"] == "e1"]
    counts = rows["step"].value_counts().sort_index()
    assert found.counts == counts.to_dict()
    pieces = [piece for piece in found.pieces(("reward",)) if len(piece)]
    assert sum(map(len, pieces)) == len(rows)
    if "reward_mean" in found.steps:
        means = rows.groupby("step")["reward"].mean()
        np.testing.assert_allclose(found.steps["reward_mean"], means)
    prompts = run_prompts(found)
    if prompts is not None and "prompt" in rows:
        seen = rows.groupby("prompt", sort=False)["step"].nunique()
        # Within a step those that other environments have too come after the others.
        texts = prompts.texts(range(len(prompts.keys)))
        assert dict(zip(texts, prompts.seen().tolist(), strict=True)) == seen.to_dict()
