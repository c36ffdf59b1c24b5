"""The commands about a folder: `runs`, and `sniff`, which says why a file is or is not recognised."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from board import __version__
from board.cli import output
from board.cli.runs import default_root, mapping_hint, no_runs
from board.cli.terminal import printable
from board.core.metrics.shares import counted
from board.core.problems import count_of
from board.errors import ChoiceError
from board.formats import reader_named
from board.formats.io.locations import Location, location_of
from board.formats.mapping import PREFIX
from board.index.discovery.discovered_runs import RunInfo, discover
from board.index.discovery.format_detection import LEFT_OUT
from board.index.discovery.mappings import FILE_NAME
from board.index.discovery.run_info import digest
from board.index.discovery.sidecar_files import state_of
from board.index.discovery.sniff import Sniffed, SniffedFolder
from board.index.discovery.sniff import sniff as sniffed
from board.index.manifest import VERSION
from board.index.run_notes import read_note
from board.index.summary_cache import SummaryCache

_MAX_PROBLEMS: Final = 3
_MAX_KEYS: Final = 12
_WIDTH: Final = 40
_USUAL: Final = ("run", "path", "format", "steps", "rollouts", "bytes", "problems", "note")
"""Columns of the table of runs, of which `note` is there where a run has one."""
_OF_RUNS: Final = (*_USUAL, "source", "changed")
_NEAREST: Final = 3
"""Readers of which it is said why they pass a file over."""


def runs(args: argparse.Namespace) -> int:
    """Lists every run under a folder with what it holds."""
    columns = _columns(args.columns)
    root = location_of(args.path) if args.path else default_root()
    discovery = discover(root)
    rows = [
        {
            "run": info.name,
            "path": str(info.path / info.only if info.only else info.path),
            "source": info.source,
            "format": ", ".join(info.formats),
            "steps": counts["steps"],
            "rollouts": counts["rollouts"],
            "bytes": info.bytes,
            "changed": f"{datetime.fromtimestamp(info.mtime, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "problems": counts["problems"],
            "note": read_note(info).text,
        }
        for info, counts in zip(discovery.runs, _all_counts(discovery.runs), strict=True)
    ]
    if not rows:
        output.say(no_runs(discovery, root))
    else:
        for problem in discovery.left_out[:_MAX_PROBLEMS]:
            output.say(f"left out: {problem.path}: {problem.reason.removeprefix(LEFT_OUT)}")
        if len(discovery.left_out) > _MAX_PROBLEMS:
            output.say(f"and {len(discovery.left_out) - _MAX_PROBLEMS} more files")
    ignored = [*discovery.ignored, *(one for info in discovery.runs for one in info.ignored)]
    for one in (one for one in ignored if one.kind == ".json"):
        output.say(f"not opened, by name: {one.words} (pass a file itself to open it)")
    if args.json:
        output.print_rows_json([{name: row[name] for name in columns or row} for row in rows])
    elif rows:
        for row, info in zip(rows, discovery.runs, strict=True):
            if row["format"].startswith(PREFIX):  # a hash of a mapping's text: useless to a reader
                row["format"] = ", ".join(reader_named(name).title for name in info.formats)
        has_notes = any(row["note"] for row in rows)
        usual = [name for name in _USUAL if name != "note" or has_notes]
        output.print_table(rows, columns or usual, whole=("run", "path"))
    return 0


def _columns(written: str | None) -> list[str]:
    """The columns that are asked for; none where they are left to the command."""
    if written is None:
        return []
    from board.cli.opened_runs import listed_columns  # late, as is what it imports

    return listed_columns(written, _OF_RUNS)


def _all_counts(infos: Sequence[RunInfo]) -> list[Mapping[str, int]]:
    """Steps, rollouts and problems of each run; from the cache where its files did not change."""
    cache = SummaryCache(f"counts {__version__} {VERSION}")
    keys = [f"{info.path}\n{info.part}" for info in infos]
    known = cache.read(keys)
    counts: list[Mapping[str, int]] = []
    progress = output.ProgressLine(text=output.runs_text)
    for number, (key, info) in enumerate(zip(keys, infos, strict=True)):
        progress(number, len(infos))
        parts = repr((info.files, info.left_out, state_of(info)))
        signature = digest(parts.encode("utf-8", "replace"))
        cached_signature, document = known.get(key, ("", b""))
        if cached_signature == signature:
            counts.append(json.loads(document))
            continue
        counts.append(_counted(info))
        cache.write(key, signature, json.dumps(counts[-1]).encode())
    progress.close()
    return counts


def _counted(info: RunInfo) -> Mapping[str, int]:
    # Imported late: with what it needs, it takes longer than the whole list.
    from board.cli.opened_runs import opened
    from board.index.arrow_start import leave_pandas_out

    leave_pandas_out()
    run = opened(info)
    problems = count_of(run.problems, "lost") + count_of(run.problems, "partial")
    return {"steps": len(run.counts), "rollouts": run.rollout_count, "problems": problems}


def sniff(args: argparse.Namespace) -> int:
    """Explains each file; 0 when one at least is recognised, 1 when none is."""
    path = location_of(args.path)
    folder = sniffed(path)
    if args.write:
        _write_mapping(folder)
    if args.json:
        document = {
            "path": str(path),
            "rows": [
                {
                    **asdict(file),
                    "path": str(file.path),
                    "mapping": None if file.mapping is None else str(file.mapping),
                    "recognised": file.reader is not None,
                }
                for file in folder.files
            ],
            "unexplained": folder.unexplained,
            "beside": [asdict(one) for one in folder.ignored],
            "problems": [asdict(problem) for problem in folder.problems],
        }
        output.print_json(document)
    else:
        _print_sniffed(path, folder, each=args.all)
    readers = [file.reader for file in folder.files if file.reader]
    is_by_names = all(name.startswith(PREFIX) for name in readers)
    if is_by_names and (hint := mapping_hint(path)):
        what = "it is read by the names of its keys" if readers else "nothing is recognised"
        output.say(f"{what}{hint}")
    return 0 if readers else 1


def _write_mapping(folder: SniffedFolder) -> None:
    """Saves the suggested mapping beside its file. Raises ChoiceError where it can't be saved."""
    suggested = {file.suggested: file.path for file in folder.files if file.suggested}
    if len(suggested) != 1:
        number = "none is" if not suggested else f"{len(suggested)} different ones are"
        raise ChoiceError(f"--write saves one mapping, and {number} suggested; give one file")
    ((text, path),) = suggested.items()
    if not isinstance(path, Path):
        raise ChoiceError("--write saves beside a file on disk, not in a store")
    target = path.parent / FILE_NAME
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ChoiceError(f"{target} already exists; change it, or remove it first") from None
    output.say(f"wrote {target}")


def _print_sniffed(path: Location, folder: SniffedFolder, *, each: bool) -> None:
    """each: every file by itself; else files of which the same is known are one, after the first."""
    groups: dict[object, list[Sniffed]] = {}
    for number, file in enumerate(folder.files):
        known = (file.reader, file.reason, file.kind, file.keys, file.first_error, file.missing)
        groups.setdefault(number if each else known, []).append(file)
    for own in groups.values():
        file = own[0]
        verdict = f"{file.title} ({file.reader})" if file.reader else "not recognised"
        lines = [f"  {name}: {text}" for name, text in _facts_of(file) if text]
        if file.suggested:
            lines.append("  a mapping to try, as rollout-board.toml in the run's folder:")
            lines += [f"    {line}" for line in printable(file.suggested).splitlines()]
            lines += [
                "  gives: " + ", ".join(f"{key} {output.cell(row[key], _WIDTH)}" for key in row)
                for row in file.preview
            ]
        if len(own) > 1:
            more = counted(len(own) - 1, "more file")
            lines.append(f"  and {more} like it; --all lists each")
        output.print_lines([f"{file.path}: {verdict}", *lines])
    if folder.unexplained:
        output.say(f"and {folder.unexplained:,} more files; give one of the folders")
    output.print_lines(f"{one.path}: {one.reason}; {one.hint}" for one in folder.problems)
    output.print_lines(f"skipped by name: {one.words}" for one in folder.ignored)
    if not folder.files:
        output.say(f"{path} holds no file whose name says that it may be a log")


def _facts_of(file: Sniffed) -> Iterator[tuple[str, str]]:
    """What is known of a file by name; empty texts are not shown."""
    more = "" if len(file.keys) <= _MAX_KEYS else f" and {len(file.keys) - _MAX_KEYS} more"
    yield "reason", file.reason
    yield "kind", file.kind
    # A pickle that is not run does not tell its keys from its texts.
    named = "keys and texts" if file.kind == "torch" else "keys"
    yield named, ", ".join(file.keys[:_MAX_KEYS]) + more
    for one in file.layouts:
        values = {"step": one.step, "split": one.split}
        parts = [f"{key} {value}" for key, value in values.items() if value is not None]
        yield "layout", f"as of {one.reader}" + (f": {', '.join(parts)}" if parts else "")
    yield "first error", file.first_error if file.first_error != file.reason else ""
    yield "mapping", "" if file.mapping is None else str(file.mapping)
    yield "not found", ", ".join(file.missing)
    yield "missing", file.lacks
    nearest = [name for name, reason in file.readers.items() if not reason.startswith("reads ")]
    for reader in nearest[:_NEAREST]:
        yield f"  {reader}", file.readers[reader]
    yield "  nor by", ", ".join(nearest[_NEAREST:])
    others = (name for name, reason in file.readers.items() if reason.startswith("reads "))
    yield "  of other kinds of files", ", ".join(others)
