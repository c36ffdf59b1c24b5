"""Logs in an object store: the few calls that the board makes of one, through fsspec.

A RemoteLocation stands where a Path stands for a local log. Each of its calls is one request, or one for
every thousand objects where a folder is listed; nothing is ever downloaded whole. What a store or its
library raises becomes a RemoteError, which is an OSError.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final, Self

from board.errors import BoardError, ChoiceError

PROTOCOLS: Final = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hf", "memory")
"""Stores that tell size, time and version of an object, and in which a path can't leave its bucket."""

_URL: Final = re.compile(r"([^/]+)://(.*)", re.DOTALL)
_PACKAGES: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
}
_EXTRAS: Final = {"s3fs": "remote", "fsspec": "remote", "huggingface_hub": "hf"}
_REPOSITORY: Final = re.compile(
    r"(?:(?:datasets|spaces)/)?(?!(?:datasets|spaces)/)[^/@]+/[^/]+(/|$)"
)
"""Owner and name of a repository of the hub, with its kind in front where it is no model."""
_VERSIONS: Final = ("ETag", "etag", "generation", "VersionId", "blob_id")
_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime", "created")
_SECRETS: Final = ((re.compile(r"//[^/@\s]+@"), "//***@"), (re.compile(r"\?[^\s'\"]+"), "?***"))
_MOST_TEXT: Final = 300
_S3_LIMITS: Final = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 2}}
"""Seconds, and tries: botocore's own would keep a page waiting for minutes when the network is down."""


class RemoteError(OSError):
    """A store that can't be asked. strerror: what it said, and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)


class MissingObjectError(RemoteError, FileNotFoundError):
    """A store has no such object."""


@dataclass(frozen=True, slots=True)
class RemoteStat:
    """An object as it stands, under the names of os.stat_result.

    st_ino: a number that is another one for another version of the object, where the store tells
    versions; else 0.
    """

    st_size: int
    st_mtime_ns: int
    st_ino: int

    @property
    def st_mtime(self) -> float:
        """Unix seconds of the last change; 0 where the store does not tell."""
        return self.st_mtime_ns / 1e9


@dataclass(frozen=True, slots=True)
class RemoteLocation:
    """An object, or the beginning that the names of several share.

    path: bucket and key, as the store's filesystem names it. listed: what the listing said of it, where
    it is from one.
    """

    protocol: str
    path: str
    listed: RemoteStat | None = field(default=None, compare=False)

    @classmethod
    def of(cls, url: str) -> Self:
        """The location of a URL. Raises ChoiceError on one not taken, BoardError without fsspec."""
        match = _URL.fullmatch(url)
        protocol, path_text = (match.group(1).lower(), match.group(2)) if match else ("", "")
        _refuse_secrets(protocol, path_text)
        if protocol not in PROTOCOLS or "::" in url:
            protocols = ", ".join(f"{name}://" for name in (*PROTOCOLS, "file"))
            raise ChoiceError(
                f"{scrubbed(url)} is not a supported location; give a path, or {protocols}"
            )
        kind = _kind(protocol)
        url = f"{protocol}://{path_text}"
        path = str(kind._strip_protocol(url)).rstrip("/")
        if protocol != "memory" and not path.strip("/"):
            raise ChoiceError(f"{url} names no bucket; give {protocol}://BUCKET/FOLDER")
        if protocol == "hf" and not _REPOSITORY.match(path):
            raise ChoiceError(
                f"{url} names no data set; give hf://datasets/OWNER/NAME[@REVISION]/FOLDER"
            )
        if not _is_plain(path.strip("/")) and path.strip("/"):
            raise ChoiceError(f"{url} is not a plain path; leave out empty parts, `.` and `..`")
        return cls(protocol, path)

    def __str__(self) -> str:
        return f"{self.protocol}://{self.path.lstrip('/')}"

    @property
    def name(self) -> str:
        """The last part of the path; empty for a store's root."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The location one part up."""
        return self._at(self.path.rpartition("/")[0])

    def __truediv__(self, below: str) -> Self:
        """The location below this one. Raises ChoiceError where `below` could lead elsewhere."""
        below = below.strip("/")
        if not below:
            return self
        if not _is_plain(below):
            raise ChoiceError(f"{below!r} is not a path below {self}; leave out `.`, `..` and `//`")
        return self._at(f"{self.path}/{below}")

    def _at(self, path: str, listed: RemoteStat | None = None) -> Self:
        return type(self)(self.protocol, path, listed)

    @property
    def _store(self) -> Any:
        # The hub's keeps listings, which another thread must not change meanwhile.
        return _filesystem(self.protocol, threading.get_ident() if self.protocol == "hf" else 0)

    def relative_to(self, other: RemoteLocation) -> PurePosixPath:
        """The path below `other`; raises ValueError where it is not below."""
        if not self.is_relative_to(other):
            raise ValueError(f"{self} is not below {other}")
        return PurePosixPath(self.path[len(other.path) :].strip("/"))

    def is_relative_to(self, other: RemoteLocation) -> bool:
        """Whether it is `other` or below it."""
        return self.protocol == other.protocol and f"{self.path}/".startswith(f"{other.path}/")

    def stat(self) -> RemoteStat:
        """The object as it stands now. Raises RemoteError."""
        filesystem = self._store
        with _errors():
            if self.protocol == "hf":
                filesystem.invalidate_cache(self.path)
            return _stat_of(filesystem.info(self.path))

    def files(self) -> tuple[list[Self], int]:
        """All objects below, and how many more there are whose names are no paths. Raises RemoteError.

        A location that is an object is the only one.
        """
        filesystem = self._store
        with _errors():
            filesystem.invalidate_cache()
            objects: Mapping[str, Mapping[str, Any]] = filesystem.find(self.path, detail=True)
        files: list[Self] = []
        unusable = 0
        for path, info in objects.items():
            if info.get("type") != "file":
                continue
            if path != self.path and not _is_plain(path[len(self.path) :].removeprefix("/")):
                unusable += 1
            else:
                files.append(self._at(path, _stat_of(info)))
        return files, unusable

    def children_named(self, name: re.Pattern[str]) -> Iterator[Self]:
        """The objects right below whose names match. Raises RemoteError."""
        with _errors():
            objects = self._store.ls(self.path, detail=True)
        for info in objects:
            path = str(info["name"]).rstrip("/")
            if info.get("type") == "file" and name.fullmatch(path.rpartition("/")[2]):
                yield self._at(path, _stat_of(info))

    def read(self, offset: int, size: int) -> bytes:
        """Bytes [offset, offset + size), fewer at the end of the object. Raises RemoteError."""
        if size <= 0:
            return b""
        end = offset + size
        # The hub's would ask for the size first, and for megabytes beyond the end.
        exact = {"cache_type": "none", "size": end} if self.protocol == "hf" else {}
        try:
            with _errors():
                filesystem = self._store
                return filesystem.cat_file(self.path, start=offset, end=end, **exact)
        except RemoteError:
            # Stores refuse a range that begins at or after the end, each in its own way.
            with suppress(RemoteError):
                if self.stat().st_size <= offset:
                    return b""
            raise


def is_url(text: str) -> bool:
    """Whether a text names a location by a URL."""
    return _URL.fullmatch(text) is not None


def scrubbed(text: str) -> str:
    """The text without what stands where URLs carry passwords and signatures."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _refuse_secrets(protocol: str, path: str) -> None:
    if "?" in path or "@" in path.partition("/")[0]:
        raise ChoiceError(
            f"{scrubbed(f'{protocol}://{path}')} carries credentials or options, which end up in "
            "histories and logs; leave them out and set them in the environment (docs/object_stores.md)"
        )


def _is_plain(path: str) -> bool:
    """Whether every part of a path is a name, so that it leads downwards and nowhere else."""
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def _kind(protocol: str) -> Any:
    try:
        return importlib.import_module("fsspec").get_filesystem_class(protocol)
    except ImportError as error:
        package = _PACKAGES.get(protocol, "adlfs" if protocol.startswith("a") else "fsspec")
        extra = f"rollout-board[{_EXTRAS[package]}]" if package in _EXTRAS else package
        raise BoardError(
            f'reading {protocol}:// needs {package}, which is not installed: pip install "{extra}"'
        ) from error


@lru_cache(maxsize=32)
def _filesystem(protocol: str, thread: int) -> Any:
    conf = importlib.import_module("fsspec.config").conf
    given: dict[str, Any] = {}
    if protocol != "memory":  # every look at a folder asks the store
        given["use_listings_cache"] = False
    if protocol in ("s3", "s3a") and "config_kwargs" not in conf.get("s3", {}):
        given["config_kwargs"] = _S3_LIMITS
    kind = _kind(protocol)
    with _errors():
        return kind(**given)


def _stat_of(info: Mapping[str, Any]) -> RemoteStat:
    version = next((str(info[key]) for key in _VERSIONS if info.get(key)), "")
    digest = hashlib.blake2b(version.encode(), digest_size=7).digest()  # fits 63 bits
    number = int.from_bytes(digest, "big") if version else 0
    time = next((info[key] for key in _TIMES if info.get(key)), None)
    return RemoteStat(int(info.get("size") or 0), _nanoseconds(time), number)


def _nanoseconds(time: object) -> int:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime):
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        time = aware.timestamp()
    return round(time * 1e9) if isinstance(time, int | float) else 0


@contextmanager
def _errors() -> Generator[None]:
    """Raises as RemoteError what a store or its library raises."""
    try:
        yield
    except (BoardError, RemoteError):
        raise
    except Exception as error:
        raise _remote_error(error) from error


def _remote_error(error: Exception) -> RemoteError:
    kind = type(error).__name__
    message = scrubbed(" ".join(str(error).split()))[:_MOST_TEXT].rstrip(".") or kind
    if isinstance(error, FileNotFoundError):
        private = "; a private one needs HF_TOKEN" if "repository not found" in message else ""
        return MissingObjectError(f"{message} (check the names of bucket and folder{private})")
    if "Credential" in kind or "Token" in kind or "login" in message.lower():
        hint = (
            "set the store's credentials in the environment, e.g. AWS_PROFILE, AWS_ACCESS_KEY_ID or "
            "HF_TOKEN"
        )
    elif isinstance(error, PermissionError) or "Forbidden" in message or "Access" in message:
        hint = "check the credentials in the environment and what they allow"
    else:
        hint = (
            "check the network, and the address of the store, e.g. AWS_ENDPOINT_URL or HF_ENDPOINT"
        )
    return RemoteError(f"{kind}: {message} ({hint})")
