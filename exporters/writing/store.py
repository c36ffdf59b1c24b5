"""A folder of an object store, which finished files are copied to through fsspec."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROTOCOLS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory")
"""Stores in which an object is there as a whole or not at all."""

_EXPECTED = "a folder of this machine or, as text, the address of a store's folder, s3://bucket/run"
_PACKAGES = {"s": "rollout-board[remote]", "g": "gcsfs", "a": "adlfs", "m": "fsspec"}
_S3_LIMITS = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 2}}
"""Seconds, and tries: with botocore's own a try takes minutes where the network is down."""


_SECONDS_OF_CHILD = 60.0


@dataclass(frozen=True, slots=True)
class Store:
    """A run's folder in a store. url: its address; whether it may be written to is known by trying."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def put(self, path: Path, *, replaces: bool = True) -> None:
        """Copies a file into the folder. Raises whatever the store's library does.

        replaces: False leaves an object of this name that is there already as it is.
        """
        if not _can_start_threads():
            self._put_in_child(path, replaces=replaces)
            return
        files = self._files()
        target = f"{self.url}/{path.name}"
        if replaces or not files.exists(target):
            files.put_file(str(path), target)

    def _put_in_child(self, path: Path, *, replaces: bool) -> None:
        command = (sys.executable, "-m", __name__, self.url, str(path), *["replace"] * replaces)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS_OF_CHILD, check=False
        )
        if done.returncode:
            raise OSError((done.stderr.strip().splitlines() or ["no reason given"])[-1])

    def _files(self) -> Any:
        protocol = self.url.partition("://")[0]
        options: dict[str, Any] = {}
        if protocol in ("s3", "s3a"):
            conf = importlib.import_module("fsspec.config").conf
            if "config_kwargs" not in conf.get("s3", {}):
                options["config_kwargs"] = _S3_LIMITS
        return importlib.import_module("fsspec").filesystem(protocol, **options)


def store_of(out_dir: str | os.PathLike[str]) -> Store | None:
    """The store that `out_dir` is the address of; None for a folder of this machine.

    Raises ValueError for an address that cannot work, ImportError where a package is missing. Nothing
    is asked of the store.
    """
    text = os.fspath(out_dir)
    address = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text)  # a drive has one letter
    if address is None:
        return None
    protocol, rest = address[1].lower(), text[address.end() :]
    names = rest.removeprefix("/").rstrip("/").split("/")
    is_plain = rest.startswith("/") and not {"", ".", ".."} & {*names}
    if protocol not in PROTOCOLS or not is_plain:
        raise ValueError(f"out_dir: expected {_EXPECTED}, found {_without_secrets(text)!r}")
    if re.search("[?@]", text):  # it ends up in the log and in what is printed
        raise ValueError(
            f"out_dir: expected an address without @ and ?, found {_without_secrets(text)!r}; "
            "credentials come from the environment"
        )
    try:
        importlib.import_module("fsspec").get_filesystem_class(protocol)
    except ImportError as error:
        package = _PACKAGES[protocol[0]]
        raise ImportError(
            f"out_dir: writing to {protocol}:// needs a package: pip install '{package}'"
        ) from error
    return Store(f"{protocol}://{'/'.join(names)}")


def _can_start_threads() -> bool:
    """Whether Python still lets the stores' libraries work: once a program ends, executors refuse."""
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int)
    except RuntimeError:
        return False
    return True


def _without_secrets(text: str) -> str:
    return re.sub(r"\?.*", "?***", re.sub(r"//[^/]*@", "//***@", text))


if __name__ == "__main__":  # of a program that ends: see `Store.put`
    Store(sys.argv[1]).put(Path(sys.argv[2]), replaces=len(sys.argv) > 3)
