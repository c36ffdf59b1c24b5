"""`rollout-board steps` and `show` give the numbers that pandas gives on the original files."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import yaml
from read_formats import collection, json_lines
from slime_files import torch_data

from board import cli
from board.formats import READERS

DATA = Path(__file__).parent / "data"
Rows = Iterator[tuple[int, float | None]]


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of lines; those of a document."""
    return [json.loads(path.read_text("utf-8"))] if path.suffix == ".json" else json_lines(path)


def of(step: str, number: str, *, where: str = "") -> Callable[[Path], Rows]:
    """Step and number by their keys, of lines that have them."""

    def rows(path: Path) -> Rows:
        yield from ((int(x[step]), x[number]) for x in lines(path) if not where or where in x)

    return rows


def named(pattern: str, number: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Rows]:
    """The step by the path, the number by the line."""

    def rows(path: Path) -> Rows:
        result = re.search(pattern, path.as_posix())
        yield from ((int(result[1]), number(line)) for line in lines(path))

    return rows


def swift(path: Path) -> Rows:
    for line in lines(path):
        yield from zip(map(int, line["step"]), line["reward"], strict=True)


def swift_tables(path: Path) -> Rows:
    for line in lines(path):
        yield from zip(line["gen_step"], line["advantages"], strict=True)


def xtuner_spread(path: Path) -> Rows:
    content, at = path.read_text("utf-8").strip(), 0
    while at < len(content):
        record, end = json.JSONDecoder().raw_decode(content[at:])
        at += end + len(content[at + end :]) - len(content[at + end :].lstrip())
        if "reward" in record:
            yield int(path.stem.rpartition("_")[2]), record["reward"]


def roll(path: Path) -> Rows:
    for line in lines(path):
        yield from zip(line["global_step"], line["scores"], strict=True)


def areal_texts(path: Path) -> Rows:
    for message in re.findall(
        r"^idx: \d+ / \d+, seqlen: \d+, reward is (\S+)\.\nprompt is \n\x1b",
        path.read_text("utf-8"),
        re.M,
    ):
        yield int(path.parent.name), float(message)


def art(path: Path) -> Rows:
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
        yield from ((int(path.stem), r) for r in frame["reward"] if not np.isnan(r))
        return
    groups = yaml.safe_load(path.read_text("utf-8")) if path.suffix == ".yaml" else lines(path)
    yield from ((int(path.stem), t["reward"]) for group in groups for t in group["trajectories"])


def nemo_rl(path: Path) -> Rows:
    step = int(path.stem.removeprefix("train_data_step").removeprefix("val_data_step"))
    for line in lines(path):
        reward = line.get("filtered_rewards", line.get("rewards"))
        yield step, reward[0]


def trl(path: Path) -> Rows:
    frame = pd.read_parquet(path)
    yield from zip(frame["step"].tolist(), frame["advantage"].tolist(), strict=True)


def slime(path: Path) -> Rows:
    content = torch_data(path)
    for sample in content["samples"]:
        reward = sample["reward"]
        yield content["rollout_id"], None if isinstance(reward, dict) else reward


def slime_train(path: Path) -> Rows:
    content = torch_data(path)
    for sample in content["samples"]:
        yield content["rollout_id"], content["raw_reward"][sample["rollout_position"]]


def miles(path: Path) -> Rows:
    lengths = pd.read_parquet(path)["response_length"]
    yield from ((int(path.stem.rpartition("_")[2]), length) for length in lengths)


def rllm(path: Path) -> Rows:
    (episode,) = lines(path)
    yield from ((episode["training_step"], t["reward"]) for t in episode["trajectories"])


def episodes(path: Path) -> Rows:
    (step,) = re.findall(r"step_(\d+)", path.as_posix())
    for trace in lines(path):
        scored = [r for r in trace["rewards"].values() if r is not None]
        yield int(step), sum(r["score"] * r["weight"] for r in scored) if scored else None


def exported(path: Path) -> Rows:
    for line in lines(path):
        remaining = [
            v for v, used in zip(line["mismatch_kl"], line["loss_mask"], strict=True) if used
        ]
        yield line["step"], float(np.nanmean(np.array(remaining, float)))


def summed(score: float | list[float]) -> float:
    return sum(score) if isinstance(score, list) else score


def atropos(path: Path) -> Rows:
    yield from ((0, score) for line in lines(path) for score in line["scores"])


def evalplus(path: Path) -> Rows:
    for own in lines(path)[0]["eval"].values():
        yield from (
            (0, float(x["base_status"] == "pass" and x["plus_status"] == "pass")) for x in own
        )


def samples(path: Path) -> Rows:
    yield from ((x.get("step", 0), x["reward"]) for x in lines(path)[0]["samples"])


def wandb_table(path: Path) -> Rows:
    table = json.loads(path.read_text("utf-8"))
    for row in table["data"]:
        own = dict(zip(table["columns"], row, strict=True))
        yield own["step"], own["reward"]


class Case(NamedTuple):
    """A run, by its folder and the file names in it, and how its numbers are read plainly.

    shown: the number's name in `show`; empty: it is one of tokens.
    """

    folder: str
    files: str
    rows: Callable[[Path], Rows]
    column: str = "reward"
    visible: str = "reward"


CASES = {
    "atropos": Case("atropos/groups", "*.jsonl", atropos),
    "areal": Case("areal/trial0", "*/*/*.jsonl", of("tail_version", "reward")),
    "areal_texts": Case("areal/texts", "*/*/*.txt", areal_texts),
    "areal turns": Case(
        "areal/turns",
        "*/*/*.jsonl",
        named(r"/(\d+)/\d+\.jsonl", lambda x: x.get("original_reward", x["reward"])),
    ),
    "art": Case("art/v1", "**/*.parquet", art),
    "art v2": Case("art/v2", "**/*.parquet", art),
    "art lines": Case("art/lines", "**/*.jsonl", art),
    "art yaml": Case("art/yaml", "**/*.yaml", art),
    "evalplus": Case("evalplus", "*_results.json", evalplus),
    "prime_hosted": Case("prime_hosted", "*.json", samples),
    "wandb_table": Case("wandb_tables/prime_rl", "**/*.json", wandb_table),
    "episodes": Case("prime_rl/bare", "**/*.jsonl", episodes),
    "miles_tokens": Case(
        *("miles/details", "dashboard_columns/*.parquet", miles, "response_tokens"), visible=""
    ),
    "miles_trajectory": Case(
        *("miles/details", "trajectory/*.jsonl", named(r"/(\d+)\.jsonl", lambda x: x["reward"]))
    ),
    "ms_swift": Case("ms_swift/first", "*.jsonl", swift),
    "ms_swift megatron": Case(
        *("ms_swift/megatron", "*.jsonl", swift_tables, "advantage"), visible="advantage"
    ),
    "nemo_gym": Case(
        "nemo_gym", "adder_rollouts.jsonl", lambda p: ((0, x["reward"]) for x in lines(p))
    ),
    "nemo_rl": Case("nemo_rl/exp_001", "*.jsonl", nemo_rl),
    "open_instruct": Case(
        "open_instruct/rollouts", "*.jsonl", of("step", "reward", where="reward")
    ),
    "prime_rl_tokens": Case(
        *("prime_rl/tokens", "**/*.jsonl", exported, "mismatch_kl"), visible=""
    ),
    "relax": Case(
        *("relax/rollout_result", "*/*.jsonl"),
        named(
            r"/(\d+)\.jsonl",
            lambda x: x["reward"]["score"] if isinstance(x["reward"], dict) else x["reward"],
        ),
    ),
    "rllb": Case("rllb/verl", "*.jsonl", of("step", "reward")),
    "rllm": Case("rllm/run", "**/episode_*.json", rllm),
    "roll": Case("roll/rollout_dump", "*.jsonl", roll),
    "skyrl": Case(
        *("skyrl/exports", "**/global_step_*/[!a][!g]*.jsonl"),
        named(r"global_step_(\d+)_evals", lambda x: summed(x["score"])),
    ),
    "slime": Case("slime/details", "rollout_data/*.pt", slime),
    "slime spilled": Case("slime/spilled", "rollout_data/*.pt", slime),
    "slime_train": Case("slime/details", "train_data/*.pt", slime_train),
    "tinker": Case("tinker/texts", "*/*.jsonl", of("iteration", "total_reward")),
    "tinker flat": Case("tinker/flat", "*.jsonl", of("iteration", "total_reward")),
    "trl": Case("trl/chat", "**/*.parquet", trl, "advantage", visible="advantage"),
    "verifiers": Case("prime_rl/rows", "**/*.jsonl", named(r"step_(\d+)", lambda x: x["reward"])),
    "verl": Case("verl/v0", "*.jsonl", of("step", "score")),
    "xtuner spread": Case("xtuner/spread", "*/*.jsonl", xtuner_spread),
    "xtuner": Case(
        *("xtuner/exp", "*/*.jsonl"),
        lambda p: (
            (int(p.stem.rpartition("_")[2]), x["reward"]) for x in lines(p) if "reward" in x
        ),
    ),
}


def reported(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert cli.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def natural(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", path.as_posix())
    return [(int(p), "") if i % 2 else (0, p) for i, p in enumerate(parts)]


def test_every_reader_has_a_case():
    # Numbers of these are held against the files where they are written, or in tests/unit/formats.
    own = {"native", *{"human_eval", "inspect", "lm_eval", "openhands", "qwen_math", "swe_agent"}}
    own |= {"mini_swe_agent", "rllm_telemetry", "tau2", "tau_bench"}
    assert {case.partition(" ")[0] for case in CASES} == {r.name for r in READERS} - own


def copied(case: Case, root: Path) -> pd.DataFrame:
    """The case's files alone, for a folder that others share may be several runs: step, x and split."""
    for path in (DATA / case.folder).glob(case.files):
        (root / path.relative_to(DATA / case.folder)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path.relative_to(DATA / case.folder))
    paths = sorted(root.glob(case.files), key=natural)
    result = [(*row, split_of(p.relative_to(root))) for p in paths for row in case.rows(p)]
    return pd.DataFrame(result, columns=["step", "x", "split"]).astype({"x": float})


def split_of(path: Path) -> str:
    if named := re.search(r"eval_(\w+)_rollout_summaries|(?:^|/)(val)/", path.as_posix()):
        return named[2] or f"eval/{named[1]}"
    return "eval" if re.search(r"eval|val_|_val|(^|/)val/", path.as_posix()) else "train"


def assert_steps(case: Case, steps: list[dict[str, Any]], frame: pd.DataFrame) -> None:
    by_step = frame.groupby("step")["x"]
    assert [row["step"] for row in steps] == list(by_step.groups)
    assert [row["rollouts"] for row in steps] == by_step.size().tolist()
    assert {type(row["rollouts"]) for row in steps} == {int}
    means = np.array([row[f"{case.column}_mean"] for row in steps], float)
    np.testing.assert_allclose(means, by_step.mean(), rtol=1e-5 if not case.visible else 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_steps_and_show_are_pandas_on_the_original_files(name, capsys, tmp_path):
    case, root = CASES[name], tmp_path / "run"
    frame = copied(case, root)
    assert_steps(case, reported(capsys, "steps", str(root), "--split", "all"), frame)
    for split in frame["split"].unique():
        steps = reported(capsys, "steps", str(root), "--split", split)
        assert_steps(case, steps, frame[frame["split"] == split])
    if not case.visible:
        return
    last = frame[frame["step"] == frame["step"].max()]
    place = ("--step", str(last["step"].iloc[-1]), "--index", str(len(last) - 1))
    visible, number = reported(capsys, "show", str(root), *place), last["x"].iloc[-1]
    assert visible["scores"].get(case.visible) == (None if np.isnan(number) else number)


@pytest.mark.parametrize("name", ["nemo_rl", "xtuner", "relax"])
def test_steps_are_of_training_unless_told_otherwise_and_say_so(name, capsys, tmp_path):
    case, root = CASES[name], tmp_path / "run"
    frame = copied(case, root)
    assert set(frame["split"]) == {"train", "eval"}
    assert cli.main(["steps", str(root), "--json"]) == 0
    message = capsys.readouterr()
    assert_steps(case, json.loads(message.out), frame[frame["split"] == "train"])
    left = int((frame["split"] == "eval").sum())
    assert f"rollouts of split train; left out: {left} eval" in message.err


def test_a_run_of_evaluations_alone_gives_them_without_a_word(capsys, tmp_path):
    case, root = CASES["skyrl"], tmp_path / "run"
    frame = copied(case, root)
    assert cli.main(["steps", str(root), "--json"]) == 0
    message = capsys.readouterr()
    assert_steps(case, json.loads(message.out), frame)
    assert "split" not in message.err


Told = Iterator[tuple[int, float | None, list[str]]]
"""Of a line's rollouts the step, the reward, and texts that the response has in this order."""


def said_in(messages: str | list[dict[str, Any]]) -> list[str]:
    return [messages] if isinstance(messages, str) else [m["content"] or "" for m in messages]


def items(row: dict[str, Any]) -> list[str]:
    """The texts of an OpenAI response."""
    result: list[str] = []
    for item in row["response"]["output"]:
        if item["type"] == "message":
            result += [part["text"] for part in item["content"]]
        elif item["type"] == "function_call":
            result.append(f"{item['name']}({item['arguments']})")
        elif item["type"] == "function_call_output":
            result.append(item["output"])
    return result


def traces(row: dict[str, Any]) -> Told:
    """The traces of an episode; one that failed before any is one."""
    step = row["run"]["work"]["step"]
    for trace in row["traces"]:
        scored = [part for part in trace["rewards"].values() if part]
        texts = [node["message"]["content"] or "" for node in trace["nodes"] if node["sampled"]]
        yield step, sum(part["score"] * part["weight"] for part in scored), texts
    if not row["traces"]:
        yield step, None, []


def one(
    step: str | int, reward: str, texts: Callable[[dict[str, Any]], list[str]]
) -> Callable[[dict[str, Any]], Told]:
    """A rollout per line; the step by its key, or the same throughout."""
    return lambda x: iter([(x[step] if isinstance(step, str) else step, x[reward], texts(x))])


REAL = {
    "broken": one(0, "reward", lambda x: said_in(x["completion"])),
    "nemo_gym": one(0, "reward", items),
    "prime_rl": traces,
    "rlloggingboard": one("step", "reward", lambda x: [x["response"]]),
    "verifiers/gsm8k": one(0, "reward", lambda x: said_in(x["completion"])),
    "verifiers/math_python": one(0, "reward", lambda x: said_in(x["completion"])),
    "verifiers/mcp_env": one(0, "reward", lambda x: said_in(x["completion"])),
    "verl": one("step", "score", lambda x: [x["output"]]),
    "xtuner": one(0, "reward", lambda x: [x["response"]]),
}
REFUSED = {
    "broken/lfs_pointer.jsonl": "git lfs pull",
    "prime_rl/traces/stream.index.jsonl": "index another file and hold no rollouts",
}
there = pytest.mark.skipif(not collection().is_dir(), reason="no collection of real log files")


def plainly(folder: Path) -> pd.DataFrame:
    """Step, x and texts of each rollout, its line's numbers beside them; what is no JSON is passed by."""
    result: list[dict[str, Any]] = []
    for path in sorted(folder.rglob("*.jsonl"), key=natural):
        if path.relative_to(collection()).as_posix() in REFUSED:
            continue
        for text in path.read_bytes().split(b"\n"):
            if not text.startswith(b"{"):
                continue
            row = json.loads(text)
            numbers = {k: v for k, v in row.items() if type(v) in (int, float) and k != "step"}
            for step, reward, texts in REAL[folder.relative_to(collection()).as_posix()](row):
                result.append({**numbers, "step": step, "x": reward, "texts": texts})
    return pd.DataFrame(result).astype({"x": float})


@there
def test_every_real_folder_has_a_case():
    homes = {p.parent.relative_to(collection()).as_posix() for p in collection().rglob("*.jsonl")}
    assert {next((n for n in REAL if f"{home}/".startswith(f"{n}/")), "") for home in homes} == {
        *REAL
    }


@there
@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_steps_that_pandas_finds(name, capsys):
    frame = plainly(collection() / name)
    steps = reported(capsys, "steps", str(collection() / name), "--split", "all")
    assert_steps(Case(name, "", of("", "")), steps, frame)
    by_step = frame.groupby("step")
    np.testing.assert_allclose(
        np.array([row["reward_std"] for row in steps], float), by_step["x"].std(), rtol=1e-12
    )
    for column in (set(frame) - {"step", "x"}) & {key.removesuffix("_mean") for key in steps[0]}:
        np.testing.assert_allclose([r[f"{column}_mean"] for r in steps], by_step[column].mean())


@there
@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_rollouts_that_stand_in_them(name, capsys):
    frame = plainly(collection() / name)
    for step in {frame["step"].min(), frame["step"].max()}:
        own = frame[frame["step"] == step].reset_index(drop=True)
        for index in {0, len(own) // 2, len(own) - 1}:
            place = ("--step", str(step), "--index", str(index))
            visible = reported(capsys, "show", str(collection() / name), *place)
            reward = own["x"][index]
            assert visible["scores"].get("reward") == (None if np.isnan(reward) else reward)
            at = 0
            for text in own["texts"][index]:
                at = visible["texts"]["response"].index(text, at) + len(text)


@there
def test_real_files_are_recognised_or_refused_for_the_right_reason(capsys):
    files = reported(capsys, "sniff", str(collection()))["files"]
    reasons = {Path(f["path"]).relative_to(collection()).as_posix(): f["reason"] for f in files}
    assert reasons.keys() == {
        p.relative_to(collection()).as_posix() for p in collection().rglob("*.jsonl")
    }
    assert {name for name, reason in reasons.items() if reason} == {*REFUSED}
    assert all(text in reasons[name] for name, text in REFUSED.items())
