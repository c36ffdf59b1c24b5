"""AReaL's dumped trajectories: {rollout,eval-rollout}/{version}/{task_id}.jsonl, texts only.

Read from areal-project/AReaL@cbff54d (August 2026) areal/infra/workflow_executor.py (`_dump_trajectory`),
and inclusionAI/AReaL@0f6fba3 (May 2026). The folder is the newest weights that sampled a token of the
task; the step that trained on the rollout is not in the log, so that this is its step. tail_version is
the newest of the sample, head_version the oldest. Since July 2026 original_reward stands beside a reward
that may be normalised within its task.

AReaL's older dumps: {generated,generated-eval}/{version}/{qid}.txt, texts with lines above them.

Read from inclusionAI/AReaL@5c45a6f's parent (January 2026, the last with them) areal/workflow/rlvr.py
(`arun_episode`), and @7f03b4b's parent (the older realhf/impl/agent/math_single_step_agent.py,
`log_rewards_to_file`). The samples of a prompt are appended one after the other, each

    idx: 1 / 4, seqlen: 57, reward is 1.0.
    prompt is
    <colour>...<end of colour>
    sequence is:
    <colour>...<end of colour>

The older form tells the versions of the weights that began and ended the sample, in three lines. The
folder is the version that the sample was begun with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields
from board.formats.messages import is_messages
from board.formats.sources import TEXT

_ROLES: Final = {"gen": "assistant", "context": "environment"}


class ArealReader(Reader):
    """Reads the trajectories that AReaL dumps."""

    name = "areal"
    title = "AReaL"
    left_out: Mapping[str, str] = {
        "head_version": "-1 until June 2026: the prompt's, which nothing sampled",
    }
    keys: Mapping[str, str] = {
        "completion": "response",
        "head_version": "policy_version",
        "task_id": "group_id",
        "original_reward": "",
        "segments": "",
    }
    layout = re.compile(r"(?P<split>rollout|eval-rollout)/(?P<step>[0-9]+)/[0-9]+\.jsonl")

    def recognises(self, head: Head) -> bool:
        """A prompt and a completion of a task, between two versions of the weights."""
        return head.has("task_id", "head_version", "tail_version", "prompt", "completion")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The fields of one line; the step is its folder's version, elsewhere its tail_version."""
        fields = {"split": at.split or "train", **self.fields(line)}
        if line.get("head_version") == -1:  # until June 2026: of the prompt, which nothing sampled
            del fields["policy_version"]
        if "original_reward" in line:
            fields |= {"reward": line["original_reward"], "trained_reward": line.get("reward")}
        if is_messages(segments := line.get("segments")):
            fields["messages"] = [
                {"role": _ROLES.get(str(one["role"]), one["role"]), "content": one.get("text")}
                for one in segments
            ]
        else:
            fields["turns"] = segments
        if line.get("task_id") is not None and line.get("sample_idx") is not None:
            fields["rollout_id"] = f"{line['task_id']}-{line['sample_idx']}"
        fields["step"] = line.get("tail_version") if at.step is None else at.step
        return fields


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


class ArealTextsReader(Reader):
    """Reads the texts that AReaL's workflows dumped."""

    name = "areal_texts"
    title = "AReaL texts"
    left_out: Mapping[str, str] = {
        "text": "each sample's prompt and sequence are shown, and the numbers above them are columns",
    }
    sources = (TEXT,)
    layout = re.compile(
        r"(?P<split>generated|generated-eval)/(?P<step>[0-9]+)/(?P<task>[^/]+)\.txt"
    )

    def recognises(self, head: Head) -> bool:
        """A line "idx: 1 / 4, seqlen: 57, reward is 1.0." above a prompt and a sequence in colour."""
        text = head.first.get("text")
        return isinstance(text, str) and _ABOVE.match(text) is not None

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """The text of each sample, and of what stands before the first."""
        text = line.get("text")
        if not isinstance(text, str):
            return (line,)
        cuts = [*(match.start() for match in _ABOVE.finditer(text)), len(text)]
        before = text[: cuts[0]]
        rows = [{"text": before}] if before.strip() else []
        return [*rows, *({"text": text[start:end]} for start, end in pairwise(cuts))]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The fields of one sample; the step is the folder's."""
        text = line.get("text")
        above = _ABOVE.match(text) if isinstance(text, str) else None
        parts = _BETWEEN.split(text[above.end() :], maxsplit=1) if above and text else []
        if above is None or len(parts) < 2 or _AFTER.search(parts[1]) is None:
            hint = "idx, seqlen and reward, then a prompt and a sequence in colour"
            raise RecordError("it is not a sample", field="text", hint=hint)
        task = at.named("task")
        return {
            "prompt": parts[0],
            "response": _AFTER.sub("", parts[1]),
            "split": at.split or "train",
            "reward": above["reward"],
            "seqlen": int(above["seqlen"]),
            "policy_version": above["head"] or at.step,
            "tail_version": None if above["tail"] is None else int(above["tail"]),
            "group_id": task,
            "rollout_id": None if task is None else f"{task}-{above['idx']}",
            "step": at.step,
        }
