"""verl's dumps of training and validation rollouts: {step}.jsonl, one rollout per line, texts only.

Read from verl-project/verl@1dda039 verl/trainer/ppo/ray_trainer.py (`_write_generations`) and
verl/trainer/ppo/v1/trainer_base.py. Later writers turn what JSON can't hold into text ("0.5", "True").
uid is "{sample}_{rollout}_{output}" in v1, else that of the prompt, which its rollouts share. Validation
repeats the score as `reward`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.formats.base import Head, LineContext, Reader
from board.formats.columns import Columns, filled
from board.formats.field_values import EXTRA

_TEXTS: Final = frozenset({"prompt", "response", "ground_truth"})
"""Whatever these say is text, "True" too."""
_FLAGS: Final = {"True": True, "False": False}


class VerlReader(Reader):
    """Reads verl's rollout and validation dumps, v0 and v1."""

    name = "verl"
    title = "verl"
    layout = re.compile(r"(?P<step>[0-9]+)\.jsonl")
    keys: Mapping[str, str] = {
        "input": "prompt",
        "output": "response",
        "gts": "ground_truth",
        "score": "reward",
        "reward": EXTRA + "reward",
        "request_id": "rollout_id",
        "data_source": "env",
    }
    repeats = "copied_steps"
    rollout_keys = frozenset(("input", "output", "score"))
    has_outline = True
    recording: Mapping[str, str] = {
        "env": 'Return "env" with the score from the reward function (reward_extra_info): verl writes it '
        "beside each rollout.",
        "mismatch_kl_mean": "verl dumps texts alone; the hook logs tokens with both log-probabilities: "
        "docs/hooks/verl.md.",
    }

    def recognises(self, head: Head) -> bool:
        """Input, output and score as verl names them, beside a step in the record or the file's name."""
        by_name = LineContext(head.path, layout=self.layout).step is not None
        return any(
            isinstance(record.get("input"), str | list)
            and isinstance(record.get("output"), str | list)
            and "score" in record
            and ("step" in record or by_name)
            for record in head.records
        )

    def read_columns(self, lines: Sequence[Mapping[str, Any]], at: LineContext) -> Columns:
        columns = super().read_columns(lines, at)
        for name, values in columns.items():
            if name not in _TEXTS and str in set(map(type, values)):
                columns[name] = [_FLAGS.get(v, v) if isinstance(v, str) else v for v in values]
        # The folders of training and validation are named by the user; one called so is no training.
        split = ["eval" if at.folder_split == "eval" else None] * len(lines)
        known: Columns = {"split": split, "step": [at.step] * len(lines)}
        if (uids := columns.get("uid")) is not None:
            # Beside another id of the rollout it is a column too: row by row, whatever the others have.
            ids = columns.get("rollout_id", [None] * len(lines))
            columns["uid"] = [
                uid if other is not None else None for uid, other in zip(uids, ids, strict=True)
            ]
            prompts = [_prompt_of(uid) for uid in uids]
            logged = columns.get("group_id", [None] * len(lines))
            known["group_id"] = prompts
            # One that is the prompt's is no rollout's, unless another id is the group's.
            known["rollout_id"] = [
                uid if uid != prompt or group is not None else None
                for uid, prompt, group in zip(uids, prompts, logged, strict=True)
            ]
        return columns | {name: filled(columns.get(name, own), own) for name, own in known.items()}


def _prompt_of(uid: Any) -> Any:
    """The id of the prompt in one of sample, rollout and output; another uid is the prompt's itself."""
    if type(uid) is str:
        parts = uid.rsplit("_", 2)
        if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
            return parts[0]
    return uid
