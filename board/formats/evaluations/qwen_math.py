"""Results of Qwen2.5-Math's evaluation, which simpleRL and many others use: a problem per line.

Read from QwenLM/Qwen2.5-Math evaluation/math_eval.py and hkust-nlp/simpleRL-reason:
<dataset>/<split>_<prompt>_<n>_seed<s>_t<temperature>_s<start>_e<end>.jsonl with lists that have an entry
for each sample.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step
from board.formats.sources import rows_of_table

_SAMPLES: Final = ("code", "pred", "score")


class QwenMathReader(Reader):
    """Reads the lines of Qwen2.5-Math's evaluation."""

    name = "qwen_math"
    title = "Qwen2.5-Math evaluation"
    keys: Mapping[str, str] = {
        "question": "prompt",
        "code": "response",
        "score": "reward",
        "gt": "ground_truth",
        "idx": "group_id",
    }
    layout = re.compile(
        r"(?:global_step_?(?P<step>[0-9]+)/)?(?P<env>[^/]+)/"
        r"[^/]+_seed[0-9]+_t(?P<temperature>[0-9.]+)_s[0-9]+_e-?[0-9]+\.jsonl"
    )

    def recognises(self, head: Head) -> bool:
        """A question with its gt, and lists of code, pred and score."""
        return head.has("question", "gt", *_SAMPLES)

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each sample of the problem."""
        return rows_of_table(line, [name for name in _SAMPLES if name in line])

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        fields = self.fields(line)
        env = at.named("env")
        fields |= {"split": "eval", "env": env}
        if env and "group_id" in fields:  # problems are numbered in each data set
            fields["group_id"] = f"{env} {fields['group_id']}"
        if temperature := at.named("temperature"):
            fields["temperature"] = float(temperature)
        return at_step(fields, at.step)
