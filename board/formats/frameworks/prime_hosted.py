"""Rollouts of Prime's hosted training, as `prime train rollouts` prints them: a page per document.

Read from PrimeIntellect-ai/prime@66fb4b7 packages/prime/src/prime_cli/commands/rl.py and, for the keys of
a sample, PrimeIntellect-ai/prime-rl@559b447 src/prime_rl/monitors/prime.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, as_extras, at_step
from board.formats.messages import is_messages, parsed_text, split_conversation
from board.formats.parse import as_object, objects_at
from board.formats.sources import JSON_DOCUMENT


class PrimeHostedReader(Reader):
    """Reads pages of samples of hosted training."""

    name = "prime_hosted"
    title = "Prime hosted training"
    left_out: Mapping[str, str] = {
        "limit": "of the request that fetched the page",
        "offset": "of the request that fetched the page",
        "total": "of the request that fetched the page",
        "page": "of the request that fetched the page",
        "total_pages": "of the request that fetched the page",
        "run_id": "the run, the same for all rollouts",
    }
    sources = (JSON_DOCUMENT,)
    keys: Mapping[str, str] = {
        "problem_id": "group_id",
        "example_id": "group_id",
        "env_name": "env",
        "answer": "ground_truth",
        "num_input_tokens": "input_tokens",
        "num_output_tokens": "output_tokens",
        **dict.fromkeys(("prompt", "completion", "metrics", "trajectory"), ""),
    }
    layout = re.compile(r"[^/]*(?:rollouts|samples)[^/]*\.json")

    def recognises(self, head: Head) -> bool:
        """A page of the samples of a run."""
        return head.has("run_id", "samples", "total", "page", "limit")

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        return objects_at(line, "samples")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        fields = as_extras(as_object(parsed_text(line.get("metrics")))) | self.fields(line)
        prompt, response = (_parsed(line.get(key)) for key in ("prompt", "completion"))
        if not prompt and is_messages(response):  # all messages together, since 2026
            fields["messages"] = response
            split_conversation(fields)
        else:
            fields |= {"prompt": prompt or None, "response": response}
        return at_step(fields, fields.pop("step", None))


def _parsed(value: object) -> Any:
    """A text, or messages, whose calls may be JSON in a text as well."""
    parsed = parsed_text(value)
    if not is_messages(parsed):
        return parsed
    return [
        {
            key: parsed_text(inner) if key == "tool_calls" else inner
            for key, inner in message.items()
        }
        for message in parsed
    ]
