"""Details of lighteval: details/<model>/<date>/details_<task>_<date>.parquet, a document per row.

Read from huggingface/lighteval src/lighteval/logging (DetailsLogger.Detail: doc, metric, model_response),
tasks/requests.py (Doc) and models/model_output.py (ModelResponse). A metric is of all texts that were
generated for a document, so that it is no reward of one of several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.formats.base import Head, LineContext, Reader
from board.formats.evaluations.lm_eval import rewards_of
from board.formats.fields import Fields, at_step, rest_of
from board.formats.io.parquet_files import PARQUET
from board.formats.parse import as_list, as_object, is_list, object_at

_READ: Final = frozenset(("doc", "metric", "model_response", "response", "repeat", "tokens"))
_APART: Final = frozenset({"input", "text", "input_tokens", "output_tokens"})


class LightevalReader(Reader):
    """Reads the details that lighteval saves."""

    name = "lighteval"
    title = "lighteval details"
    sources = (PARQUET,)
    layout = re.compile(r"details_(?P<task>.+?)(?:_[0-9]{4}-[0-9]{2}-[0-9]{2}T[^/]*)?\.parquet")

    def recognises(self, head: Head) -> bool:
        """A document with its metric and the model's response."""
        return head.has("doc", "metric", "model_response")

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each text that was generated for the document, or the likeliest of its choices."""
        answer, doc = object_at(line, "model_response"), object_at(line, "doc")
        texts = as_list(answer.get("text"))
        if not texts:
            scores, choices = as_list(answer.get("logprobs")), as_list(doc.get("choices"))
            is_scored = bool(choices) and len(scores) == len(choices)
            likeliest = choices[scores.index(max(scores))] if is_scored else None
            return [{**line, "response": likeliest, "repeat": None, "tokens": None}]
        tokens = as_list(answer.get("output_tokens"))
        tokens = tokens if len(tokens) == len(texts) else [None] * len(texts)
        return [
            {**line, "response": text, "repeat": n if len(texts) > 1 else None, "tokens": own}
            for n, (text, own) in enumerate(zip(texts, tokens, strict=True))
        ]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        doc, answer = dict(object_at(line, "doc")), object_at(line, "model_response")
        metrics = as_object(line.get("metric"))
        task = doc.pop("task_name", None) or at.named("task")
        query, identity = doc.pop("query", None), doc.pop("id", None)
        fields = rest_of(line, _READ) | {
            "doc": {key: value for key, value in doc.items() if value is not None},
            "model_response": {
                k: v for k, v in answer.items() if k not in _APART and v is not None
            },
            "prompt": answer.get("input") or query,
            "response": line.get("response"),
            "prompt_ids": answer.get("input_tokens") or None,
            "response_ids": line.get("tokens"),
            "ground_truth": _gold(doc),
            "group_id": " ".join(str(own) for own in (task, identity) if own is not None),
            "env": task,
            "split": "eval",
        }
        if query is not None and answer.get("input"):
            fields["query"] = query
        if line.get("repeat") is None:
            fields |= rewards_of(metrics)
        else:
            fields |= {f"metric.{name}": value for name, value in metrics.items()}
        return at_step(fields, None)


def _gold(doc: Mapping[str, Any]) -> str | None:
    """The choice, or choices, that are right."""
    places, choices = doc.get("gold_index"), as_list(doc.get("choices"))
    golds = [
        str(choices[place])
        for place in (places if is_list(places) else [places])
        if isinstance(place, int) and 0 <= place < len(choices)
    ]
    return "; ".join(golds) or None
