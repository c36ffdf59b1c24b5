"""Results of human-eval and EvalPlus: programs, and whether they passed.

Read from openai/human-eval human_eval/evaluation.py (<samples>_results.jsonl) and evalplus/evalplus
evalplus/evaluate.py (<samples>_eval_results.json; before v0.3 without the programs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step, named_rewards
from board.formats.parse import is_list, object_at, objects_in
from board.formats.sources import JSON_DOCUMENT


class HumanEvalReader(Reader):
    """Reads the results of human-eval."""

    name = "human_eval"
    title = "human-eval results"
    keys: Mapping[str, str] = {
        "completion": "response",
        "task_id": "group_id",
        "passed": "reward",
    }
    run_per_file = True

    def recognises(self, head: Head) -> bool:
        """A completion of a task with its result, and whether it passed."""
        return head.has("task_id", "completion", "result", "passed")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        return at_step({**self.fields(line), "split": "eval"}, None)


class EvalPlusReader(Reader):
    """Reads the results of EvalPlus."""

    name = "evalplus"
    title = "EvalPlus results"
    left_out: Mapping[str, str] = {
        "date": "when the results were computed",
        "hash": "of the data set",
    }
    sources = (JSON_DOCUMENT,)
    layout = re.compile(r"[^/]*eval_results\.json")
    run_per_file = True

    def recognises(self, head: Head) -> bool:
        """A date and a hash with lists of samples by task, as EvalPlus has since v0.3."""
        return head.has("date", "hash", "eval") and any(
            is_list(samples) and objects_in(samples)
            for record in head.records
            for samples in object_at(record, "eval").values()
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each sample of each task."""
        rows = [
            {"task_id": task, **sample}
            for task, samples in object_at(line, "eval").items()
            for sample in objects_in(samples)
        ]
        if not rows:
            reason = "eval holds no programs, before v0.3 only statuses"
            raise RecordError(
                reason, field="eval", hint="samples by task, as EvalPlus has since v0.3"
            )
        return rows

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The reward is whether all tests passed that were run."""
        parts = {
            name: float(line[f"{name}_status"] == "pass")
            for name in ("base", "plus")
            if isinstance(line.get(f"{name}_status"), str)
        }
        fields: Fields = {k: v for k, v in line.items() if k not in ("task_id", "solution")}
        fields |= named_rewards(parts, min(parts.values(), default=None))
        fields |= {
            "response": line.get("solution"),
            "group_id": line.get("task_id"),
            "split": "eval",
        }
        return at_step(fields, None)
