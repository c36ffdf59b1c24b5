import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from read_formats import records, run_at

from exporters import RolloutExporter

ujson = pytest.importorskip("ujson")

LOADED = (
    *("prompt", "response", "ref_response", "reward", "ref_reward", "response_tokens"),
    *("logprobs", "ref_logprobs", "probs", "ref_probs", "values", "token_rewards"),
    *("kl", "avg_kl", "log_ratio", "valid_reward", "response_tokens_len", "ground_truth"),
)


class SmallTokenizer:
    all_special_ids = (0,)
    pieces = ("<pad>", "two", " plus", " four")

    def __len__(self) -> int:
        return len(self.pieces)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.pieces[i] for i in ids]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.convert_ids_to_tokens(ids))


def load_as_the_original_does(folder: Path) -> dict[int, dict[str, list[Any]]]:
    """What RLLoggingBoard's load_log_file (HarderThenHarder/RLLoggingBoard@cf56d5d) makes of a folder.

    Every value goes into a list by step and key; a line that raises is an error here, where the
    original shows a toast and goes on without it.
    """
    steps: dict[int, dict[str, list[Any]]] = {}
    for path in folder.glob("*.jsonl"):
        for line in path.read_text(encoding="utf8", errors="ignore").splitlines():
            record = ujson.loads(line)
            step = steps.setdefault(int(record["step"]), {key: [] for key in LOADED})
            for key in step:
                if key in record:
                    step[key].append(record[key])
            step["response_tokens_len"].append(len(record["response_tokens"]))
            logp, ref = np.array(record["logprobs"]), np.array(record["ref_logprobs"])
            log_ratio = logp - ref
            kl = np.exp(log_ratio) - 1 - log_ratio
            step["log_ratio"].append(log_ratio.tolist())
            step["kl"].append(kl.tolist())
            step["avg_kl"].append(np.nanmean(kl))
            step["probs"].append(np.exp(logp).tolist())
            step["ref_probs"].append(np.exp(ref).tolist())
    return steps


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    nan = float("nan")
    with RolloutExporter(tmp_path, dialect="rllb", tokenizer=SmallTokenizer()) as exporter:
        for step in (1, 2):
            exporter.log(
                step,
                prompt_ids=[[1], [1]],
                response_ids=[[2, 3], [3, 0]],
                response_mask=[[1, 1], [1, 0]],
                logprobs=[[-0.5, nan], [-0.25, 0.0]],
                ref_logprobs=[[-0.5, -1.0], [-0.5, 0.0]],
                loss_mask=[[1, 0], [1, 0]],
                rewards=[1.0, nan],
                meta={"ground_truth": ["6", None], "ref_reward": [0.5, None]},
            )
            exporter.end_step(step)
    assert exporter.counts["records"] == 4
    return tmp_path


def test_the_original_loads_every_rollout_with_lists_of_equal_length(folder):
    steps = load_as_the_original_does(folder)
    assert sorted(steps) == [1, 2]
    for step in steps.values():
        assert {len(values) for values in step.values()} <= {0, 2}, "a gap shifts what follows"
        assert step["prompt"] == ["two", "two"]
        assert step["response"] == [" plus four", " four"]
        assert step["response_tokens"] == [[" plus", " four"], [" four"]]
        assert step["reward"] == [1, 0]
        assert step["ground_truth"] == ["6", ""]
        assert step["logprobs"] == [[-0.5, 0], [-0.25]]
        assert all(np.isfinite(step["avg_kl"]))


def test_its_lists_stay_aligned_where_some_rollouts_have_no_values(tmp_path):
    with RolloutExporter(tmp_path, dialect="rllb") as exporter:
        exporter.log_ragged(
            1,
            token_ids=[[1, 2], [1, 2], [3]],
            response_lengths=[1, 1, 1],
            logprobs=[[-1.0], None, [-3.0]],
            ref_logprobs=[[-1.0], None, None],
        )
    step = load_as_the_original_does(tmp_path)[1]
    assert step["logprobs"] == [[-1], [0], [-3]]
    assert step["ref_logprobs"] == [[-1], [0], [0]]
    assert step["response"] == ["2", "2", "3"]


def test_no_line_is_anything_but_a_rollout_and_the_folder_is_found_by_its_name(folder):
    (path,) = folder.glob("*.jsonl")
    assert path.name.endswith("_rank0.jsonl")
    assert all("prompt" in json.loads(line) for line in path.read_text().splitlines())


def test_the_board_opens_the_folder_without_a_problem(folder):
    run = run_at(folder)
    assert not [p for p in run.problems if p.severity != "note"]
    assert run.counts == {1: 2, 2: 2}
    for record in records(run):
        assert len(record.tokens["logprobs"]) == len(record.response_tokens or ())
    record = records(run)[0]
    assert list(record.response_tokens or ()) == [" plus", " four"]
    assert record.tokens["logprobs"].values().tolist() == [-0.5, 0.0]
