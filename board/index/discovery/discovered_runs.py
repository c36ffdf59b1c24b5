"""Which runs lie under a folder: files are recognised by what is in them, never by a folder's name.

A run is a folder that holds log files of one format. What a reader's layout matches belongs to the run
of the folder above it, and so do folders called step_N: some frameworks write one folder per step. A
folder with logs of two formats is two runs, each with its format's name beside the folder's; where both
speak of the same rollouts (readers with a `join`) they are a third one, joined, with the folder's name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from board.core.natural_order import natural_order
from board.core.problems import Problem
from board.errors import NotFoundError, OutsideRootError
from board.formats import family_of, layouts_of, reader_named, source_of
from board.formats.base import Reader, folder_above, layout_match
from board.formats.io.locations import Location, Objects, below, location_of, state_of
from board.formats.io.parquet_files import PARQUET
from board.formats.io.remote import RemoteLocation, is_url, scrubbed
from board.formats.io.trackio_files import TRACKIO
from board.formats.recognition import ONLY_NUMBERS
from board.index.discovery.candidates import MOST_FILES, Listing, list_root, sibling_object
from board.index.discovery.format_detection import (
    LEFT_OUT,
    detect_format,
    likely_turns,
    mapping_mismatch,
)
from board.index.discovery.metric_files import metric_files_of_runs
from board.index.discovery.packed import is_packed
from board.index.discovery.run_info import Discovery, LogFile, RunInfo, digest
from board.index.discovery.subjects import by_subject

THRESHOLDS: Final = "thresholds.toml"
"""Name of the file in a run's folder that says what the rules go by."""
_ASKED_AT_ONCE: Final = 16
_MOST_TITLES: Final = 8
"""Log files of a run that are asked what it is of."""
_EQUALLY_NEW: Final = 10
"""Seconds; a copy or a checkout writes all its runs within moments, in an order that says nothing."""
_STEP_FOLDER: Final = re.compile(r"^(global_)?step[_-]?\d+$")


def discover(root: Location) -> Discovery:
    """All runs under `root`, which may be a folder of runs, one run, or one log file.

    Raises NotFoundError when `root` does not exist and UnreadableError when it can't be listed.
    """
    listing = list_root(root)
    if listing.is_file:
        return _single_file(listing)
    files, problems = _detected_files(listing)
    of_scalars = {path: problems.pop(path) for path in listing.metric_files if path in problems}
    objects = Objects(listing.objects)
    files = {path: _with_sidecar_state(file, objects, problems) for path, file in files.items()}
    runs = list(_runs(root, files, problems))
    metric_files, elsewhere = metric_files_of_runs(runs, listing.metric_files, root)
    for path in elsewhere:
        if path in of_scalars:
            problems[path] = of_scalars[path]
        else:
            listing.ignored.add(below(path, root))
    others = [
        *listing.problems,
        *(_relative_to(path, root, problem) for path, problem in problems.items()),
    ]
    runs = list(_with_titles(runs))
    runs.sort(key=lambda run: (-(run.mtime // _EQUALLY_NEW), natural_order(run.name)))
    runs, ignored = listing.ignored.assign_to_runs(runs, root)
    thresholds: dict[Location, RemoteLocation] = {
        path.parent: path for path in listing.objects if path.name == THRESHOLDS
    }
    runs = tuple(
        replace(run, thresholds=thresholds.get(run.path), metric_files=metric_files[run.path])
        for run in runs
    )
    return Discovery(root, runs, group_equal_problems(others), ignored)


def _detected_files(
    listing: Listing,
) -> tuple[dict[Location, LogFile], dict[Location, Problem]]:
    """The log files under a root, and what else looks like one, each with the reason."""
    files: dict[Location, LogFile] = {}
    problems: dict[Location, Problem] = {}
    paths = list(islice(listing.candidates(), MOST_FILES + 1))
    if len(paths) > MOST_FILES:
        reason = (
            f"the folder holds more than {MOST_FILES:,} log files; the further ones are not read"
        )
        listing.problems.append(Problem(".", None, None, reason, "open one of its folders"))
        paths.pop()
    for path, result in zip(paths, _detect_formats(paths, listing), strict=True):
        if isinstance(result, LogFile):
            files[path] = result
            if isinstance(path, Path) and source_of(path) is TRACKIO:
                listing.metric_files.append(path)
            mismatch = mapping_mismatch(result, listing.mappings.of(path))
            if (problem := mismatch or likely_turns(result)) is not None:
                problems[path] = problem
        else:
            problems[path] = result
            if isinstance(path, Path) and result.reason.endswith(ONLY_NUMBERS):
                listing.metric_files.append(path)
    problems |= listing.mappings.problems
    _leave_out_copies(files, problems)
    return files, problems


def _leave_out_copies(files: dict[Location, LogFile], problems: dict[Location, Problem]) -> None:
    """Of a log beside its packed copy the copy: it is being packed, or was packed and kept."""
    for path in list(filter(is_packed, files)):
        if path.parent / path.name.rpartition(".")[0] in files:
            del files[path]
            reason = f"{LEFT_OUT}the same log exists uncompressed next to it"
            problems[path] = Problem(path.name, None, None, reason, "delete one of them", "note")


def _with_sidecar_state(
    file: LogFile, objects: Objects, problems: dict[Location, Problem]
) -> LogFile:
    """The file with a hash of those that it is read with: of their names, sizes and times. Takes them
    from `problems`.
    """
    sidecars = reader_named(file.reader).sidecar_files(file.path, objects)
    states: list[str] = []
    for path in sidecars:
        problems.pop(path, None)
        with suppress(OSError):  # it went away just now; the hash says so
            state = state_of(path)
            states.append(f"{path} {state[1]} {state[2]}")
    if not sidecars:
        return file
    return replace(file, sidecar_state=digest("\n".join(states).encode()))


def _detect_formats(paths: Sequence[Location], listing: Listing) -> Iterator[LogFile | Problem]:
    """The log file that each path is, or why it is none; a store is asked for several at once."""
    own = map(listing.mappings.of, paths)
    if isinstance(listing.root, Path):
        yield from map(detect_format, paths, repeat(listing.root), own)
        return
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        yield from pool.map(detect_format, paths, repeat(listing.root), [*own])


def _runs(
    root: Location, files: Mapping[Location, LogFile], problems: dict[Location, Problem]
) -> Iterator[RunInfo]:
    """The runs that the files make; takes from `problems` those of the runs' own folders."""
    by_folder: dict[Location, dict[str, list[LogFile]]] = {}
    for path, file in files.items():
        folder = _run_folder(path, root, reader_named(file.reader))
        by_folder.setdefault(folder, {}).setdefault(family_of(file.reader), []).append(file)
    left_out: dict[Location, list[Problem]] = {}
    for path in list(problems):
        home = next((f for f in _homes(path, root) if f in by_folder), None)
        if home is not None:
            left_out.setdefault(home, []).append(_relative_to(path, home, problems.pop(path)))
    for folder, families in by_folder.items():
        own = sorted(left_out.get(folder, ()), key=lambda p: natural_order(p.path))
        notes = group_equal_problems(own)
        name = _name(folder, root)
        sources = {f: _in_order(folder, of_family) for f, of_family in families.items()}
        if len(families) == 1:
            (ordered,) = sources.values()
            yield from _of_one_family(RunInfo(name, folder, ordered, notes, root))
            continue
        if together := _joinable(families.values()):
            yield RunInfo(name, folder, _in_order(folder, together), notes, root)
        for family, ordered in sources.items():
            run = RunInfo(f"{name} ({family})", folder, ordered, notes, root, family=family)
            yield from _runs_of_files(run) if any(file.runs for file in ordered) else (run,)


def _of_one_family(run: RunInfo) -> Iterator[RunInfo]:
    """The runs of a folder whose files one family of readers reads: one, or those of its subjects."""
    if any(file.runs for file in run.files):
        yield from _runs_of_files(run)
        return
    if reader_named(run.files[0].reader).run_per_file:
        subjects = {file.path.name: (file,) for file in run.files}
    else:
        subjects = by_subject(run.files)
    if len(subjects) == 1:
        yield run
        return
    for subject, files in subjects.items():
        path = files[0].path
        if len(files) == 1 and path.parent == run.path:
            yield replace(run, name=f"{run.name}/{path.name}", files=(*files,), only=path.name)
        else:
            yield replace(run, name=f"{run.name} ({subject})", files=(*files,), family=subject)


def _runs_of_files(run: RunInfo) -> Iterator[RunInfo]:
    """The runs that each of the files holds; one alone is called as the folder."""
    parts = [part for file in run.files for part in _parts(file)]
    for file in parts:
        files, name = (file,), file.runs[0].name if file.runs else ""
        if len(parts) == 1:
            yield replace(run, files=files)
            continue
        only = below(file.path, run.path)
        full = "/".join(filter(None, ("" if run.only else run.name, only, name)))
        yield replace(run, name=full, files=files, only=only, family=name)


def _parts(file: LogFile) -> Iterator[LogFile]:
    """The file once for each run that it holds, as large and as new as what it holds of that."""
    for run in file.runs:
        size, mtime_ns = run.size or file.size, run.mtime_ns or file.mtime_ns
        yield replace(file, runs=(run,), size=size, mtime_ns=mtime_ns)
    if not file.runs:
        yield file


def _with_titles(runs: Sequence[RunInfo]) -> Iterator[RunInfo]:
    """The runs, called by what they are of where their logs say so and no other run is of the same."""
    titles = [_title(run) for run in runs]
    counts = Counter([*titles, *(run.name for run in runs)])
    for run, title in zip(runs, titles, strict=True):
        yield replace(run, name=title) if title and counts[title] == 1 else run


def _title(run: RunInfo) -> str:
    """What a run is of, below the folders that its own folder lies in; empty where nothing says so."""
    titles = {reader_named(file.reader).run_title(file.path) for file in run.files[:_MOST_TITLES]}
    title = titles.pop() if len(titles) == 1 and len(run.files) <= _MOST_TITLES else ""
    title = title.replace("/", " ")
    folder, _, last = run.name.rpartition("/")[0].rpartition("/")
    # verifiers' folders are called so, with the ids of runs below.
    is_same = title and last.startswith(title.partition(" · ")[0]) and "--" in last
    above = folder if is_same else f"{folder}/{last}".strip("/")
    return f"{above}/{title}" if above and title else title


def _joinable(families: Iterable[Sequence[LogFile]]) -> list[LogFile]:
    """The files of a folder that are joined: of several families that speak of the same rollouts."""
    by_join: dict[str, list[Sequence[LogFile]]] = {}
    for files in families:
        join = reader_named(files[0].reader).join
        if join is not None:
            by_join.setdefault(join.of, []).append(files)
    several = [files for files in by_join.values() if len(files) > 1]
    return [file for files in several[0] for file in files] if several else []


def _in_order(folder: Location, files: Iterable[LogFile]) -> tuple[LogFile, ...]:
    return tuple(sorted(files, key=lambda file: natural_order(below(file.path, folder))))


def group_equal_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems, those of tables of one folder that are no logs as one: data sets have thousands."""
    grouped: list[Problem] = []
    places: dict[tuple[str, str], int] = {}
    for problem in problems:
        folder, slash, name = problem.path.rpartition("/")
        if problem.severity != "note" or not name.lower().endswith(PARQUET.suffixes):
            grouped.append(problem)
            continue
        key = (folder, problem.reason)
        if key in places:
            known = grouped[places[key]]
            together = f"{folder}{slash}*.parquet"
            grouped[places[key]] = replace(known, path=together, count=known.count + 1)
        else:
            places[key] = len(grouped)
            grouped.append(problem)
    return tuple(grouped)


def _single_file(listing: Listing) -> Discovery:
    path = listing.root
    # The user named this very file, so that a link may lead anywhere.
    root = path.resolve().parent if isinstance(path, Path) else path.parent
    result = detect_format(path, root, listing.mappings.of(path), is_named=True)
    notes = tuple(listing.mappings.problems.values())
    if not isinstance(result, LogFile):  # it was named: that it is not read is no side note
        return Discovery(path, (), (replace(result, severity="lost"), *notes))
    mismatch = mapping_mismatch(result, listing.mappings.of(path))
    if (problem := mismatch or likely_turns(result)) is not None:
        notes = (*notes, problem)
    result = _with_sidecar_state(result, Objects(), {})
    thresholds = next(iter(sibling_object(path, THRESHOLDS)), None)
    metrics = (path,) if isinstance(path, Path) and source_of(path) is TRACKIO else ()
    run = RunInfo(path.name, path.parent, (result,), notes, root, path.name, "", thresholds)
    run = replace(run, metric_files=metrics)
    return Discovery(path, (*_runs_of_files(run),) if result.runs else (run,), ())


def _name(folder: Location, root: Location) -> str:
    if folder != root:
        return below(folder, root)
    return root.name or (root.resolve().name if isinstance(root, Path) else "") or str(root)


def _relative_to(path: Location, folder: Location, problem: Problem) -> Problem:
    """The problem of a file, its path relative to a folder."""
    return replace(problem, path=below(path, folder))


def _run_folder(path: Location, root: Location, reader: Reader | None = None) -> Location:
    """The folder of the run that a file is of: above the reader's layout, and above folders of steps."""
    match = None if reader is None else layout_match(reader.layout, _inside(path, root))
    folder = path.parent if match is None else root / folder_above(match)
    while folder != root and _STEP_FOLDER.match(folder.name):
        folder = folder.parent
    return folder


def _homes(path: Location, root: Location) -> Iterator[Location]:
    """Folders whose run a file would be of, if it were a log."""
    yield _run_folder(path, root)
    for match in layouts_of(_inside(path, root)):
        yield root / folder_above(match)


def _inside(path: Location, root: Location) -> PurePath:
    """The path relative to the root, which layouts are matched with."""
    return PurePosixPath(below(path, root))


def resolve_inside(root: Location, wanted: str) -> Location:
    """`wanted`, relative to `root` or absolute, with links resolved.

    Raises OutsideRootError when it leaves `root`, be it for another store, and NotFoundError when it
    does not exist.
    """
    if isinstance(root, RemoteLocation):
        return _inside_store(root, wanted)
    if is_url(wanted):
        asked = location_of(wanted)
        if not isinstance(asked, Path):
            raise _outside_error(root, wanted)
        wanted = str(asked)
    base = root.resolve()
    try:
        target = (base / wanted).resolve()
        exists = target.exists()
    except (OSError, ValueError, RuntimeError) as error:  # NUL, a name too long, a loop of links
        raise NotFoundError(
            f"{wanted!r} is not a path: {error}; give a folder below {base}"
        ) from error
    if not target.is_relative_to(base):
        raise _outside_error(base, wanted)
    if not exists:
        raise NotFoundError(f"{target} does not exist; give a folder below {base}")
    return target


def location_below(root: Location, wanted: str) -> Location:
    """`wanted` as a user means it who may open anything: a URL, or a path relative to `root`.

    Raises ChoiceError on a URL that is not taken.
    """
    if is_url(wanted):
        return location_of(wanted)
    if isinstance(root, RemoteLocation) and not wanted.startswith(("/", "~")):
        return root / wanted
    base = root if isinstance(root, Path) else Path("/")
    try:
        return base / Path(wanted).expanduser()
    except RuntimeError:  # the home of a user that there is not
        return base / wanted


def _inside_store(root: RemoteLocation, wanted: str) -> RemoteLocation:
    if wanted.startswith("/"):
        raise _outside_error(root, wanted)
    asked = location_of(wanted) if is_url(wanted) else root / wanted
    if not isinstance(asked, RemoteLocation) or not asked.is_relative_to(root):
        raise _outside_error(root, wanted)
    return asked


def _outside_error(root: Location, wanted: str) -> OutsideRootError:
    return OutsideRootError(
        f"{scrubbed(wanted)} is outside {root}, the folder this server shows; "
        "start rollout-board on another folder, or with --allow-any-path"
    )
