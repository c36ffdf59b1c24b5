"""TRL trains tiny models in six configurations; each number of the log is the trainer's own.

Not collected with the other tests, for it takes two minutes: pytest -n0 tests/frameworks/trl_runs.py
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from board.cli import main  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
LETTERS = "abcdefghij"
OF_A_RANDOM_MODEL = {"truncation", "duplicates", "repetition", "zero_std_groups"}

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo, as it comes": ("grpo", {}),
    "dapo": ("grpo", {"loss_type": "dapo", "epsilon_high": 0.28}),
    "several updates on a batch": ("grpo", {"num_iterations": 2, "beta": 0.04}),
    "a generation over several steps": ("grpo", {"steps_per_generation": 4, "beta": 0.04}),
    "truncated ones left out": ("grpo", {"mask_truncated_completions": True, "beta": 0.04}),
    "rloo": ("rloo", {"num_iterations": 2, "reward_clip_range": (-0.2, 0.6)}),
}


def vowels(completions: list[str], **_: Any) -> list[float]:
    return [sum(letter in "aei" for letter in text) / (len(text) or 1) for text in completions]


def short(completions: list[str], **_: Any) -> list[float | None]:
    return [None if "j" in text else -0.01 * len(text) for text in completions]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<pad>", "<eos>", *LETTERS]
    words = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, "<pad>"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )


def recording(trainer: type, losses: list[dict[str, Any]]) -> type:
    """The trainer, which also keeps what its loss saw, a dict a row."""

    class Recording(trainer):
        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
            self.seen = super()._get_per_token_logps_and_entropies(*args, **kwargs)
            return self.seen

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            loss = super()._compute_loss(model, inputs)
            arrays = {"logprobs": self.seen[0], "entropy": self.seen[1]}
            names = {"old_logprobs": "old_per_token_logps", "ref_logprobs": "ref_per_token_logps"}
            arrays |= {ours: inputs.get(theirs) for ours, theirs in names.items()}
            for row, ids in enumerate(inputs["completion_ids"]):
                mask = inputs["completion_mask"][row].bool()
                values = {n: a[row][mask].detach() for n, a in arrays.items() if a is not None}
                losses.append(
                    {
                        "step": self.state.global_step + 1,
                        "prompt_ids": inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()],
                        "response_ids": ids[mask],
                        "advantage": inputs["advantages"][row],
                        **values,
                    }
                )
            return loss

    return Recording


def trained(folder: Path, name: str, settings: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    from datasets import Dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl import GRPOConfig, RLOOConfig

    from exporters.trl import ExportGRPOTrainer, ExportRLOOTrainer

    pieces, losses = tokenizer(), list[dict[str, Any]]()
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "initializer_range": 0.3}
    special = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=len(pieces), **sizes, **heads, **special)
    Qwen2ForCausalLM(config).save_pretrained(folder / "model")
    kind, made_of = (
        (GRPOConfig, ExportGRPOTrainer) if name == "grpo" else (RLOOConfig, ExportRLOOTrainer)
    )
    prompts = [{"prompt": a + b} for a in LETTERS for b in LETTERS]
    trainer = recording(made_of, losses)(
        model=Qwen2ForCausalLM.from_pretrained(folder / "model"),
        processing_class=pieces,
        reward_funcs=[vowels, short],
        train_dataset=Dataset.from_list(prompts),
        rollout_dir=str(folder / "runs" / "one"),
        args=kind(
            output_dir=str(folder / "out"),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            max_steps=8,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            num_generations=4,
            max_completion_length=32,
            learning_rate=1e-3,
            temperature=0.9,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            seed=1,
            **settings,
        ),
    )
    trainer.train()
    return trainer, losses


def records(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted((folder / "runs" / "one").glob("*-rank*.jsonl")):
        for line in map(json.loads, file.read_text().splitlines()):
            if line["type"] == "sample":
                yield line


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_each_number_is_the_trainers_and_no_finding_is_wrong(tmp_path, configuration, capsys):
    _, losses = trained(tmp_path, *CONFIGURATIONS[configuration])
    logged: dict[Any, list[dict[str, Any]]] = {}
    for line in records(tmp_path):
        trained_ids = line["response_ids"] if 0 not in line.get("loss_mask", [1])[:1] else []
        key = (line["step"], tuple(line["prompt_ids"]), tuple(trained_ids))
        logged.setdefault(key, []).append(line)
    assert losses
    for row in losses:
        key = (row["step"], tuple(row["prompt_ids"].tolist()), tuple(row["response_ids"].tolist()))
        assert key in logged
        for name, values in row.items():
            if not torch.is_tensor(values) or not values.is_floating_point() or not values.numel():
                continue
            closest = min(
                float((torch.as_tensor(line[name], dtype=torch.float64) - values).abs().max())
                for line in logged[key]
            )
            assert closest <= 2e-4 * max(1.0, float(values.abs().max())), (name, row["step"])
    capsys.readouterr()
    main(["findings", str(tmp_path / "runs" / "one"), "--json"])
    found = json.loads(capsys.readouterr().out)["rows"]
    assert {finding["rule"] for finding in found} <= OF_A_RANDOM_MODEL
