"""The readers on files that other people's frameworks wrote, where these lie beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from board.store.discovery import discover
from board.store.rollout import open_rollout, search
from board.store.run import OpenOptions, open_run

FORMATS = Path(__file__).resolve().parents[2].parent / "shared" / "formats"
pytestmark = pytest.mark.skipif(
    not FORMATS.is_dir(), reason=f"the collection of real log files is not at {FORMATS}"
)


@pytest.fixture(scope="module")
def poems():
    (info,) = discover(FORMATS / "rlloggingboard").runs
    return open_run(info)


@pytest.fixture(scope="module")
def lines() -> pd.DataFrame:
    path = FORMATS / "rlloggingboard" / "data.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    frame = pd.DataFrame(rows)
    numeric = {"step": int, "reward": float, "ref_reward": float}
    return frame.astype({name: kind for name, kind in numeric.items() if name in frame})


def test_every_row_and_step_of_the_original_tools_file_opens(poems):
    assert poems.info.formats == ("rllb",)
    assert len(poems.rollouts) == 3000
    assert len(poems.steps) == 24
    assert poems.problems == ()


def test_its_steps_have_the_means_of_its_lines(poems, lines):
    by_step = lines.groupby("step")
    assert poems.steps["step"].tolist() == list(by_step.groups)
    assert poems.steps["rollouts"].tolist() == by_step.size().tolist()
    for name in ("reward", "ref_reward"):
        np.testing.assert_allclose(poems.steps[f"{name}_mean"], by_step[name].mean(), rtol=1e-12)
        np.testing.assert_allclose(poems.steps[f"{name}_std"], by_step[name].std(), rtol=1e-12)
        for q in (0.25, 0.5, 0.95):
            column = poems.steps[f"{name}_q{round(100 * q):02d}"]
            np.testing.assert_allclose(column, by_step[name].quantile(q), rtol=1e-12)


def test_its_rollouts_open_as_their_own_lines(poems, lines):
    for step in (0, 1100, 2300):
        of_step = lines[lines["step"] == step].reset_index(drop=True)
        for index in (0, len(of_step) // 2, len(of_step) - 1):
            texts = open_rollout(poems, step, index).record.texts
            for name in ("prompt", "response", "ref_response"):
                assert texts[name] == of_step.loc[index, name]


def test_its_texts_can_be_searched(poems, lines):
    word = lines["response"].iloc[17][:4]
    columns = ["prompt", "response", "ref_response"]
    expected = lines[columns].apply(lambda c: c.str.contains(word, regex=False)).any(axis=1)
    assert int(search(poems, poems.rollouts, word).sum()) == int(expected.sum()) > 0


def test_its_cap_holds(poems, lines):
    capped = open_run(poems.info, OpenOptions(max_per_step=10))
    assert capped.steps["rollouts"].max() == 10
    assert len(capped.rollouts) + capped.over_cap == len(lines)


def test_broken_files_are_refused_with_the_reason():
    found = discover(FORMATS / "broken")
    assert found.runs == ()
    reasons = {problem.path: problem.reason for problem in found.left_out}
    assert "git lfs pull" in reasons["lfs_pointer.jsonl"]
    assert "of no format read here" in reasons["shell_text_between_lines.jsonl"]


def test_no_file_of_another_format_is_taken_for_one_that_is_read():
    found = discover(FORMATS)
    assert {run.name: run.formats for run in found.runs} == {
        "rlloggingboard": ("rllb",),
        "verl": ("verl",),
    }
    on_disk = {path.relative_to(FORMATS).as_posix() for path in FORMATS.rglob("*.jsonl")}
    left_out = {problem.path for problem in found.left_out}
    assert left_out == on_disk - {"rlloggingboard/data.jsonl", "verl/2.jsonl"}
    assert all(problem.reason for problem in found.left_out)


@pytest.mark.parametrize("name", ["broken/lfs_pointer.jsonl", "xtuner/train_rollout_0.jsonl"])
def test_a_file_of_no_known_format_chosen_as_a_run_gives_a_reason_and_no_crash(name):
    found = discover(FORMATS / name)
    assert found.runs == ()
    assert len(found.left_out) == 1
