"""SkyRL's evaluations: dumped_evals/{eval_only|global_step_N_evals}/{data_source}.jsonl, texts only.

Read from NovaSky-AI/SkyRL@a956457 skyrl/train/utils/trainer_utils.py (`dump_per_dataset_eval_results`)
and skyrl/train/evaluate.py: input_prompt, output_response (special tokens kept), score, stop_reason
(null where the generator gives none), env_class, env_extras, data_source ("unknown" where there is none).
score is a number, or one per response token: its sum is the reward then, as in SkyRL's own means.
The rollouts of one prompt stand side by side without an id, so that no groups are recorded. eval_only
has no step.
aggregated_results.jsonl beside them has the means alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np

from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Head, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.number_arrays import RawNumbers
from board.formats.parse import is_object, object_at

_OURS: Final[Mapping[str, str]] = {
    "input_prompt": "prompt",
    "output_response": "response",
    "stop_reason": "finish_reason",
    "data_source": "env",
}


class SkyRLReader(Reader):
    """Reads the evaluations that SkyRL dumps."""

    name = "skyrl"
    title = "SkyRL evaluations"
    layout = re.compile(
        r"(?:dumped_evals/)?(?:eval_only|global_step_(?P<step>[0-9]+)_evals)/[^/]+\.jsonl"
    )

    def recognises(self, head: Head) -> bool:
        """A prompt and a response by SkyRL's names, with a score."""
        return head.has("input_prompt", "output_response", "score")

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        """The Record of one line; the step is the folder's, 0 where it names none."""
        builder = RecordBuilder(at.options, "eval")
        builder.take_keys(line, _OURS, {"score", "env_extras"})
        _take_score(builder, line.get("score"))
        _take_extras(builder, line.get("env_extras"))
        return builder.build_undated() if at.step is None else builder.build(at.step)


def _take_score(builder: RecordBuilder, score: Any) -> None:
    """Takes the reward, and where it is given per token these rewards as well."""
    if not isinstance(score, list | RawNumbers):
        builder.take("reward", score)
        return
    builder.take("token_rewards", score)
    with suppress(RecordError):  # what is wrong with them is told where they are shown
        if (given := builder.tokens.get("token_rewards")) is not None:
            builder.take("reward", float(np.sum(given.values())))


def _take_extras(builder: RecordBuilder, extras: Any) -> None:
    """Takes what the environment was given; its reward's specification may hold the right answer."""
    if not is_object(extras):
        builder.take("env_extras", extras)
        return
    fields = {k: v for k, v in extras.items() if k != "data_source"}
    builder.take("ground_truth", object_at(fields, "reward_spec").get("ground_truth"))
    builder.take("env_extras", fields or None)
