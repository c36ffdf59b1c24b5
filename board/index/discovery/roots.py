"""Which folder is asked for: what users type below the root, in a store as on disk."""

from __future__ import annotations

from pathlib import Path

from board.errors import NotFoundError, OutsideRootError
from board.formats.io.locations import Location, location_of
from board.formats.io.remote import RemoteLocation, is_url, scrubbed


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
            raise _outside(root, wanted)
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
        raise _outside(base, wanted)
    if not exists:
        raise NotFoundError(f"{target} does not exist; give a folder below {base}")
    return target


def location_below(root: Location, wanted: str) -> Location:
    """`wanted` as a user means it who may open anything: a URL, or a path told from `root`.

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
        raise _outside(root, wanted)
    asked = location_of(wanted) if is_url(wanted) else root / wanted
    if not isinstance(asked, RemoteLocation) or not asked.is_relative_to(root):
        raise _outside(root, wanted)
    return asked


def _outside(root: Location, wanted: str) -> OutsideRootError:
    return OutsideRootError(
        f"{scrubbed(wanted)} is outside {root}, the folder this server shows; "
        "start rollout-board on another folder, or with --allow-any-path"
    )
