"""Tables of many columns of numbers of which few rows are asked for at a time: the numbers of a row are
kept beside each other, so that a row costs what its bytes do, and not an access for every column.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

_NUMBERS: Final = "numbers of the row"
"""The column that has them, eight bytes each, little-endian; the schema says which they are."""
_SAYS: Final = b"board.wide_rows"
_WIDE: Final = ("env_steps", "env_checks")
_KINDS: Final = {"int64": "<i8", "double": "<f8"}


def is_wide(kind: str) -> bool:
    """Whether parts of this kind are kept so, the rows of one environment together."""
    return kind.endswith(_WIDE)


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows that stand together. names: what those of each run have in common; ends: the place after the
    last row of each.
    """

    names: list[str]
    ends: list[int]

    @classmethod
    def of(cls, texts: pa.ChunkedArray) -> Self | None:
        """None where a row has none."""
        if texts.null_count:
            return None
        runs = pc.run_end_encode(texts.combine_chunks())
        return cls(runs.values.to_pylist(), runs.run_ends.to_pylist())

    def places(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """[n] those of the rows that have one of the names, ascending."""
        wanted, starts = {*names}, [0, *self.ends[:-1]]
        held = zip(self.names, starts, self.ends, strict=True)
        found = [np.arange(start, end) for name, start, end in held if name in wanted]
        return np.concatenate([*found, np.zeros(0, np.int64)])


@dataclass(frozen=True, slots=True)
class WideRows:
    """names: of all columns of a table, in their order. kinds: by name how those are kept that are kept
    by row; none: the table is as any other. envs: of its rows, where it tells.
    """

    names: list[str]
    kinds: dict[str, str]
    envs: Runs | None = None

    @classmethod
    def of(cls, schema: pa.Schema) -> Self:
        """What a file says of its table. Raises ValueError and KeyError."""
        said = (schema.metadata or {}).get(_SAYS)
        if said is None:
            return cls(schema.names, {})
        content = orjson.loads(said)
        kinds = dict(zip(content["kept"], content["kinds"], strict=True))
        if schema.field(_NUMBERS).type.byte_width != 8 * len(kinds) or {*kinds.values()} - {
            *_KINDS.values()
        }:
            raise ValueError(f"its rows are not of {len(kinds)} numbers")
        envs = content["envs"]
        return cls(content["names"], kinds, None if envs is None else Runs(**envs))

    def stored(self, names: Sequence[str]) -> list[str]:
        """The columns of the file that these are made of."""
        alone = [name for name in names if name not in self.kinds]
        return alone if len(alone) == len(names) else [*alone, _NUMBERS]

    def unpacked(self, table: pa.Table, names: Sequence[str]) -> pa.Table:
        """These columns; table: those of `stored`."""
        wanted = [name for name in names if name in self.kinds]
        found = {name: table.column(name) for name in names if name not in self.kinds}
        if wanted:
            places = {name: place for place, name in enumerate(self.kinds)}
            columns = np.empty((len(wanted), table.num_rows), "<i8")
            end = 0
            for chunk in table.column(_NUMBERS).chunks:
                rows = _matrix(chunk, len(self.kinds))
                columns[:, end : end + len(rows)] = rows[:, [places[name] for name in wanted]].T
                end += len(rows)
            found |= {
                name: pa.array(values.view(self.kinds[name]))
                for name, values in zip(wanted, columns, strict=True)
            }
        return pa.table({name: found[name] for name in names})


def _matrix(numbers: pa.Array, width: int) -> npt.NDArray[np.int64]:
    """[rows, width] the numbers as they are stored."""
    first = 8 * width * numbers.offset
    content = np.frombuffer(numbers.buffers()[1] or b"", "<i8", len(numbers) * width, first)
    return content.reshape(-1, width)


def packed(table: pa.Table, apart: Sequence[str]) -> pa.Table:
    """The table as it is kept. apart: columns that stay as they are, as those do that lack a number in
    some row and those that hold something else.
    """
    kinds = {
        field.name: _KINDS[str(field.type)]
        for field in table.schema
        if str(field.type) in _KINDS
        and field.name not in apart
        and not table.column(field.name).null_count
    }
    if not kinds:
        return table
    rows = np.empty((table.num_rows, len(kinds)), "<i8")
    for place, (name, kind) in enumerate(kinds.items()):
        rows[:, place] = table.column(name).to_numpy().astype(kind, copy=False).view("<i8")
    of_row = pa.binary(8 * len(kinds))
    numbers = pa.Array.from_buffers(of_row, table.num_rows, [None, pa.py_buffer(rows)])
    envs = Runs.of(table.column("env")) if "env" in table.column_names else None
    said = {
        "names": table.column_names,
        "kept": [*kinds],
        "kinds": [*kinds.values()],
        "envs": None if envs is None else {"names": envs.names, "ends": envs.ends},
    }
    rest = table.select([name for name in table.column_names if name not in kinds])
    return rest.append_column(_NUMBERS, numbers).replace_schema_metadata(
        {_SAYS: orjson.dumps(said)}
    )
