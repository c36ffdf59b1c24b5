"""TRL's own trainers train two steps on each data set, and learn what is meant to be learned alone."""

import os
from pathlib import Path
from typing import Any

import pytest
from drawn_logs import FORMATS, draw_rollouts
from read_formats import run_at

from board.datasets.export import Request, write_dataset

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

pytestmark = pytest.mark.filterwarnings(
    # Transformers warns of a renaming that its own and TRL's code has yet to follow.
    "ignore:.*activation_checkpointing:FutureWarning",
)

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<eos>{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<pad>", "<eos>", *alphabet]
    bpe = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    own = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>", eos_token="<eos>")
    own.chat_template = TEMPLATE
    return own


def model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 4096}
    return LlamaForCausalLM(LlamaConfig(vocab_size=258, **size, **heads))


def judge() -> Any:
    """A model that gives a conversation one score."""
    from transformers import LlamaForSequenceClassification

    config = model().config
    config.num_labels, config.pad_token_id = 1, 0
    return LlamaForSequenceClassification(config)


def made(kind: str, learner: str, data: Any, options: dict[str, Any], folder: Path) -> Any:
    """The trainer of a kind of data set."""
    import trl

    settings = {
        "output_dir": str(folder / "out"),
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "max_length": None,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "save_strategy": "no",
        "logging_steps": 1,
    }
    given = {"train_dataset": data, "processing_class": tokenizer()}
    if kind == "sft":
        masked = {} if options else {"assistant_only_loss": True}
        return trl.SFTTrainer(model(), trl.SFTConfig(**settings, **masked), **given)
    if learner == "reward":
        return trl.RewardTrainer(judge(), trl.RewardConfig(**settings), **given)
    return trl.DPOTrainer(model(), model(), trl.DPOConfig(**settings), **given)


BY_TURN = {"by_turn": True}
CASES = [
    ("sft", "sft", {}, "trl", "set.parquet"),
    ("sft", "sft", BY_TURN, "verifiers", "set.parquet"),
    ("dpo", "dpo", {}, "trl", "set"),
    ("dpo", "dpo", BY_TURN, "native lists", "set.parquet"),
    ("dpo", "reward", {}, "native", "set"),
    ("dpo", "reward", BY_TURN, "trl", "set.jsonl"),
]


@pytest.mark.parametrize(("kind", "learner", "options", "log", "name"), CASES)
def test_a_trainer_takes_two_steps_on_the_set(kind, learner, options, log, name, tmp_path: Path):
    FORMATS[log](tmp_path / "log", draw_rollouts(1))
    target = tmp_path / name
    write_dataset(
        run_at(tmp_path / "log"), Request(kind, target, **options), lambda done, total: None
    )
    cache = {"cache_dir": str(tmp_path / "cache"), "split": "train"}
    if target.is_dir():
        data = datasets.load_dataset(str(target), **cache)
    else:
        suffix = {".parquet": "parquet", ".jsonl": "json"}[target.suffix]
        data = datasets.load_dataset(suffix, data_files=str(target), **cache)
    trainer = made(kind, learner, data, options, tmp_path)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 2
    assert all(loss > 0 for loss in losses)
    if kind == "sft":
        batch = next(iter(trainer.get_train_dataloader()))
        learned = batch["input_ids"][0][batch["labels"][0] >= 0]
        text = tokenizer().decode(learned)
        assert "Question" not in text
        assert "result" not in text
        assert text
