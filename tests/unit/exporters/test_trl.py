import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from opened_logs import opened

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
# What trainers import takes 9 seconds: that is done in functions, by the one worker that needs it.
pytest.importorskip("trl")

from exporters.frameworks.trl_tools import describe_tool_use, segments, timed, with_outcomes  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    # Transformers warns of a renaming that its own and TRL's code has yet to follow.
    "ignore:.*activation_checkpointing:FutureWarning",
)

PROMPTS = ["the sea", "a tree", "even here", "green"]


def count_e(completions: list[str], **_: Any) -> list[float]:
    return [float(text.count("e")) for text in completions]


def short(completions: list[str], **_: Any) -> list[float | None]:
    return [None if "a" in text else -0.1 * len(text) for text in completions]


@dataclass
class Run:
    folder: Path
    lines: list[dict[str, Any]]
    first_model: Any

    def samples(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == "sample"]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        PROMPTS,
        trainers.BpeTrainer(vocab_size=40, special_tokens=["<pad>", "<eos>"], show_progress=False),
    )
    return PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>", eos_token="<eos>")


def trainers_of(name: str) -> tuple[Any, Any, Any]:
    """Of "grpo" or "rloo": the trainer with the hook, TRL's own, and its settings."""
    import trl

    from exporters.trl import ExportGRPOTrainer, ExportRLOOTrainer

    if name == "grpo":
        return ExportGRPOTrainer, trl.GRPOTrainer, trl.GRPOConfig
    return ExportRLOOTrainer, trl.RLOOTrainer, trl.RLOOConfig


def new_trainer(
    folder: Path, trainer: Any, settings_type: Any, hooked: Any, **settings: Any
) -> Any:
    from datasets import Dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    pieces = tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    special = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
    config = Qwen2Config(vocab_size=len(pieces), **sizes, **heads, **special)
    Qwen2ForCausalLM(config).save_pretrained(folder / "model")
    rows = [{"prompt": p, "ground_truth": p.upper(), "env": "text"} for p in PROMPTS * 4]
    return trainer(
        model=Qwen2ForCausalLM.from_pretrained(folder / "model"),
        processing_class=pieces,
        reward_funcs=[count_e, short],
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:4]),
        **hooked,
        args=settings_type(
            output_dir=str(folder / "out"),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=8,
            beta=0.1,
            learning_rate=1e-2,
            reward_weights=[1.0, 2.0],
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            seed=1,
            **settings,
        ),
    )


def train(folder: Path, name: str = "grpo", **settings: Any) -> Run:
    from transformers import Qwen2ForCausalLM

    trainer, _, config = trainers_of(name)
    hooked = {"rollout_dir": str(folder / "run"), "rollout_run": {"name": "test"}}
    new_trainer(folder, trainer, config, hooked, **settings).train()
    (file,) = (folder / "run").glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return Run(folder / "run", lines, Qwen2ForCausalLM.from_pretrained(folder / "model").eval())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two micro batches a step, one use of each rollout, evaluation after every step."""
    return train(
        tmp_path_factory.mktemp("plain"),
        max_steps=2,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=4,
    )


@pytest.fixture(scope="module")
def reused(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Each rollout is used twice within its step, and truncated ones do not enter the loss."""
    return train(
        tmp_path_factory.mktemp("reused"),
        max_steps=2,
        gradient_accumulation_steps=4,
        steps_per_generation=2,
        num_iterations=2,
        mask_truncated_completions=True,
    )


@pytest.fixture(scope="module")
def rloo(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """RLOO with two micro batches a step, and two updates on each rollout."""
    return train(
        tmp_path_factory.mktemp("rloo"),
        "rloo",
        max_steps=2,
        gradient_accumulation_steps=2,
        num_iterations=2,
    )


@pytest.fixture(params=["run", "reused"])
def chosen(request: pytest.FixtureRequest) -> Run:
    return request.getfixturevalue(request.param)


def test_every_rollout_is_exported_once_and_each_step_ends_after_its_own(chosen):
    kinds = [(line["type"], line.get("step")) for line in chosen.lines]
    expected = [("sample", 1)] * 16 + [("step_end", 1)] + [("sample", 2)] * 16 + [("step_end", 2)]
    assert kinds == [("header", None), *expected, ("close", None)]
    assert not pd.DataFrame(chosen.samples()).duplicated(["step", "rollout_id"]).any()


def test_what_stands_beside_a_text_belongs_to_it(chosen):
    decode = tokenizer().decode
    for sample in chosen.samples():
        text = [sample["response"]]
        (count,), (penalty,) = count_e(text), short(text)
        assert sample["rewards"] == {"count_e": count, "short": pytest.approx(penalty)}
        assert sample["reward"] == pytest.approx(count + 2 * (penalty or 0), rel=1e-4)
        assert decode(sample["prompt_ids"]) == sample["prompt"]
        assert decode(sample["response_ids"], skip_special_tokens=True) == sample["response"]
        assert sample["ground_truth"] == sample["prompt"].upper()
        assert sample["env"] == "text"
    assert any(sample["rewards"]["short"] is None for sample in chosen.samples())


def test_groups_hold_the_rollouts_of_one_prompt_and_their_advantages_sum_to_zero(chosen):
    groups = pd.DataFrame(chosen.samples()).groupby(["step", "group_id"])
    assert set(groups.size()) == {4}
    assert set(groups["prompt"].nunique()) == {1}
    assert groups["advantage"].sum().abs().max() < 1e-3


def test_truncation_is_read_off_the_last_token(chosen):
    for sample in chosen.samples():
        stopped = sample["response_ids"][-1] in (0, 1)  # a sampled <pad> ends a response for TRL
        assert sample["is_truncated"] is not stopped
        assert sample["finish_reason"] == ("stop" if stopped else "length")
        assert stopped or len(sample["response_ids"]) == 8


def test_truncated_rollouts_left_out_of_the_loss_keep_their_tokens(reused):
    truncated = [sample for sample in reused.samples() if sample["is_truncated"]]
    assert truncated
    for sample in truncated:
        assert sample["loss_mask"] == [0] * 8
        assert sample["logprobs"] == sample["ref_logprobs"] == sample["entropy"] == [None] * 8
    assert any("loss_mask" not in sample for sample in reused.samples())


def fresh_forward(run: Run, sample: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    ids = torch.tensor([sample["prompt_ids"] + sample["response_ids"]])
    size = len(sample["response_ids"])
    with torch.no_grad():
        logits = run.first_model(ids).logits[0, -size - 1 : -1].double()
    distribution = logits.log_softmax(-1)
    chosen = distribution.gather(1, torch.tensor(sample["response_ids"])[:, None])[:, 0]
    return chosen.numpy(), -(distribution.exp() * distribution).sum(-1).numpy()


def test_numbers_of_the_first_step_and_the_reference_equal_a_fresh_forward(run):
    for sample in run.samples():
        logprobs, entropy = fresh_forward(run, sample)
        assert sample["ref_logprobs"] == pytest.approx(logprobs, rel=2e-4)
        if sample["step"] == 1:
            assert sample["logprobs"] == pytest.approx(logprobs, rel=2e-4)
            assert sample["entropy"] == pytest.approx(entropy, rel=2e-4)
    last = [sample for sample in run.samples() if sample["step"] == 2]
    assert any(sample["logprobs"] != sample["ref_logprobs"] for sample in last)


def test_exported_k3_is_the_kl_that_trl_logs(run):
    for end in (line for line in run.lines if line["type"] == "step_end"):
        samples = [sample for sample in run.samples() if sample["step"] == end["step"]]
        lr = [np.subtract(sample["logprobs"], sample["ref_logprobs"]) for sample in samples]
        per_micro_batch = [np.concatenate(lr[i : i + 8]) for i in (0, 8)]
        k3 = np.mean([np.mean(np.expm1(-x) + x) for x in per_micro_batch])
        assert end["metrics"]["kl"] == pytest.approx(k3, rel=1e-2, abs=1e-6)


def test_the_run_is_described_without_paths(run):
    (file,) = run.folder.glob("run-*.json")
    text = file.read_text()
    described = json.loads(text)
    assert described["name"] == "test"
    assert described["start_step"] == 1
    assert described["config"]["beta"] == 0.1
    assert str(run.folder.parent) not in text


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_training_with_the_hook_has_the_losses_of_training_without(tmp_path, name):
    hooked, plain, config = trainers_of(name)
    results = {}
    kinds = {
        "on": (hooked, {"rollout_dir": str(tmp_path / "rollouts")}),
        "off": (hooked, {"rollout_dir": None}),
        "plain": (plain, {}),
    }
    if name == "rloo":  # it is switched off as that of GRPO is
        del kinds["off"]
    for kind, (trainer, options) in kinds.items():
        folder = tmp_path / kind
        folder.mkdir()
        trained = new_trainer(
            folder, trainer, config, options, max_steps=2, gradient_accumulation_steps=2
        )
        trained.train()
        logs = trained.state.log_history
        results[kind] = [(log["loss"], log["grad_norm"]) for log in logs if "loss" in log]
    assert len(results["on"]) == 2
    assert all(result == results["plain"] for result in results.values())
    assert any(loss for loss, _ in results["on"])
    assert len(list((tmp_path / "rollouts").glob("*.jsonl"))) == 1


def test_an_error_in_the_hook_is_counted_and_training_goes_on(tmp_path, monkeypatch):
    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("exporters.trl.describe_batch", broken)
    run = train(tmp_path, max_steps=1)
    assert run.samples() == []
    assert run.lines[-1]["errors:rewards"] == 1


def test_the_board_opens_what_trl_wrote(run, rloo):
    for written in (run, rloo):
        results = opened(written.folder)
        assert len(results) == len(written.samples())
        for rollout, line in zip(results, written.samples(), strict=True):
            for name in ("reward", "response", "logprobs", "ref_logprobs", "entropy"):
                assert rollout[name] == line[name]


def test_old_and_reference_logprobs_of_rloo_equal_a_fresh_forward(rloo):
    for sample in rloo.samples():
        if sample["step"] <= 2:
            logprobs, _ = fresh_forward(rloo, sample)
            assert sample["ref_logprobs"] == pytest.approx(logprobs, rel=2e-4)
            if sample["step"] == 1:
                assert sample["old_logprobs"] == pytest.approx(logprobs, rel=2e-4)


def test_the_second_update_on_rloo_rollouts_has_moved_from_the_old_policy(rloo):
    first = {s["rollout_id"]: s for s in rloo.samples() if s["step"] == 1}
    again = [s for s in rloo.samples() if s["step"] == 2]
    assert {s["rollout_id"] for s in again} == set(first)
    for sample in again:
        assert sample["old_logprobs"] == first[sample["rollout_id"]]["old_logprobs"]
    assert any(s["logprobs"] != s["old_logprobs"] for s in again)


def test_total_reward_skips_parts_without_a_value():
    from exporters.frameworks.trl_rollouts import total_rewards

    nan = float("nan")
    parts = torch.tensor([[1.0, 2.0], [nan, 2.0], [nan, nan]])
    totals = total_rewards(parts, torch.tensor([1.0, 0.5])).tolist()
    assert totals[:2] == [2.0, 1.0]
    assert np.isnan(totals[2])


def test_a_conversation_is_kept_as_messages_and_as_text():
    from exporters.frameworks.trl_rollouts import describe_rollouts

    prompt = [{"role": "user", "content": "hi"}]
    completion = [{"role": "assistant", "content": "hello"}]
    (row,) = describe_rollouts(3, [5], 4, [prompt], [completion], [[7, 1]], {1})
    assert (row["prompt"], row["response"]) == ("hi", "hello")
    assert row["messages"] == prompt + completion
    assert (row["group_id"], row["rollout_id"]) == ("s3g1", "s3g1r1")


def test_what_trl_did_not_compute_is_not_recorded_as_zero():
    from exporters.frameworks.trl_rollouts import token_arrays

    mask = torch.tensor([[1, 1], [0, 0]])
    arrays = token_arrays({"completion_mask": mask}, torch.zeros(2, 2), None)
    assert set(arrays) == {"logprobs"}
    assert arrays["logprobs"].isnan().tolist() == [[False, False], [True, True]]


def call(name: str) -> dict[str, Any]:
    functions = [{"type": "function", "function": {"name": name, "arguments": {}}}]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def result(name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "name": name, "content": content}


FAILED = "{'error': 'Tool missing not found.'}"
COMPLETION = [
    call("add"),
    result("add", "3"),
    result("missing", FAILED),
    result("add", "7"),
    {"role": "assistant", "content": "10"},
]


def test_a_timed_tool_returns_and_raises_as_before_and_counts_both():
    def halve(number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number // 2

    calls: list[tuple[str, float]] = []
    tools = timed({"halve": halve}, calls)
    assert tools["halve"](number=4) == 2
    with pytest.raises(ValueError, match="odd"):
        tools["halve"](3)
    assert tools["halve"].__name__ == "halve"
    assert [name for name, _ in calls] == ["halve", "halve"]
    assert all(seconds >= 0 for _, seconds in calls)


def test_results_say_how_long_their_call_took_and_whether_it_failed():
    reported = with_outcomes(COMPLETION, [("add", 0.25), ("add", 0.5)], [1.5, 2.5])
    assert [message.get("seconds") for message in reported] == [1.5, 0.25, None, 0.5, 2.5]
    assert [message.get("is_error") for message in reported] == [None, False, True, False, None]
    assert "seconds" not in COMPLETION[1]


def test_segments_are_the_stretches_of_the_mask_with_the_names_of_the_tools():
    assert segments([1, 1, 0, 0, 0, 1], COMPLETION) == [
        {"start": 0, "end": 2, "role": "assistant"},
        {"start": 2, "end": 5, "role": "tool", "name": "add, missing"},
        {"start": 5, "end": 6, "role": "assistant"},
    ]


@pytest.mark.parametrize(
    ("truncated", "completion", "reason"),
    [
        (False, COMPLETION, "stop"),
        (False, COMPLETION[:1], "tool_calls"),
        (True, COMPLETION[:1], "length"),
        (True, [], "length"),
    ],
)
def test_a_rollout_whose_last_call_was_not_served_says_so(truncated, completion, reason):
    rollout: dict[str, Any] = {
        "is_truncated": truncated,
        "finish_reason": "length" if truncated else "stop",
    }
    prompt = [{"role": "user", "content": "add"}]
    describe_tool_use([rollout], [prompt], [completion], ["text"], [[1]])
    assert (rollout["finish_reason"], rollout["response"]) == (reason, "text")
    assert rollout["messages"] == [*prompt, *completion]
