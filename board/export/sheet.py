"""A page as it is written, part by part, up to a size; and the whole file in the end."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Final

import numpy as np

from board import __version__
from board.core.metrics.shares import counted
from board.export.colours import level_styles
from board.export.curve_svg import StepCurve, curve_styles, curve_svg
from board.export.page_text import Redaction, html
from board.query.open_run import Run, reader_titles

MOST_BYTES: Final = 10_000_000
"""What chats and mail take without asking."""
_FOOTER_BYTES: Final = 8_000
"""Of notes and footer, at most."""
_LINE: Final = 200


@dataclass(frozen=True, slots=True)
class StaticPage:
    """A complete file. left_out: what did not fit, in words. redactions: matches that were removed."""

    html: bytes
    left_out: tuple[str, ...]
    redactions: int


class Room:
    """Bytes that a part of a page may take; cut: what of it was left out, in words."""

    def __init__(self, left: int) -> None:
        self.left = max(left, 0)
        self.cut: list[str] = []

    def take(self, markup: str) -> str:
        """The markup, whose size is no longer left."""
        self.spend(len(markup.encode()))
        return markup

    def spend(self, count: int) -> None:
        """So many bytes are no longer left."""
        self.left = max(self.left - count, 0)


class Sheet:
    """What is on the page so far. Texts of the log go through `text`, `line` or `redaction`.

    most_bytes: of the file. why_cut: what is said of what does not fit into it.
    """

    def __init__(self, redaction: Redaction | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.redaction = redaction or Redaction()
        self.left_out: list[str] = []
        self._parts: list[bytes] = []
        self._last: list[bytes] = []
        self.why_cut = f"to stay below {most_bytes / 1e6:g} MB"
        self._left = most_bytes - len(_head()) - _FOOTER_BYTES

    @property
    def room(self) -> int:
        """Bytes that are left for parts."""
        return max(self._left, 0)

    def text(self, text: object) -> str:
        """A text of a log as markup."""
        return html(self.redaction.text(str(text)))

    def line(self, text: object, limit: int = _LINE) -> str:
        """The same on one line, cut. It is redacted before it is cut."""
        whole = self.redaction.text(str(text)).replace("\n", "⏎").replace("\t", " ")
        return html(whole if len(whole) <= limit else f"{whole[: limit - 1]}…")

    def add(self, *markup: str) -> None:
        """Writes a part. `room` says whether it fits: ask before many or large ones."""
        part = "".join(markup).encode()
        self._parts.append(part)
        self._left -= len(part)

    def add_last(self, markup: str) -> None:
        """Writes a part that comes after all others, and takes its room at once."""
        self._last.append(markup.encode())
        self._left -= len(self._last[-1])

    def page(self, title: str, source: str) -> StaticPage:
        """The whole file. title: a text. source: markup of what the page is of, for the footer."""
        head = f"{_head()}<title>{self.line(title)}</title></head><body><main>"
        left_out = [f"Left out: {self.line(one, 400)}." for one in self.left_out]
        # The last text but this is written: the count is final.
        count = self.redaction.count
        notes = [*left_out, *([f"{counted(count, 'match', 'matches')} redacted."] if count else [])]
        top = "".join(f"<p class=note>{note}</p>" for note in notes)
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        lines = (source, f"Written by rollout-board {__version__} on {now}.", *notes)
        footer = "".join(f"<p>{line}</p>" for line in lines)
        end = f"</main><footer>{footer}</footer></body></html>\n"
        first, *others = self._parts or [b""]
        file = b"".join((head.encode(), first, top.encode(), *others, *self._last, end.encode()))
        return StaticPage(file, tuple(self.left_out), count)

    # Parts that many pages have

    def heading(self, title: str, words: Iterable[str] = ()) -> None:
        """The first part: the headline and lines below it, markup all of them."""
        self.add(f"<h1>{title}</h1>", *(f"<p class=mute>{line}</p>" for line in words if line))

    def curve(self, curves: Sequence[StepCurve], marked: int | None, words: str = "") -> None:
        """A picture of curves that share their unit. words: markup in place of what the mean is over."""
        metric = curves[0].metric
        label = self.line(metric.label)
        explained = [words or "Mean over the rollouts of each step."]
        if any(np.isfinite(one.low).any() for one in curves):
            explained.append("Band: 95 % interval of the mean.")
        if metric.formula:
            explained.append(f"{label}: {self.line(metric.formula, 400)}")
        parts = [f"<h3>{self.line(metric.label_with_unit)}</h3>"]
        for one in curves:
            if one.name:
                dot = f"<span class=c-{one.key}><span class=dot></span></span>"
                parts.append(f"{dot}{self.line(one.name, 60)} ")
        parts.append(curve_svg(curves, marked, label))
        markup = "".join((*parts, f"<p class=mute>{' '.join(explained)}</p>"))
        if len(markup) > self.room:
            self.left_out.append(f"the curve of {metric.label}, {self.why_cut}")
        else:
            self.add(markup)

    def table(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        numeric: Sequence[bool],
        total: int | None = None,
    ) -> None:
        """A table; cells and heads are markup. numeric: by column. total: of how many rows these are the
        first, where they are not all.
        """
        self.add(table(heads, rows, numeric))
        if total is not None and total > len(rows):
            self.add(f"<p class=mute>The first {len(rows):,} of {total:,}.</p>")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool]) -> str:
    """A table of markup. numeric: columns that stand at the right."""
    classes = ["<th class=r>" if right else "<th>" for right in numeric]
    head = "".join(f"{cell}{text}</th>" for cell, text in zip(classes, heads, strict=True))
    cells = ["<td class=r>" if right else "<td>" for right in numeric]
    body = "".join(
        f"<tr>{''.join(f'{cell}{text}</td>' for cell, text in zip(cells, row, strict=True))}</tr>"
        for row in rows
    )
    return (
        f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def source_of(sheet: Sheet, run: Run) -> str:
    """Markup that says which rollouts of which run a page is made of."""
    parts = [f"Run {sheet.line(run.info.name)} ({sheet.line(reader_titles(run.info))})"]
    parts += [f"split {sheet.line(run.split)}"] if run.split is not None else []
    parts += [f"environments {sheet.line(', '.join(run.envs))}"] if run.envs else []
    parts += [f"rollouts with {sheet.line(run.expression)}"] if run.expression else []
    counts = counted(run.rollout_count, "rollout"), counted(len(run.counts), "step")
    parts.append(" of ".join(counts))
    return ", ".join(parts) + "."


@cache
def _head() -> str:
    """What every page begins with. The only style that the policy allows is this one, and no script."""
    styles = "".join(
        (
            resources.files("board.export").joinpath("page.css").read_text(encoding="utf-8"),
            level_styles("light"),
            curve_styles(dark=False),
            f"@media screen and (prefers-color-scheme:dark){{{level_styles('dark')}",
            f"{curve_styles(dark=True)}}}",
        )
    )
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html><html lang=en><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name=viewport content="width=device-width"><meta name=referrer content=no-referrer>'
        f"<style>{styles}</style>"
    )
