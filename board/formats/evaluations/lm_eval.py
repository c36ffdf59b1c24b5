"""Samples of lm-evaluation-harness: samples_<task>_<date>.jsonl, a document of a task per line.

Read from EleutherAI/lm-evaluation-harness lm_eval/loggers/evaluation_tracker.py and evaluator.py. Where a
task has several filters, each has lines of its own. Arguments are gen_args_0 and so on, of older versions
a list: the context, and what may follow it or how it is generated. A metric is of all repeats of a
document, so that it is no reward of one of several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.records import Remark
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step, named_rewards
from board.formats.messages import is_messages, parsed_text
from board.formats.parse import is_list, is_object

_ERRORS_ALONE: Final = Remark(
    "reward",
    "lower is better for every metric, so none is the reward",
    "each is a part; choose the reward with a negative weight",
    "note",
)
_LESS_IS_BETTER: Final = re.compile(
    r"(?:^|_)(?:m?[as]pe|mae|mse|rmse|wer|cer|ter|brier(?:_score)?|perplexity|ppl|loss|bits_per_byte"
    r"|error(?:_rate)?|edit_distance|nll)(?:$|_)",
    re.IGNORECASE,
)
"""Names of metrics for which lm-eval's `higher_is_better` is false."""
_READ_APART: Final = frozenset(
    {"doc_id", "target", "arguments", "resps", "filtered_resps", "metrics", "response"}
)


class LmEvalReader(Reader):
    """Reads the samples that lm-evaluation-harness logs."""

    name = "lm_eval"
    title = "lm-eval samples"
    left_out: Mapping[str, str] = {
        "arguments.gen_args_0.arg_1": "how the text was generated, the same for all documents",
        "metrics": "the names of the metrics, whose values are shown",
    }
    layout = re.compile(r"samples_(?P<task>.+?)(?:_[0-9]{4}-[0-9]{2}-[0-9]{2}T[^/]*)?\.jsonl")

    def recognises(self, head: Head) -> bool:
        """A document with its arguments and responses, filtered ones too."""
        return head.has("doc_id", "doc", "arguments", "resps", "filtered_resps")

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each text that was generated for the document, or the likeliest of its choices."""
        arguments, answers = _arguments(line), line.get("resps")
        first = answers[0] if is_list(answers) and answers else None
        if is_list(first) and first and isinstance(first[0], str):
            repeats = range(len(first)) if len(first) > 1 else [None]
            answers_of_filter = _filtered(line, len(first))
            return [
                {
                    **line,
                    "response": text,
                    "repeat": repeat,
                    "filtered": answer if answer != text else None,
                }
                for text, repeat, answer in zip(first, repeats, answers_of_filter, strict=True)
            ]
        scores = [_log_likelihood(answer) for answer in answers] if is_list(answers) else []
        choices = {
            str(own[1]).strip(): score
            for own, score in zip(arguments, scores, strict=False)
            if len(own) > 1 and isinstance(own[1], str) and score is not None
        }
        likeliest = max(choices, key=choices.__getitem__) if choices else None
        return [{**line, "response": likeliest, "choices": choices}]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        fields: Fields = {key: value for key, value in line.items() if key not in _READ_APART}
        context = next((own[0] for own in _arguments(line) if own), None)
        if is_list(context) and len(context) == 1:  # the chat of a model behind an API
            context = context[0]
        talk = parsed_text(context) if str(context).startswith("[") else context
        metrics = {name: fields.pop(name, None) for name in _metrics(line)}
        if line.get("repeat") is None:
            fields |= rewards_of(metrics)
        else:
            fields |= {f"metric.{name}": value for name, value in metrics.items()}
        # Documents are numbered in each task, and each filter has the same answers again.
        task, target = at.named("task"), line.get("target")
        names = (task, line.get("doc_id"), line.get("filter"))
        fields |= {
            "prompt": talk if is_messages(talk) else context,
            "response": line.get("response"),
            "ground_truth": None if target is None else str(target),
            "group_id": " ".join(str(name) for name in names if name not in (None, "none")),
            "env": task,
            "split": "eval",
        }
        return at_step(fields, None)


def _filtered(line: Mapping[str, Any], repeats: int) -> list[Any]:
    """What the filter took out of each repeat's text; of a filter that leaves another number, all that it
    left.
    """
    filtered = line.get("filtered_resps")
    if is_list(filtered) and len(filtered) == 1 and is_list(filtered[0]):
        filtered = filtered[0]
    if is_list(filtered) and len(filtered) == repeats:
        return list(filtered)
    return [filtered[0] if is_list(filtered) and len(filtered) == 1 else filtered] * repeats


def rewards_of(metrics: Mapping[str, Any]) -> Fields:
    """The metrics as named rewards; the reward is the first of which more is better. Where all are errors
    or perplexities there is none, and a remark says so.
    """
    scored = {name: value for name, value in metrics.items() if value is not None}
    better = [name for name in scored if not _LESS_IS_BETTER.search(name)]
    if scored and not better:
        return {"rewards": scored, "remarks": (_ERRORS_ALONE,)}
    return named_rewards(metrics, scored[better[0]] if better else None)


def _arguments(line: Mapping[str, Any]) -> list[list[Any]]:
    """What each request was asked: the context, and what else."""
    arguments = line.get("arguments")
    if is_object(arguments):
        return [list(own.values()) for own in arguments.values() if is_object(own)]
    return [own for own in arguments if is_list(own)] if is_list(arguments) else []


def _log_likelihood(answer: Any) -> float | None:
    """Of the first answer to a request: a number, or one with whether greedy decoding gives it."""
    value = answer[0] if is_list(answer) and answer else answer
    value = value[0] if is_list(value) and value else value
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _metrics(line: Mapping[str, Any]) -> list[str]:
    """The names of the metrics: those that it lists, of older versions what stands after the rest."""
    names = line.get("metrics")
    keys = [name for name in names if isinstance(name, str)] if is_list(names) else list(line)
    if not is_list(names):
        keys = keys[keys.index("filtered_resps") + 1 :] if "filtered_resps" in line else []
    return [key for key in keys if isinstance(line.get(key), int | float)]
