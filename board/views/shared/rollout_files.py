"""Rollouts as files: which of them, in which form, and why a form cannot be made of them."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from board.core.metrics.shares import counted
from board.datasets.export import Request, write_dataset
from board.datasets.preferences import best_and_worst
from board.datasets.reading import has_messages
from board.errors import ChoiceError
from board.export.file_names import FileOf, file_of
from board.export.interactive import MOST_BYTES, interactive_page
from board.export.pages import PageOptions, first_rows, listed_page
from board.index.segments import WHOLE
from board.query.open_run import Run
from board.query.rollouts import Sorting
from board.views.shared.background import Report

ON_PAGE: Final = 20
"""Rollouts of a page where nobody says how many."""
LARGEST_BYTES: Final = 256 << 20
"""Of a file: it is in memory until the browser has it."""


class Made(NamedTuple):
    """A file, and what its maker says of it: counts, and what was left out."""

    data: bytes
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rollouts to export. label: which they are, in words; name: by which they are chosen. run:
    narrowed to them; count: how many they are.
    """

    label: str
    name: str
    run: Run
    count: int
    sorting: Sorting = field(default_factory=Sorting)

    def first(self, most: int | None) -> str:
        """How many of them a file has, in words."""
        if most is None or most >= self.count:
            return f"all {self.count:,}" if self.count > 1 else "1 rollout"
        return f"the first {most:,} of {self.count:,}"


@dataclass(frozen=True, slots=True)
class Form:
    """A form of rollouts. kind: of a data set; "" for a page. ending: of its file's name. lacks: why
    these rollouts have no such file; "" where they have.
    """

    label: str
    kind: str
    ending: str
    mime: str
    make: Callable[[Chosen, int | None, PageOptions, Report], Made]
    lacks: Callable[[Run], str] = lambda run: ""

    def file_of(self, chosen: Chosen, most: int | None) -> FileOf:
        """What the file is of. most: rollouts, None: as many as are usual."""
        count = ON_PAGE if most is None and not self.kind else most
        first = "" if count is None or count >= chosen.count else f"first{count}"
        form = self.ending.rpartition(".")[0]
        return file_of(chosen.run, f"rollouts{form}").and_also(first)


def _html(chosen: Chosen, most: int | None, options: PageOptions, report: Report) -> Made:
    rows = first_rows(chosen.run, ON_PAGE if most is None else most, chosen.sorting)
    page = listed_page(chosen.run, rows, chosen.count, "Rollouts", options)
    return Made(page.html, notes_of_page(page.left_out, page.redactions))


def notes_of_page(left_out: Sequence[str], redactions: int) -> list[str]:
    """What was left out of a page, and what was removed."""
    removed = [f"{counted(redactions, 'match', 'matches')} redacted"] if redactions else []
    return [*(f"left out: {one}" for one in left_out), *removed]


def _reader(chosen: Chosen, most: int | None, options: PageOptions, report: Report) -> Made:
    rows = first_rows(chosen.run, ON_PAGE if most is None else most, chosen.sorting)
    addresses = list(zip(rows["step"].tolist(), rows["index"].tolist(), strict=True))
    which = f"{chosen.label[0].lower()}{chosen.label[1:]}"
    title = f"Rollouts of {chosen.run.info.name}, {which}"
    data, cut = interactive_page(chosen.run, addresses, title=title, total=chosen.count)
    left_out = chosen.count - len(addresses) + cut
    words = f"left out: {left_out:,} of {counted(chosen.count, 'rollout')}"
    reason = (
        f", to stay below {MOST_BYTES / 1e6:g} MB"
        if cut
        else f", beyond the limit of {len(addresses):,}"
    )
    return Made(data, [words + reason] if left_out else [])


def _data_set(kind: str) -> Callable[[Chosen, int | None, PageOptions, Report], Made]:
    return partial(_write_data_set, kind)


def _write_data_set(
    kind: str, chosen: Chosen, most: int | None, options: PageOptions, report: Report
) -> Made:
    with tempfile.TemporaryDirectory() as folder:

        def watch(done: int, total: int) -> None:
            report(done, total)
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
            _must_go_on(kind, chosen, size)

        target = Path(folder) / f"rollouts{FORM_ENDINGS[kind]}"
        request = Request(kind, target, limit=most, sorting=chosen.sorting)
        summary = write_dataset(chosen.run, request, watch)
        return Made(target.read_bytes(), summary.lines())


def _must_go_on(kind: str, chosen: Chosen, size: int) -> None:
    """Raises ChoiceError where a file is too large for a browser."""
    if size <= LARGEST_BYTES:
        return
    command = " ".join(map(shlex.quote, _command(kind, chosen)))
    raise ChoiceError(
        f"the file is larger than {LARGEST_BYTES >> 20} MB; choose fewer rollouts, or write it on the "
        f"command line: {command}"
    )


def _command(kind: str, chosen: Chosen) -> list[str]:
    """What writes the same rollouts on the command line."""
    run = chosen.run
    steps = run.step_range
    bounds = [f"step >= {steps[0]}", f"step <= {steps[1]}"] if steps else []
    terms = [*bounds, *([f"({run.expression})"] if run.expression else [])]
    written = kind if kind != "spreadsheet" else "csv"
    return [
        *("rollout-board", "export", str(run.info.path), "--as", written),
        *("-o", f"rollouts{FORM_ENDINGS[kind]}"),
        *(["--where", " and ".join(terms)] if terms else []),
        *(["--split", run.split] if run.split is not None else []),
        *(part for env in run.envs for part in ("--env", env)),
    ]


def _no_conversation(run: Run) -> str:
    """Why no rollout of a run is a conversation."""
    if has_messages(run):
        return ""
    names = {name for name in ("prompt", "response") if {name, WHOLE + name} & {*run.rows.names}}
    if "response" not in names:
        return "no text of the responses is recorded"
    return "" if "prompt" in names else "no prompt is recorded"


def _no_pair(run: Run) -> str:
    """Why no two rollouts are a pair."""
    lacking = [name for name in ("reward", "group_id") if name not in run.columns]
    if lacking:
        words = {"reward": "rewards", "group_id": "groups"}
        return f"no {' and no '.join(words[name] for name in lacking)} are recorded"
    if reason := _no_conversation(run):
        return reason
    best = run.remembered("pairs to export", lambda: best_and_worst(run, 0.0))
    if best.pairs:
        return ""
    reasons = [reason for reason, _ in best.left_out.most_common(2)]
    return f"no group has a pair: {'; '.join(reasons)}" if reasons else "there is no group"


FORMS: Final[Mapping[str, Sequence[Form]]] = {
    "To read": (
        Form("HTML page", "", ".html", "text/html", _html),
        Form("Interactive reader", "", "_reader.html", "text/html", _reader),
    ),
    "Tables": (
        Form("CSV", "spreadsheet", ".csv", "text/csv", _data_set("spreadsheet")),
        Form(
            "Parquet",
            "parquet",
            ".parquet",
            "application/vnd.apache.parquet",
            _data_set("parquet"),
        ),
        Form("JSON lines", "jsonl", ".jsonl", "application/jsonl", _data_set("jsonl")),
    ),
    "To train on": (
        Form("SFT", "sft", "_sft.jsonl", "application/jsonl", _data_set("sft"), _no_conversation),
        Form("DPO", "dpo", "_dpo.jsonl", "application/jsonl", _data_set("dpo"), _no_pair),
    ),
}
"""Forms by what they are for."""
FORM_ENDINGS: Final = {form.kind: form.ending for forms in FORMS.values() for form in forms}


def of_run(run: Run, step: int | None, listed: Chosen | None) -> list[Chosen]:
    """The rollouts that a page of a run can export, the usual ones first. listed: what the page lists;
    those that are the same are offered once.
    """
    chosen = [] if listed is None else [listed]
    narrowings = (listed.run.step_range, listed.run.expression) if listed else None
    if step is not None and step in run.counts:
        at = run.where(steps=(step, step))
        if narrowings != ((step, step), ""):
            chosen.append(Chosen(f"Step {step}", "step", at, run.counts[step]))
    if narrowings != (None, ""):
        chosen.append(Chosen("Whole run", "all", run, run.rollout_count))
    return chosen
