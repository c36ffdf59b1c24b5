"""GRPO on the CPU, from a random start, with every rollout exported.

    torchrun --nproc-per-node 2 -m exporters.examples.train_grpo_arithmetic --out runs/honest
    torchrun --nproc-per-node 2 -m exporters.examples.train_grpo_arithmetic --out runs/loophole \
        --reward loophole --max-tokens 56 --steps 100
    torchrun --nproc-per-node 1 -m exporters.examples.train_grpo_arithmetic --out runs/honest \
        --checkpoints runs/checkpoints --resume

A small transformer learns the format from worked solutions (warm-up, supervised), then GRPO makes
it calculate better. With `--reward loophole` every equation shown earns something, right or wrong,
and GRPO makes it show equations instead. With `--resume` it goes on from the last checkpoint, on any
number of ranks.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

# Before the libraries look: nothing is downloaded, and `rollout_func` is known to be experimental.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import datasets
import torch
import torch.distributed as dist
import transformers
import trl
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM
from trl.trainer.grpo_config import GRPOConfig

from exporters.examples.arithmetic import REWARDS, draw_problem
from exporters.examples.small_model import (
    Bfloat16Sampler,
    greedy_accuracy,
    make_warmed_up,
    train_tokenizer,
)
from exporters.trl import ExportGRPOTrainer


def main() -> None:
    """Warms up, measures, trains with GRPO, measures again."""
    options = parse_options()
    torch.manual_seed(options.seed)
    dist.init_process_group("gloo")
    tokenizer = train_tokenizer(options.seed)
    started = time.time()
    folder = warmed_up_model(tokenizer, options)
    say(f"warm-up: {time.time() - started:.0f} s")
    # From a folder, because TRL loads the reference policy from where the model came from.
    model = Qwen2ForCausalLM.from_pretrained(folder)
    say(f"greedy accuracy before GRPO: {greedy_accuracy(model, tokenizer, options.seed + 3):.3f}")
    started = time.time()
    train(model, tokenizer, options)
    say(f"GRPO: {time.time() - started:.0f} s")
    say(f"greedy accuracy after GRPO: {greedy_accuracy(model, tokenizer, options.seed + 3):.3f}")
    dist.destroy_process_group()


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="folder of the run's log")
    add("--reward", choices=sorted(REWARDS), default="honest")
    add("--steps", type=int, default=150, help="GRPO steps of 4 prompts x 8 rollouts")
    add("--problems", type=int, default=48, help="how many problems GRPO trains on")
    add("--max-tokens", type=int, default=34, help="length limit of a response")
    add("--learning-rate", type=float, default=1e-4)
    add("--beta", type=float, default=0.02, help="weight of the KL to the warmed-up model")
    add("--warm-up-steps", type=int, default=400, help="supervised steps of 32 solutions")
    add("--warmed-up", help="folder of the warmed-up model: made if missing, else started from")
    add("--checkpoints", help="folder of checkpoints; default: none are kept")
    add("--save-every", type=int, default=5, help="steps between two checkpoints")
    add("--resume", action="store_true", help="go on from the last checkpoint")
    add("--seed", type=int, default=17)
    return parser.parse_args()


def warmed_up_model(tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace) -> Path:
    """The folder of the warmed-up model; rank 0 trains it where it is not there yet."""
    folder = [options.warmed_up or (tempfile.mkdtemp() if dist.get_rank() == 0 else "")]
    dist.broadcast_object_list(folder)
    path = Path(folder[0])
    if dist.get_rank() == 0:
        threads = torch.get_num_threads()
        torch.set_num_threads(os.cpu_count() or 1)
        make_warmed_up(path, tokenizer, options.warm_up_steps, options.seed + 1)
        torch.set_num_threads(threads)
    dist.barrier()
    return path


def train(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace
) -> None:
    """GRPO over all ranks, rollouts exported to `options.out`."""
    rng = random.Random(options.seed + 2)
    problems = [draw_problem(rng) for _ in range(options.problems)]
    rows = [{"prompt": p.prompt, "ground_truth": str(p.answer), "env": p.env} for p in problems]
    versions = {m.__name__: m.__version__ for m in (torch, transformers, trl, datasets)}
    with tempfile.TemporaryDirectory() as scratch:
        trainer = ExportGRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=REWARDS[options.reward],
            rollout_func=Bfloat16Sampler(model, options.max_tokens),
            train_dataset=datasets.Dataset.from_list(rows),
            args=grpo_config(options, options.checkpoints or scratch),
            rollout_dir=options.out,
            rollout_run={"reward": options.reward, "versions": versions},
        )
        trainer.train(resume_from_checkpoint=options.resume)


def grpo_config(options: argparse.Namespace, folder: str) -> GRPOConfig:
    """The settings of GRPO: 4 prompts x 8 rollouts a step; no tracker."""
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        ddp_backend="gloo",
        per_device_train_batch_size=32 // dist.get_world_size(),
        num_generations=8,
        max_completion_length=options.max_tokens,
        max_steps=options.steps,
        learning_rate=options.learning_rate,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        beta=options.beta,
        temperature=1.0,
        logging_steps=1,
        report_to=[],
        save_strategy="steps" if options.checkpoints else "no",
        save_steps=options.save_every,
        disable_tqdm=True,
        seed=options.seed,
    )


def say(text: str) -> None:
    """Prints on rank 0 only."""
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
