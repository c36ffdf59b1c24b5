"""Rows to files, which appear whole or not at all: CSV, JSON lines, Parquet, and a data set folder.

JSON that differs from row to row (chat messages, tools, objects of the log) is of the type JSON in
Parquet, or a list of it, which `datasets` gives as objects, DuckDB as JSON and pandas as texts.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from board.core.csv_rows import CsvRows, harmless_cell
from board.errors import ChoiceError

Rows = Sequence[Mapping[str, Any]]

JSON: Final = pa.json_()
JSON_LIST: Final = pa.list_(JSON)
_AS_TEXTS: Final = pa.list_(pa.string())
SHARD_BYTES: Final = 500_000_000
"""A file of a data set folder is at most about so large, as those of the Hub are."""
README: Final = "README.md"
_DATA: Final = "data"
_NO_WORD: Final = re.compile(r"\W+")
"""How a cell begins that is a formula, the wide signs of Chinese and Japanese keyboards included."""


class Writer(Protocol):
    """What rows are written to."""

    def write(self, rows: Rows, splits: Sequence[str]) -> None:
        """Writes rows, each of one split."""
        ...

    def close(self) -> None:
        """Ends the file."""
        ...


class CsvFile:
    """Comma-separated values, with a header; texts as they are, lists as JSON."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._rows = CsvRows(self._file)
        self._schema = schema
        self._write(schema.names)

    def _write(self, cells: Iterable[Any]) -> None:
        self._rows.add(cells)

    def write(self, rows: Rows, splits: Sequence[str]) -> None:
        """Writes rows."""
        lists = [field.name for field in self._schema if field.type in (JSON, JSON_LIST)]
        for row in rows:
            texts = {name: json_text(row[name]) for name in lists if row[name] is not None}
            self._write(texts.get(name, row[name]) for name in self._schema.names)

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


class SpreadsheetFile(CsvFile):
    """The same without a cell that a spreadsheet would run as a formula."""

    def _write(self, cells: Iterable[Any]) -> None:
        super()._write(map(harmless_cell, cells))


class JsonLinesFile:
    """A JSON object a line; null where not recorded."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def write(self, rows: Rows, splits: Sequence[str]) -> None:
        """Writes rows."""
        self._file.writelines(f"{json_text(row)}\n" for row in rows)

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


class ParquetFile:
    """A Parquet file, a row group for each call of write."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._lists = [field.name for field in schema if field.type == JSON_LIST]
        self._objects = [field.name for field in schema if field.type == JSON]
        texts = {
            **dict.fromkeys(self._lists, _AS_TEXTS),
            **dict.fromkeys(self._objects, pa.string()),
        }
        self._plain = pa.schema([(f.name, texts.get(f.name, f.type)) for f in schema])
        self._file = path.open("wb")
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.tell()

    def write(self, rows: Rows, splits: Sequence[str]) -> None:
        """Writes rows."""
        plain = [
            {
                **row,
                **{name: _texts(row[name]) for name in self._lists},
                **{n: None if row[n] is None else json_text(row[n]) for n in self._objects},
            }
            for row in rows
        ]
        self._writer.write_table(pa.Table.from_pylist(plain, self._plain).cast(self._schema))

    def close(self) -> None:
        """Ends the file."""
        with self._file:
            self._writer.close()


class DatasetFolder:
    """A data set as the Hugging Face Hub has them: data/SPLIT-00000-of-0000N.parquet.

    names: by split of the run, its name in the data set. The names of splits have letters, digits and
    _ alone, as `datasets` wants them.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._folder, self._schema = path / _DATA, schema
        self._folder.mkdir(parents=True)
        self._open: dict[str, ParquetFile] = {}
        self._files: dict[str, list[Path]] = {}
        self.names: dict[str, str] = {}

    def write(self, rows: Rows, splits: Sequence[str]) -> None:
        """Writes rows, each to the file of its split."""
        for split in dict.fromkeys(splits):
            own = [row for row, of in zip(rows, splits, strict=True) if of == split]
            self._file_of(split).write(own, [split] * len(own))

    def _file_of(self, split: str) -> ParquetFile:
        file = self._open.get(split)
        if file is None or file.size > SHARD_BYTES:
            if file is not None:
                file.close()
            self.names.setdefault(split, self._name(split))
            shards = self._files.setdefault(split, [])
            shards.append(self._folder / f"{len(self.names)}-{len(shards)}")
            file = self._open[split] = ParquetFile(shards[-1], self._schema)
        return file

    def close(self) -> None:
        """Ends the files, and names them by how many there are."""
        for file in self._open.values():
            file.close()
        for split, shards in self._files.items():
            for number, shard in enumerate(shards):
                last = f"{number:05d}-of-{len(shards):05d}.parquet"
                shard.rename(self._folder / f"{self.names[split]}-{last}")

    def _name(self, split: str) -> str:
        """A name that no other split has; "all" means all splits together."""
        name = wanted = _NO_WORD.sub("_", split).strip("_") or "split"
        number = 2
        while name == "all" or name in self.names.values():
            name, number = f"{wanted}_{number}", number + 1
        return name


FORMATS: Final[Mapping[str, Callable[[Path, pa.Schema], Writer]]] = {
    "csv": CsvFile,
    "spreadsheet": SpreadsheetFile,
    "jsonl": JsonLinesFile,
    "parquet": ParquetFile,
    "hf": DatasetFolder,
}


def json_text(value: Any) -> str:
    """A plain value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False)


def _texts(values: Sequence[Any] | None) -> list[str] | None:
    return None if values is None else [*map(json_text, values)]


@contextmanager
def replacing(target: Path, *, overwrite: bool) -> Generator[Path]:
    """A path beside the target, for a file or a folder that takes its place in the end.

    Whatever ends the block early removes what was written. Raises ChoiceError where the target exists,
    unless overwrite; where it is a folder that is no data set, or a device; and where it can't be
    written.
    """
    if not target.parent.is_dir():
        raise ChoiceError(f"{target.parent} is not a folder; make it, or choose another")
    if target.is_symlink() or target.exists():
        _may_be_replaced(target, overwrite=overwrite)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        yield partial
        _move(partial, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ChoiceError(f"{target} can't be written: {reason}; nothing of it is left") from error
    finally:
        _remove(partial)


def _may_be_replaced(target: Path, *, overwrite: bool) -> None:
    if not overwrite:
        raise ChoiceError(f"{target} exists; choose another name, or replace it by --overwrite")
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise ChoiceError(f"{target} is no file that could be replaced; choose another")
    if target.is_dir():
        others = {path.name for path in target.iterdir()} - {README, _DATA}
        if others or not (target / README).is_file():
            raise ChoiceError(f"{target} is a folder that is not a data set alone; choose another")


def _move(partial: Path, target: Path) -> None:
    if not target.is_dir():
        partial.replace(target)
        return
    before = partial.with_suffix(".replaced")
    target.rename(before)
    try:
        partial.rename(target)
    except BaseException:
        before.rename(target)
        raise
    _remove(before)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
