"""Rollouts to page through offline: one HTML file with the dashboard's own reader and its data.

The page loads nothing: its policy allows its one script, by hash, and no request. Everything that a log
says is deflated and in base64, so that no text can end the element that holds it.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final, Literal

import orjson

from board import __version__
from board.analysis.rollout import OpenRollout, open_rollout
from board.components import read_files
from board.components.reader import Chosen, first_choice, reader_data, sources
from board.errors import ChoiceError, did_you_mean
from board.export.display_text import number, one_line
from board.export.interactive.tables import packed
from board.export.rollout_facts import has_value
from board.export.rollout_frame import content_and_frame, preview
from board.query.open_run import Run

MOST_BYTES: Final = 20_000_000
"""What mail servers commonly take."""
_POLICY: Final = (
    "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; img-src data:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'"
)
"""A regular expression is searched for in a worker, which can be stopped."""
_IDS_NOTE: Final = "Tokens are shown as ids: the run has no vocab.json with their texts."
_WAYS: Final[tuple[Literal["tokens", "text"], ...]] = ("tokens", "text")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rollout of the page. row: of the list. data: the base64 of its tables by way of reading. first:
    the way that suits it. metrics: names of its token metrics.
    """

    row: dict[str, Any]
    data: dict[str, str]
    first: str
    metrics: Sequence[str]

    @property
    def most_bytes(self) -> int:
        """What it adds to the page at most, with its row and the elements around it."""
        return sum(map(len, self.data.values())) + 2 * len(orjson.dumps(self.row)) + 300


def interactive_page(
    run: Run,
    addresses: Sequence[tuple[int, int]],
    *,
    title: str = "",
    metric: str | None = None,
    most_bytes: int = MOST_BYTES,
    total: int | None = None,
) -> tuple[bytes, int]:
    """An HTML file that pages through rollouts, and how many of them did not fit.

    Args:
        run: the run that the rollouts are of.
        addresses: step and index of each rollout, in the order of the page.
        title: of the page; the run's name where empty.
        metric: the token metric that colours first; None for the first of each rollout.
        most_bytes: size of the file at most. From the first rollout on that does not fit, all are left
            out, which the page says.
        total: of how many rollouts these were asked for, which the page says; None: these are all.

    Raises:
        ChoiceError: no rollout is asked for, the first one alone is too large, or none has the metric.
        NotFoundError, UnreadableError: a rollout can't be read.
    """
    if not addresses:
        raise ChoiceError("no rollout is chosen; a page needs at least one")
    title, count = one_line(title or run.info.name, 200), len(addresses)
    total = max(total or 0, count)
    room = most_bytes - len(_page(run, title, [], _left_out(total, total, count, most_bytes)))
    entries: list[_Entry] = []
    for step, index in addresses:
        entry = _entry(run, open_rollout(run, step, index), metric)
        room -= entry.most_bytes
        if room < 0:
            break
        entries.append(entry)
    if not entries:
        step, index = addresses[0]
        raise ChoiceError(
            f"rollout {index} of step {step} alone takes {most_bytes - room:,} bytes, more than the "
            f"{most_bytes:,} that the page may have; allow more, or choose a shorter one"
        )
    names = sorted({name for entry in entries for name in entry.metrics})
    if metric is not None and metric not in names:
        raise ChoiceError(
            f"no rollout has the token metric {metric}; {did_you_mean(metric, names)}"
        )
    said = _left_out(total - len(entries), total, count, most_bytes)
    return _page(run, title, entries, said), count - len(entries)


def _left_out(left_out: int, total: int, asked: int, most_bytes: int) -> str:
    """What a page says of the rollouts that it does not have, and why."""
    if not left_out:
        return ""
    is_full = total - left_out < asked
    why = f"the page may have {most_bytes:,} bytes" if is_full else f"{asked:,} were asked for"
    return f"{left_out:,} of {total:,} rollouts are left out: {why}."


def _entry(run: Run, opened: OpenRollout, metric: str | None) -> _Entry:
    """A rollout, packed in each way that it can be read."""
    data: dict[str, str] = {}
    metrics: Sequence[str] = ()
    for way in _WAYS:
        content, frame = content_and_frame(run, opened, read=way, ids_note=_IDS_NOTE)
        if (frame.turns is None) != (way == "tokens"):
            continue
        metrics = metrics or [*content.metrics]
        tables = reader_data(
            content,
            # What a server would be asked for later can't be.
            replace(frame, details=[one for one in frame.details if not one.ask]),
            signature=f"{opened.step}/{opened.index}/{way}",
            choice=first_choice(Chosen(metric=metric), content),
            step_spans=dict,
        )
        data[way] = _base64(packed(tables))
    row = run.row(opened.step, opened.index)
    listed = {
        "step": opened.step,
        "index": opened.index,
        "reward": number(float(row["reward"])) if has_value(row, "reward") else "",
        "words": preview(row["response"]) if has_value(row, "response") else "",
    }
    as_text = "text" in data and (opened.tokens_are_ids or "tokens" not in data)
    return _Entry(listed, data, "text" if as_text else "tokens", metrics)


def _base64(content: bytes) -> str:
    return b64encode(zlib.compress(content, 6)).decode("ascii")


def _page(run: Run, title: str, entries: Sequence[_Entry], left_out: str) -> bytes:
    """The file. left_out: what it says of rollouts that it does not have."""
    markup, reader_css, reader_script = sources()
    script = "\n".join(
        [
            # Within the page nobody imports it.
            reader_script.replace("export default function", "const mountReader = function", 1),
            read_files(__file__, ["js/tables.js", "js/page.js"]),
        ]
    )
    places = [{way: f"r{rank}-{way}" for way in entry.data} for rank, entry in enumerate(entries)]
    contents = [
        {**entry.row, "data": place, "first": entry.first}
        for entry, place in zip(entries, places, strict=True)
    ]
    data = {"contents": _base64(orjson.dumps(contents))}
    for entry, place in zip(entries, places, strict=True):
        data |= {place[way]: text for way, text in entry.data.items()}
    parts = {
        "policy": _POLICY.replace("{hash}", b64encode(_sha256(script).digest()).decode()),
        "title": escape(title),
        "left out": left_out,
        "run": escape(one_line(run.info.name, 200)),
        "version": __version__,
        "hash": _sha256("\n".join(data.values())).hexdigest(),
        "page css": read_files(__file__, ["page.css"]),
        "reader css": reader_css,
        "reader": markup,
        "script": script,
        "data": "\n".join(
            f'<script type="application/octet-stream" class="data" id="{name}">{text}</script>'
            for name, text in data.items()
        ),
    }
    template = read_files(__file__, ["page.html"])
    # In one pass: what is filled in is not filled in again.
    return re.sub(r"\{([a-z ]+)\}", lambda match: parts[match[1]], template).encode()


def _sha256(text: str) -> Any:
    return hashlib.sha256(text.encode())
