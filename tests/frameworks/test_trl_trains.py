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


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("sft", {}),
        ("sft", {"by_turn": True}),
        ("dpo", {}),
        ("dpo", {"by_turn": True}),
    ],
    ids=["sft", "sft by turn", "dpo", "dpo by turn"],
)
def test_a_trainer_takes_two_steps_on_the_set(kind, options, tmp_path: Path):
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    FORMATS["trl"](tmp_path / "log", draw_rollouts(1))
    target = tmp_path / "set.parquet"
    write_dataset(
        run_at(tmp_path / "log"), Request(kind, target, **options), lambda done, total: None
    )
    data = datasets.load_dataset(
        "parquet", data_files=str(target), cache_dir=str(tmp_path / "cache"), split="train"
    )
    settings = {
        "output_dir": str(tmp_path / "out"),
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "max_length": None,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "save_strategy": "no",
        "logging_steps": 1,
    }
    if kind == "sft":
        masked = {} if options else {"assistant_only_loss": True}
        config: Any = SFTConfig(**settings, **masked)
        trainer: Any = SFTTrainer(model(), config, train_dataset=data, processing_class=tokenizer())
    else:
        config = DPOConfig(**settings)
        models = {"model": model(), "ref_model": model()}
        trainer = DPOTrainer(
            **models, args=config, train_dataset=data, processing_class=tokenizer()
        )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 2
    assert all(loss > 0 for loss in losses)
    if kind == "sft":
        (batch,) = [next(iter(trainer.get_train_dataloader()))]
        learned = batch["input_ids"][0][batch["labels"][0] >= 0]
        text = tokenizer().decode(learned)
        assert "Question" not in text
        assert "result" not in text
        assert text
