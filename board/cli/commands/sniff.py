"""`rollout-board sniff`: why a file is or is not recognised."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from board.cli import output
from board.cli.runs import mapping_hint
from board.formats.io.locations import Location, location_of
from board.index.discovery.sniff import Layout, Sniffed, SniffedFolder, sniff

_MAX_KEYS: Final = 12


def main(args: argparse.Namespace) -> int:
    """Explains each file; 0 when one at least is recognised, 1 when none is."""
    path = location_of(args.path)
    folder = sniff(path)
    if args.json:
        output.print_json(_document(path, folder))
    else:
        _print(path, folder)
    if any(file.reader for file in folder.files):
        return 0
    if hint := mapping_hint(path):
        output.say(f"nothing is recognised{hint}")
    return 1


def _document(path: Location, folder: SniffedFolder) -> dict[str, Any]:
    return {
        "path": str(path),
        "files": [_of_file(file) for file in folder.files],
        "unexplained": folder.unexplained,
        "beside": [asdict(one) for one in folder.ignored],
        "problems": [asdict(problem) for problem in folder.problems],
    }


def _of_file(file: Sniffed) -> dict[str, Any]:
    return {
        **asdict(file),
        "path": str(file.path),
        "mapping": None if file.mapping is None else str(file.mapping),
        "recognised": file.reader is not None,
    }


def _print(path: Location, folder: SniffedFolder) -> None:
    for file in folder.files:
        _print_file(file)
    if folder.unexplained:
        output.say(f"and {folder.unexplained:,} more files; give one of the folders")
    for problem in folder.problems:
        print(output.one_line(f"{problem.path}: {problem.reason}; {problem.hint}"))
    for one in folder.ignored:
        print(output.one_line(f"skipped by name: {one.words}"))
    if not folder.files:
        output.say(f"{path} holds no file whose name says that it may be a log")


def _passed_over(file: Sniffed) -> Iterator[tuple[str, str]]:
    """Why readers passed the file over, those of other kinds of files together."""
    others = [reader for reader, reason in file.readers.items() if reason.startswith("reads ")]
    for reader, reason in file.readers.items():
        if reader not in others:
            yield f"  {reader}", reason
    if others:
        yield "  of other kinds of files", ", ".join(others)


def _print_file(file: Sniffed) -> None:
    verdict = f"{file.title} ({file.reader})" if file.reader else "not recognised"
    print(output.one_line(f"{file.path}: {verdict}"))
    more = "" if len(file.keys) <= _MAX_KEYS else f" and {len(file.keys) - _MAX_KEYS} more"
    lines = [
        ("reason", file.reason),
        ("kind", file.kind),
        (_named_keys(file), ", ".join(file.keys[:_MAX_KEYS]) + more),
        *(("layout", _layout(layout)) for layout in file.layouts),
        ("first error", file.first_error if file.first_error != file.reason else ""),
        ("mapping", "" if file.mapping is None else str(file.mapping)),
        ("not found", ", ".join(file.missing)),
        *_passed_over(file),
    ]
    for name, text in lines:
        if text:
            print(output.one_line(f"  {name}: {text}"))
    if file.suggested:
        print("  a mapping to try, as rollout-board.toml in the run's folder:")
        for line in output.printable(file.suggested).splitlines():
            print(f"    {line}")


def _named_keys(file: Sniffed) -> str:
    """What the keys are called: a pickle that is not run does not tell its keys from its texts."""
    return "keys and texts" if file.kind == "torch" else "keys"


def _layout(layout: Layout) -> str:
    parts = [f"{key} {value}" for key, value in (("step", layout.step), ("split", layout.split))]
    parts = [text for text in parts if not text.endswith(" None")]
    return f"as of {layout.reader}" + (f": {', '.join(parts)}" if parts else "")
