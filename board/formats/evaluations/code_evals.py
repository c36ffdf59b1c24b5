"""Results of human-eval and EvalPlus: programs, and whether they passed.

Read from openai/human-eval human_eval/evaluation.py (<samples>_results.jsonl) and evalplus/evalplus
evalplus/evaluate.py (<samples>_eval_results.json; before v0.3 lists of verdicts without the programs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step, named_rewards
from board.formats.parse import as_object, is_list, object_at, objects_in
from board.formats.sources import JSON_DOCUMENT

_SUITES: Final = ("base", "plus")
_PASSED: Final = frozenset({"pass", "success"})
"""How EvalPlus calls it that all tests passed: since v0.3, and before."""


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
        """A date and a hash with lists of samples by task, before v0.3 with lists of their verdicts."""
        return head.has("date", "hash", "eval") and any(
            _samples(own) for record in head.records for own in object_at(record, "eval").values()
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each sample of each task."""
        rows = [
            {"task_id": task, **sample}
            for task, samples in object_at(line, "eval").items()
            for sample in _samples(samples)
        ]
        if not rows:
            raise RecordError("eval holds no samples", field="eval", hint="samples by task")
        return rows

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The reward is whether all tests passed that were run."""
        parts = {
            name: float(line[f"{name}_status"] in _PASSED)
            for name in _SUITES
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


def _samples(task: object) -> list[dict[str, Any]]:
    """The samples of one task. Before v0.3 a task has for `base` and `plus` lists of [status, tests
    passed one by one], and other lists of as many entries.
    """
    if is_list(task):
        return objects_in(task)
    verdicts = [own for name in _SUITES if is_list(own := as_object(task).get(name))]
    count = max(map(len, verdicts), default=0)
    samples: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, value in as_object(task).items():
        entries = value if is_list(value) and len(value) == count else [value] * count
        for sample, entry in zip(samples, entries, strict=True):
            if key in _SUITES and is_list(entry) and entry:
                sample[f"{key}_status"] = entry[0]
                if len(entry) > 1:
                    sample[f"{key}_details"] = entry[1]
            else:
                sample[key] = entry
    return samples
