"""Logs of one training are joined: which rows of them are one rollout, and what it then holds."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import DATA, json_lines, opened, real_run, reasons
from slime_files import ARRAYS, MILES, SLIME, torch_data

from board.analysis.findings import facts_of
from board.analysis.rollout import open_rollout
from board.analysis.step_tokens import read_step
from board.index.discovery.discovered_runs import RunInfo, discover
from board.index.discovery.run_info import JOINED
from board.index.repeat_keys import NO_KEY
from board.index.segments import JOIN_KEYS
from board.query.database import database_of
from board.query.joins import join_pairs
from board.query.open_run import Follower, Run, open_run

PRIME = DATA / "prime_rl" / "joined"


def sources(folder: Path) -> dict[str, RunInfo]:
    return {run.source: run for run in discover(folder).runs}


def joined(folder: Path) -> Run:
    info = sources(folder)[JOINED]
    return real_run(info) if folder.is_relative_to(DATA) else open_run(info)


@contextmanager
def changed(path: Path) -> Iterator[Any]:
    """What a torch file holds, to be changed."""
    content = torch_data(path)
    yield content
    pytest.importorskip("torch").save(content, path)


@pytest.fixture(scope="module")
def slime() -> Run:
    pytest.importorskip("torch")
    return joined(SLIME)


@pytest.fixture
def copy(tmp_path) -> Path:
    """slime's dumps, to be changed."""
    return Path(shutil.copytree(SLIME, tmp_path / "run"))


def test_every_value_of_a_joined_rollout_is_that_of_its_own_dump(slime):
    rows = slime.rollouts[slime.rollouts["split"] == "train"].set_index(["step", "rollout_id"])
    result = {(o.step, o.record.ids["rollout_id"]): o for o in opened(slime) if is_train(o)}
    for step in (0, 1):
        training = torch_data(SLIME / "train_data" / f"{step}.pt")
        sampled = {
            s["index"]: s for s in torch_data(SLIME / "rollout_data" / f"{step}.pt")["samples"]
        }
        for sample in training["samples"]:
            theirs = sampled[sample["sample_index"]]
            key = (step, str(sample["sample_index"]))
            rollout, row = result[key], rows.loc[key]
            for name, ours in ARRAYS.items():
                np.testing.assert_array_equal(rollout.metrics[ours], sample[name].numpy())
            assert rollout.record.texts["response"] == theirs["response"]
            assert rollout.record.scores["reward"] == row["reward"] == theirs["reward"]
            assert row["group_id"] == str(theirs["group_index"])
            assert row["status"] == rollout.record.extras["status"] == theirs["status"]
            assert row["processed_reward"] == sample["rewards"]
            mask = sample["loss_masks"].numpy() > 0
            assert row["logprobs_mean"] == pytest.approx(sample["log_probs"].numpy()[mask].mean())
            assert rollout.line.keys() == {"slime", "slime_train"}


def is_train(rollout: Any) -> bool:
    return rollout.record.ids["split"] == "train"


def test_rollouts_that_were_not_trained_on_stand_alone_and_are_counted(slime):
    # Rollouts of steps 2 and 10 have no training data; evaluations never have.
    (count,) = slime.rows.joins.counts
    assert (count.joined, count.rollouts, count.rows, count.doubled) == (8, 16, 8, 0)
    assert "8 of 16 rollouts joined with slime training data by step" in count.words
    assert slime.counts == {0: 8, 1: 4, 2: 4, 10: 4}
    assert slime.of_step(10)["logprobs_mean"].isna().all()
    assert slime.rows.joined_files() == {"train_data/0.pt": 4, "train_data/1.pt": 4}


def test_a_joined_rollout_has_the_index_that_it_has_among_the_rollouts_alone(slime):
    alone = open_run(sources(SLIME)["slime"])
    wanted = ["step", "index", "rollout_id", "split", "reward", "response"]
    pd.testing.assert_frame_equal(slime.rollouts[wanted], alone.rollouts[wanted])


def test_steps_have_the_means_of_both_logs(slime):
    result = {name: open_run(info).steps.set_index("step") for name, info in sources(SLIME).items()}
    steps = slime.steps.set_index("step")
    pd.testing.assert_series_equal(steps.loc[[0, 1], "k3_mean"], result["slime_train"]["k3_mean"])
    pd.testing.assert_series_equal(steps["reward_mean"], result["slime"]["reward_mean"])


def test_all_tokens_of_a_step_are_those_of_its_rollouts(slime):
    result = read_step(slime, 1)
    for place, index in enumerate(result.indices.tolist()):
        own = slice(result.starts[place], result.starts[place + 1])
        metrics = open_rollout(slime, 1, index).metrics
        for name in ("logprobs", "ref_logprobs", "values", "returns"):
            np.testing.assert_array_equal(result.arrays[name][own], metrics[name])


@pytest.mark.parametrize("without", [None, "rollout_data"])
def test_all_logs_of_miles_are_joined_with_the_training_data_of_its_ranks(tmp_path, without):
    folder = shutil.copytree(MILES, tmp_path / "run")
    if without:
        shutil.rmtree(folder / without)
    run = joined(folder)
    tokens = {
        step: pd.read_parquet(folder / f"dashboard_columns/rollout_{step}.parquet")
        for step in (0, 1)
    }
    trained = 0
    for rollout in filter(is_train, opened(run)):
        index = int(rollout.record.ids["rollout_id"])
        row = tokens[rollout.step].set_index("sample_index").loc[index]
        start = len(row["tokens"]) - row["response_length"]
        assert rollout.record.response_ids.values().tolist() == row["tokens"].tolist()[start:]
        for rank in range(4):
            shard = torch_data(folder / "train_data" / f"{rollout.step}_{rank}.pt")["rollout_data"]
            if index in shard["sample_indices"]:
                place = shard["sample_indices"].index(index)
                for name in ("log_probs", "advantages", "entropy"):
                    values = rollout.metrics[ARRAYS[name]]
                    np.testing.assert_array_equal(values, shard[name][place].numpy())
                trained += 1
        for message in json_lines(folder / "trajectory" / f"{rollout.step}.jsonl"):
            if message["sample_index"] == index:
                assert list(rollout.record.messages) == message["messages"]
                assert rollout.record.scores["reward"] == message["reward"]
    assert trained == 16  # each of 8 samples stands in the files of two ranks
    assert run.repeated == 8
    assert [(c.source, c.joined) for c in run.rows.joins.counts][-1] == ("slime_train", 8)
    assert sum(run.counts.values()) == 10


def test_samples_of_one_index_are_joined_by_their_position(copy):
    files = changed(copy / "train_data/0.pt"), changed(copy / "rollout_data/0.pt")
    with files[0] as training, files[1] as rollouts:
        for sample, other in zip(training["samples"], rollouts["samples"], strict=True):
            sample["sample_index"] = other["index"] = 7
    # Ranks that dump alike are told by the index: of equal ones the last is shown.
    run = joined(copy)
    (count,) = run.rows.joins.counts
    assert run.repeated == 3
    assert count.joined == 1 + 4
    (hit,) = [o for o in opened(run) if o.step == 0 and "logprobs" in o.metrics]
    last = training["samples"][-1]
    np.testing.assert_array_equal(hit.metrics["logprobs"], last["log_probs"].numpy())
    assert hit.record.texts["response"] == rollouts["samples"][last["rollout_position"]]["response"]


def test_samples_without_an_index_are_joined_by_their_position(copy):
    files = changed(copy / "train_data/0.pt"), changed(copy / "rollout_data/0.pt")
    with files[0] as training, files[1] as rollouts:
        for sample, other in zip(training["samples"], rollouts["samples"], strict=True):
            sample["sample_index"] = other["index"] = None
    run = joined(copy)
    assert run.rows.joins.counts[0].joined == 8
    for sample in training["samples"]:
        rollout = open_rollout(run, 0, sample["rollout_position"])
        np.testing.assert_array_equal(rollout.metrics["logprobs"], sample["log_probs"].numpy())


def test_a_key_that_stands_twice_joins_nothing_and_is_counted(copy):
    with changed(copy / "rollout_data/0.pt") as rollouts:
        rollouts["samples"].append(dict(rollouts["samples"][0]))
    with changed(copy / "train_data/0.pt") as training:
        for sample in training["samples"]:
            del sample["rollout_position"]
    run = joined(copy)
    (count,) = run.rows.joins.counts
    assert (count.joined, count.rows, count.doubled) == (7, 8, 2)
    assert "1 of its 8 rows have no rollout and are shown alone" in count.words
    assert "2 rows have a key that occurs more than once" in count.words
    assert run.counts[0] == 4 + 4 + 1 + 1  # evaluations, rollouts, the second one, the row alone


def test_values_that_differ_are_counted_and_named_with_their_origin(copy):
    with changed(copy / "train_data/1.pt") as training:
        first, second, *_ = training["samples"]
        training["raw_reward"] = [9.0, training["raw_reward"][1], 8.0, training["raw_reward"][3]]
        second["tokens"] = second["tokens"] + 1
        first["rollout_log_probs"] = first["rollout_log_probs"] + 1
    run = joined(copy)
    (problem,) = [p for p in run.problems if p.field == "reward" and "differs" in p.reason]
    assert (problem.count, problem.severity, problem.path) == (2, "partial", "rollout_data/1.pt")
    assert problem.reason == "reward differs between slime rollouts and slime training data"
    assert "and 9.0" in problem.hint
    assert "that of slime rollouts is shown" in problem.hint
    original = torch_data(copy / "rollout_data/1.pt")["samples"]
    assert run.of_step(1)["reward"].tolist() == [s["reward"] for s in original]
    result = [open_rollout(run, 1, index) for index in range(4)]
    message = [[remark.field for remark in rollout.remarks] for rollout in result]
    assert message == [["reward", "sampling_logprobs"], ["tokens"], ["reward"], []]
    ids = second["tokens"].tolist()
    assert result[1].record.response_ids.values().tolist() == ids[-len(result[1].tokens) :]


def test_a_join_grows_with_its_logs(tmp_path):
    folder = tmp_path / "run"
    (folder / "rollout_data").mkdir(parents=True)
    (folder / "train_data").mkdir()
    follower = Follower(persist=True)
    added = ["rollout_data/0.pt", "train_data/0.pt", "train_data/1.pt", "rollout_data/1.pt"]
    counts: list[tuple[int, int]] = []
    for name in added:
        shutil.copy(SLIME / name, folder / name)
        (info,) = [run for run in discover(tmp_path).runs if run.name == "run"]
        run = follower.run(info)
        counts.append((run.rollout_count, sum(join.joined for join in run.rows.joins.counts)))
        fresh = open_run(info)
        assert (run.rows.joins.counts, run.problems) == (fresh.rows.joins.counts, fresh.problems)
        pd.testing.assert_frame_equal(run.steps, fresh.steps)
        pd.testing.assert_frame_equal(run.rollouts, fresh.rollouts)
    # Training data that comes before its rollouts stands alone until then.
    assert counts == [(4, 0), (4, 4), (8, 4), (8, 8)]


def test_prime_rls_exports_are_joined_with_traces_by_their_exact_tokens():
    run = joined(PRIME)
    (count,) = run.rows.joins.counts
    # Two traces of step 2 say the same, and one of step 10 was cut at the trainer's sequence length.
    assert (count.joined, count.rollouts, count.rows, count.doubled) == (3, 6, 6, 4)
    exports = [line for path in sorted(PRIME.rglob("rank_*.jsonl")) for line in json_lines(path)]
    hits = [o for o in opened(run) if isinstance(o.line.get("prime_rl_tokens"), dict)]
    assert [o.record.ids["rollout_id"] for o in hits] == ["a", "d", "e"]
    for rollout in hits:
        trace = rollout.line["episodes"]["trace"]
        ids = [i for node in trace["nodes"] for i in node["token_ids"]]
        (export,) = [e for e in exports if e["token_ids"] == ids and e["step"] == rollout.step]
        start = export["loss_mask"].index(True)
        for theirs, ours in (("trainer_logprobs", "logprobs"), ("entropy", "entropy")):
            assert rollout.metrics[ours].tolist() == export[theirs][start:]
        assert rollout.metrics["advantages"].tolist() == export["advantages"][start:]
        assert rollout.record.texts["prompt"].startswith("[system]")
        row = run.row(rollout.step, rollout.index)
        assert (row["reward"], row["rank"]) == (rollout.record.scores["reward"], export["rank"])
        assert row["response_tokens"] == len(ids) - start
        assert rollout.record.segments[0]["role"] == "assistant"
        assert not rollout.remarks
    assert not [p for p in run.problems if "differs" in p.reason]


def test_the_trainer_has_written_until_its_own_logs_last_step(tmp_path):
    folder = Path(shutil.copytree(PRIME, tmp_path / "run"))
    assert facts_of(joined(folder)).trained_until == 10
    shutil.rmtree(folder / "token_exports" / "step_10")
    run = joined(folder)
    assert (max(run.counts), facts_of(run).trained_until) == (10, 2)
    assert facts_of(run.where(split="train")).trained_until == 2
    assert facts_of(open_run(sources(folder)["episodes"])).trained_until is None


def test_where_a_response_begins_elsewhere_both_stay_at_their_tokens(tmp_path):
    folder = shutil.copytree(PRIME, tmp_path / "run")
    path = folder / "token_exports/step_10/rank_0.jsonl"
    (line,) = json_lines(path)
    first = line["loss_mask"].index(True)
    line["loss_mask"][first] = False  # as of a branch whose beginning another one trains
    path.write_text(json.dumps(line) + "\n")
    run = joined(folder)
    (rollout,) = [
        o
        for o in opened(run)
        if o.step == 10 and "logprobs" in o.metrics and o.line.get("episodes")
    ]
    assert rollout.record.prompt_ids.values().tolist() == line["token_ids"][:first]
    assert np.isnan(rollout.metrics["logprobs"][0])
    assert rollout.metrics["logprobs"][1:].tolist() == line["trainer_logprobs"][first + 1 :]
    assert rollout.metrics["loss_mask"].tolist() == line["loss_mask"][first:]
    assert run.row(10, rollout.index)["response_tokens"] == len(line["token_ids"]) - first
    assert [r.field for r in rollout.remarks] == ["loss_mask"]


def test_each_log_of_a_folder_is_there_alone_too():
    result = {run.name: (run.source, run.formats) for run in discover(PRIME).runs}
    assert result == {
        "joined": (JOINED, ("episodes", "prime_rl_tokens")),
        "joined (episodes)": ("episodes", ("episodes",)),
        "joined (prime_rl_tokens)": ("prime_rl_tokens", ("prime_rl_tokens",)),
    }
    alone = open_run(sources(PRIME)["prime_rl_tokens"])
    assert (alone.rollout_count, alone.rows.joins.counts, reasons(alone)) == (6, (), [])


def test_logs_that_speak_of_other_rollouts_are_not_joined(tmp_path):
    shutil.copytree(DATA / "verl/v0", tmp_path / "run")
    shutil.copy(DATA / "trl/text/completions/completions_00001.parquet", tmp_path / "run")
    assert JOINED not in sources(tmp_path)


@pytest.mark.parametrize("folder", [PRIME, MILES])
def test_rows_of_all_steps_are_those_of_each_step_by_itself(folder):
    if folder is MILES:
        pytest.importorskip("torch")
    run = joined(folder)
    names = ("reward", "advantage", "response_tokens", "group_id", "split", "file", "line")
    steps = [run.frame(names, (step, step)).astype(object) for step in run.counts]
    for result in (run.frame(names), run.frame(names, (min(run.counts), max(run.counts)))):
        expected = pd.concat(steps, ignore_index=True)[result.columns].fillna(np.nan)
        pd.testing.assert_frame_equal(result.astype(object).fillna(np.nan), expected)


def brute_force(sides: list[int], keys: list[int]) -> dict[int, int]:
    """The row that each row is added to, row by row."""
    counts = Counter(zip(sides, keys, strict=True))
    once = [k != NO_KEY and counts[s, k] == 1 for s, k in zip(sides, keys, strict=True)]
    result = {}
    for row, key in enumerate(keys):
        same = [i for i in range(len(keys)) if keys[i] == key and once[i]] if once[row] else []
        lead = min(same, key=lambda i: sides[i], default=row)
        if lead != row:
            result[row] = lead
    return result


def pairs(sides: list[int], *keys: list[int]) -> dict[int, int]:
    """The row that each row is added to, by SQL."""
    columns = {"line": range(len(sides)), "side": sides}
    columns |= dict(zip(JOIN_KEYS, keys, strict=False))
    with database_of().cursor() as cursor:
        cursor.register("log", pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()}))
        sql = join_pairs("SELECT *, 0 AS file, 0 AS part FROM log", frozenset(columns))
        return dict(cursor.sql(f"SELECT line, lead_line FROM ({sql})").fetchall())


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=20))
def test_rows_are_joined_where_a_key_stands_once_in_each_log(rows):
    sides, keys = [side for side, _ in rows], [key for _, key in rows]
    assert pairs(sides, keys) == brute_force(sides, keys)
    assert pairs(sides, [NO_KEY] * len(keys), keys) == brute_force(sides, keys)


def test_a_later_key_joins_no_rows_that_an_earlier_one_tells_apart():
    assert pairs([0, 0, 1, 1], [1, 2, 1, 3], [5, 6, 6, 5]) == {2: 0}
    assert pairs([0, 0, 1, 1], [1, NO_KEY, 1, NO_KEY], [5, 6, 7, 6]) == {2: 0, 3: 1}


def test_a_later_key_joins_no_second_row_of_a_log():
    assert pairs([0, 1, 1], [1, 1, NO_KEY], [5, NO_KEY, 5]) == {1: 0}
    assert pairs([0, 1, 2], [1, 1, NO_KEY], [5, NO_KEY, 5]) == {1: 0, 2: 0}
