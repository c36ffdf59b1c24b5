"""A tokenizer and a small transformer, both made from nothing within minutes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from exporters.examples.arithmetic import correct, draw_problem, worked_solution

PAD, EOS = "<pad>", "<eos>"
PAD_ID, EOS_ID = 0, 1  # the tokenizer numbers its special tokens first
VOCABULARY_SIZE = 400
WARM_UP_BATCH = 32

Batch = tuple[torch.Tensor, torch.Tensor]
"""Ids and labels [B, T] of a supervised step."""


def train_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE trained on the text of the arithmetic task."""
    rng = random.Random(seed)
    problems = [draw_problem(rng) for _ in range(4000)]
    return tokenizer_of([p.prompt + worked_solution(p, rng) for p in problems])


def tokenizer_of(texts: list[str], markers: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """A byte-level BPE trained on `texts`; each of `markers` is one token of its own."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY_SIZE,
            special_tokens=[PAD, EOS, *markers],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD,
        eos_token=EOS,
        extra_special_tokens=list(markers),
        padding_side="left",
    )


def new_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Two million random weights in four layers."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=192,
            intermediate_size=576,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=256,
            bos_token_id=None,
            eos_token_id=EOS_ID,
            pad_token_id=PAD_ID,
        )
    )


def warm_up(model: Any, batches: Iterable[Batch]) -> None:
    """Supervised training, a step for each batch of ids and labels."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.02, total_iters=50)
    for step, (ids, labels) in enumerate(batches, 1):
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(f"warm-up step {step}: loss {loss.item():.4f}", flush=True)


def make_warmed_up(folder: Path, tokenizer: PreTrainedTokenizerFast, steps: int, seed: int) -> None:
    """Trains a new model on worked solutions and saves it, unless `folder` holds one already."""
    if not (folder / "config.json").exists():
        model = new_model(tokenizer)
        rng = random.Random(seed)
        warm_up(model, (solution_batch(tokenizer, rng, WARM_UP_BATCH) for _ in range(steps)))
        model.save_pretrained(folder)


def solution_batch(tokenizer: PreTrainedTokenizerFast, rng: random.Random, size: int) -> Batch:
    """Prompts with worked solutions; the loss is on the solution only."""
    rows: list[tuple[list[int], list[bool]]] = []
    for _ in range(size):
        problem = draw_problem(rng)
        prompt = tokenizer.encode(problem.prompt)
        solution = tokenizer.encode(worked_solution(problem, rng))
        taught = [False] * len(prompt) + [True] * (len(solution) + 1)
        rows.append(([*prompt, *solution, EOS_ID], taught))
    return padded_batch(rows)


def padded_batch(rows: Sequence[tuple[list[int], list[bool]]]) -> Batch:
    """Rows of token ids, right padded; labels are -100 where a token is not to be learned."""
    width = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), width), PAD_ID)
    labels = torch.full((len(rows), width), -100)
    for row, (tokens, taught) in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        learned = torch.tensor(taught).nonzero()[:, 0]
        labels[row, learned] = ids[row, learned]
    return ids, labels


@torch.no_grad()
def greedy_accuracy(
    model: Any, tokenizer: PreTrainedTokenizerFast, seed: int, size: int = 256
) -> float:
    """Share of right answers to `size` random problems, without sampling."""
    model.eval()
    rng = random.Random(seed)
    problems = [draw_problem(rng) for _ in range(size)]
    batch = tokenizer([p.prompt for p in problems], return_tensors="pt", padding=True)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    output = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=48, do_sample=False)
    texts = tokenizer.batch_decode(output[:, ids.shape[1] :], skip_special_tokens=True)
    return sum(correct(texts, [str(p.answer) for p in problems])) / size


class Bfloat16Sampler:
    """Samples rollouts from a bfloat16 copy of the policy, as inference engines do.

    Trained is in float32, so that sampler and trainer disagree a little about every token; the
    logprobs returned are the sampler's own, before any trainer saw the tokens.
    """

    def __init__(self, model: Any, max_tokens: int) -> None:
        self.copy: Any = type(model)(model.config).to(torch.bfloat16).eval()
        self.max_tokens = max_tokens

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """TRL's `rollout_func`: ids of prompts and responses, and the responses' logprobs."""
        tokenizer = trainer.processing_class
        self.copy.load_state_dict(trainer.accelerator.unwrap_model(trainer.model).state_dict())
        batch = tokenizer(prompts, return_tensors="pt", padding=True)
        ids, logprobs = self.sample(batch["input_ids"], batch["attention_mask"])
        lengths = [response_length(row) for row in ids.tolist()]
        return {
            "prompt_ids": [tokenizer.encode(prompt) for prompt in prompts],
            "completion_ids": [row[:n] for row, n in zip(ids.tolist(), lengths, strict=True)],
            "logprobs": [row[:n] for row, n in zip(logprobs.tolist(), lengths, strict=True)],
        }

    @torch.no_grad()
    def sample(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sampled ids [B, T] and their logprobs [B, T] at temperature 1 over the whole vocabulary."""
        output = self.copy.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=self.max_tokens,
            do_sample=True,
            top_k=0,
            return_dict_in_generate=True,
            output_logits=True,
        )
        sampled = output.sequences[:, ids.shape[1] :]
        log_probs = torch.stack(output.logits, dim=1).float().log_softmax(-1)
        return sampled, log_probs.gather(-1, sampled[..., None])[..., 0]


def response_length(ids: list[int]) -> int:
    """Number of tokens up to and with the first end of text; all of them where there is none."""
    return ids.index(EOS_ID) + 1 if EOS_ID in ids else len(ids)
