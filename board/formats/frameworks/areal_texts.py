"""AReaL's older dumps: {generated,generated-eval}/{version}/{qid}.txt, texts with lines above them.

Read from inclusionAI/AReaL@5c45a6f's parent (January 2026, the last with them) areal/workflow/rlvr.py
(`arun_episode`; multi_turn.py and vision_rlvr.py write the same), and @7f03b4b's parent (the older
realhf/impl/agent/math_single_step_agent.py, `log_rewards_to_file`). The samples of a prompt are appended
one after the other, each

    idx: 1 / 4, seqlen: 57, reward is 1.0.
    prompt is
    <colour>...<end of colour>
    sequence is:
    <colour>...<end of colour>

The older form tells the versions of the weights that began and ended the sample, and has all of it in
three lines. The folder is the version that the sample was begun with; the step that trained on it is not
in the file. Neither are tokens, nor the prompt's length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Head, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.io.text_files import TEXT

_COLOUR: Final = re.escape("\x1b[33m\x1b[2m")
_END: Final = re.escape("\x1b[0m")
# What a model writes has no escape characters: only a writer's own lines look so.
_ABOVE: Final = re.compile(
    r"^idx: (?P<idx>\d{1,9}) / \d{1,9}, seqlen: (?P<seqlen>\d{1,12}), "
    r"(?:head version: (?P<head>-?\d{1,9}), tail version: (?P<tail>-?\d{1,9})\.\n)?"
    rf"reward is (?P<reward>\S{{1,64}}?)(?:\.\n|, )prompt is \n?{_COLOUR}",
    re.MULTILINE,
)
_BETWEEN: Final = re.compile(rf"{_END}\nsequence is: \n?{_COLOUR}")
_AFTER: Final = re.compile(rf"{_END}\.?\n*\Z")
_EXPECTED: Final = "idx, seqlen and reward, then a prompt and a sequence in colour"


class ArealTextsReader(Reader):
    """Reads the texts that AReaL's workflows dumped."""

    name = "areal_texts"
    title = "AReaL texts"
    sources = (TEXT,)
    layout = re.compile(
        r"(?P<split>generated|generated-eval)/(?P<step>[0-9]+)/(?P<task>[^/]+)\.txt"
    )

    def recognises(self, head: Head) -> bool:
        """A line "idx: 1 / 4, seqlen: 57, reward is 1.0." above a prompt and a sequence in colour."""
        text = head.first.get("text")
        return isinstance(text, str) and _ABOVE.match(text) is not None

    def rows(self, line: Mapping[str, Any], at: Place) -> Sequence[Mapping[str, Any]]:
        """{above, text} of each sample; what stands before the first is a row without `above`."""
        text = line.get("text")
        if not isinstance(text, str):
            return (line,)
        starts = [match.start() for match in _ABOVE.finditer(text)]
        before = text[: starts[0] if starts else None]
        rows = [{"text": before}] if before.strip() else []
        ends = [*starts[1:], len(text)][: len(starts)]
        return [*rows, *({"text": text[a:b]} for a, b in zip(starts, ends, strict=True))]

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        """The Record of one sample; the step is the folder's."""
        text = line.get("text")
        above = _ABOVE.match(text) if isinstance(text, str) else None
        parts = _BETWEEN.split(text[above.end() :], maxsplit=1) if above and text else []
        if above is None or len(parts) < 2 or _AFTER.search(parts[1]) is None:
            raise RecordError("it is not a sample", field="text", hint=_EXPECTED)
        builder = RecordBuilder(at.options)
        builder.ids["split"] = at.split or "train"
        builder.take("prompt", parts[0])
        builder.take("response", _AFTER.sub("", parts[1]))
        builder.take("reward", above["reward"])
        builder.take("seqlen", int(above["seqlen"]))
        builder.take("policy_version", above["head"] or at.step)
        builder.take("tail_version", None if above["tail"] is None else int(above["tail"]))
        task = at.named("task")
        builder.take("group_id", task)
        builder.take("rollout_id", None if task is None else f"{task}-{above['idx']}")
        return builder.build(at.step)
