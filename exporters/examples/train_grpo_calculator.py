"""GRPO with tools on the CPU, from a random start, logged twice: by the exporter and by TRL itself.

    python -m exporters.examples.train_grpo_calculator --out runs/calculator --trl-out runs/calculator_trl

A small transformer learns the format from demonstrations, good and bad ones (warm-up, supervised);
then GRPO makes it call its tools without errors and copy what they return. TRL makes the calls: at
most four times, with two environments, the results outside the loss.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

# Before the libraries look: nothing is downloaded, and environments are known to be experimental.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import datasets
import torch
import transformers
import trl
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM
from trl.trainer.grpo_config import GRPOConfig

from exporters.examples.calculator import (
    ENVIRONMENTS,
    REWARDS,
    Message,
    Problem,
    demonstration,
    draw_problem,
)
from exporters.examples.small_model import (
    WARM_UP_BATCH,
    Batch,
    new_model,
    padded_batch,
    tokenizer_of,
    warm_up,
)
from exporters.trl import ExportGRPOTrainer

MARKERS = ("<system>", "<user>", "<assistant>", "<tool>", "<tool_call>", "</tool_call>")
CHAT_TEMPLATE = """
{%- for message in messages -%}
{{ '<' + message.role + '>' }}
{%- if message.role == 'assistant' -%}
{% generation %}{{ message.content }}
{%- for call in message.tool_calls or [] -%}
{{ '<tool_call>' + call.function.name }}
{%- for name, value in call.function.arguments.items() %}{{ '(' + name + '="' + value + '")' }}
{%- endfor -%}
{{ '</tool_call>' }}
{%- endfor -%}
{{ '<eos>' }}{% endgeneration %}
{%- else -%}
{{ message.content }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<assistant>' }}{%- endif -%}
"""
RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<assistant>",
    "fields": {
        "tool_calls": {
            "open_pattern": r"<tool_call>(?P<name>\w+)",
            "close_pattern": r"</tool_call>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r'\((?P<key>\w+)="(?P<value>[^"]*)"\)'},
            "transform": {
                "type": "function",
                "function": {"name": "{name}", "arguments": "{content}"},
            },
        },
        "content": {"close_pattern": r"<eos>", "content": "text"},
    },
}


def main() -> None:
    """Warms up, then trains with GRPO."""
    options = parse_options()
    torch.manual_seed(options.seed)
    tokenizer = chat_tokenizer(options.seed)
    started = time.time()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.warmed_up or scratch)
        if not (folder / "config.json").exists():
            model = new_model(tokenizer)
            warm_up(model, demonstrations(tokenizer, options.warm_up_steps, options.seed + 1))
            model.save_pretrained(folder)
        print(f"warm-up: {time.time() - started:.0f} s", flush=True)
        started = time.time()
        train(folder, tokenizer, options)
        print(f"GRPO: {time.time() - started:.0f} s", flush=True)


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="folder of the run's log")
    add(
        "--trl-out",
        required=True,
        help="folder of what TRL writes: completions, trainer_state.json",
    )
    add("--steps", type=int, default=60, help="GRPO steps of 3 prompts x 8 rollouts")
    add("--problems", type=int, default=48, help="how many problems GRPO trains on")
    add("--max-tokens", type=int, default=120, help="length limit of a response, results included")
    add("--max-calls", type=int, default=4, help="how often a rollout may call tools")
    add("--learning-rate", type=float, default=1e-4)
    add("--beta", type=float, default=0.02, help="weight of the KL to the warmed-up model")
    add("--warm-up-steps", type=int, default=300, help="supervised steps of 32 demonstrations")
    add("--warmed-up", help="folder of the warmed-up model: made if missing, else started from")
    add("--seed", type=int, default=17)
    return parser.parse_args()


def chat_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """A tokenizer trained on demonstrations, with a marker for each role and around each call."""
    rng = random.Random(seed)
    texts: list[str] = []
    for _ in range(4000):
        problem = draw_problem(rng)
        messages = [*problem.prompt, *demonstration(problem, rng)]
        for message in messages:
            functions = [call["function"] for call in message.get("tool_calls", [])]
            texts += [
                f'{f["name"]}({k}="{v}")' for f in functions for k, v in f["arguments"].items()
            ]
            texts.append(message["content"])
    tokenizer = tokenizer_of(texts, MARKERS)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.response_template = RESPONSE_TEMPLATE
    return tokenizer


def demonstrations(tokenizer: PreTrainedTokenizerFast, steps: int, seed: int) -> Any:
    """Batches of demonstrations; the loss is on what the assistant says."""
    rng = random.Random(seed)
    for _ in range(steps):
        problems = [draw_problem(rng) for _ in range(WARM_UP_BATCH)]
        yield demonstration_batch(
            tokenizer, [[*p.prompt, *demonstration(p, rng)] for p in problems]
        )


def demonstration_batch(
    tokenizer: PreTrainedTokenizerFast, conversations: list[list[Message]]
) -> Batch:
    """Ids and labels of whole conversations."""
    rendered: Any = tokenizer.apply_chat_template(
        conversations, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    taught = [[bool(token) for token in mask] for mask in rendered["assistant_masks"]]
    return padded_batch(list(zip(rendered["input_ids"], taught, strict=True)))


def train(folder: Path, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace) -> None:
    """GRPO, rollouts exported to `options.out`; TRL's own files go to `options.trl_out`."""
    rng = random.Random(options.seed + 2)
    problems = [draw_problem(rng) for _ in range(options.problems)]
    versions = {m.__name__: m.__version__ for m in (torch, transformers, trl, datasets)}
    trainer = ExportGRPOTrainer(
        # From a folder, because TRL loads the reference policy from where the model came from.
        model=Qwen2ForCausalLM.from_pretrained(folder),
        processing_class=tokenizer,
        reward_funcs=REWARDS,
        environment_factory=ENVIRONMENTS,
        train_dataset=datasets.Dataset.from_list(list(map(dataset_row, problems))),
        args=grpo_config(options),
        rollout_dir=options.out,
        rollout_run={"versions": versions},
    )
    trainer.train()
    trainer.save_state()


def dataset_row(problem: Problem) -> dict[str, Any]:
    """What TRL hands to the environment and to the rewards."""
    return {
        "prompt": problem.prompt,
        "ground_truth": str(problem.answer),
        "env": problem.env,
        "environment": problem.env,
        "prices": json.dumps(problem.prices),
    }


def grpo_config(options: argparse.Namespace) -> GRPOConfig:
    """The settings of GRPO: 3 prompts x 8 rollouts a step; completions written at every step."""
    return GRPOConfig(
        output_dir=options.trl_out,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=24,
        num_generations=8,
        max_completion_length=options.max_tokens,
        max_tool_calling_iterations=options.max_calls,
        max_steps=options.steps,
        learning_rate=options.learning_rate,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        beta=options.beta,
        temperature=1.0,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=0,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        seed=options.seed,
    )


if __name__ == "__main__":
    main()
