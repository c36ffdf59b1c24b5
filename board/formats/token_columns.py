"""Many lines at once that hold arrays of numbers, an entry for each token.

As `columns`, for logs with values per token. What such a line costs by itself is mostly the dozens of
small calls for its arrays; here the arrays of many lines are parsed in one. A row in which anything is
unusual (arrays of unequal length, a constant, padding) is left to `Reader.read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import Final, cast

import numpy as np

from board.core.metrics.aggregate import NEEDED
from board.core.records import FloatArray, ReadOptions, Remark
from board.errors import RecordError
from board.formats.columns import ColumnBuilder, Columns, IntArray, Values
from board.formats.fields import is_texts
from board.formats.number_arrays import RawNumbers, lengths_together, values_together

_NAMES: Final = ("loss_mask", *NEEDED)
_NOTHING: Final[FloatArray] = np.empty(0)
_NOT_RECORDED: Final = np.int64(-1)


@dataclass(frozen=True, slots=True)
class TokenColumns:
    """What rows hold beside the columns of texts and numbers. By row, None: not recorded.

    columns: of the same rows. lengths: tokens of the response. token_ids: prompt_ids and response_ids.
    pieces: of the response. arrays: what aggregates are made of; other_arrays: all others, as logged;
    in each row all arrays are of one length.
    """

    columns: Columns
    lengths: Values
    token_ids: Mapping[str, Values]
    pieces: Values
    arrays: Mapping[str, Sequence[FloatArray]]
    other_arrays: Mapping[str, Values]


class TokenColumnBuilder(ColumnBuilder):
    """Builds columns of rows with arrays of numbers. Rows that RecordBuilder would remark on fall back.

    explained: remarks on arrays that are by so many entries longer than the pieces of the response, or
    shorter; any other difference falls back.
    """

    def __init__(
        self, rows: int, options: ReadOptions, explained: Mapping[int, Remark] | None = None
    ) -> None:
        super().__init__(rows, options)
        self._explained = explained or {}
        self._tokens: dict[str, Values] = {}
        self._token_ids: dict[str, Values] = {}
        self._pieces: Values = [None] * rows

    _take_topk = ColumnBuilder.take_extra

    def _take_array(self, key: str, values: Values) -> None:
        self._tokens[key] = self._recorded(values)

    def _take_token_ids(self, key: str, values: Values) -> None:
        self._token_ids[key] = self._recorded(values)

    def _recorded(self, values: Values) -> Values:
        """The arrays, None where there is none; rows that hold anything else are fallback rows."""
        self.use_row_reader(
            [i for i, v in enumerate(values) if not isinstance(v, RawNumbers | None)]
        )
        return [v if isinstance(v, RawNumbers) and not v.only_nulls() else None for v in values]

    def _take_pieces(self, key: str, values: Values) -> None:
        plain = [value is None or self._is_plain(value) for value in values]
        self.use_row_reader([place for place, is_plain in enumerate(plain) if not is_plain])
        self._pieces = values

    def _is_plain(self, pieces: object) -> bool:
        """Whether it is a list of texts without padding at its ends."""
        if not pieces or not is_texts(pieces):
            return False
        markers = self.options.pad_markers
        return pieces[0] not in markers and pieces[-1] not in markers

    def build_tokens(self, steps: Values) -> TokenColumns:
        """What `build` gives, and what there is of each token."""
        rows = self._rows()
        names = self._names(rows[0]) if rows else ()
        arrays = self._values(names)
        lengths = self._lengths(names, arrays)
        columns = self.build(steps)
        used = [row not in columns.fallback_rows for row in range(self.rows)]
        return TokenColumns(
            columns,
            list(compress(lengths, used)),
            {key: list(compress(ids, used)) for key, ids in self._token_ids.items()},
            list(compress(self._pieces, used)),
            {name: list(compress(values, used)) for name, values in arrays.items()},
            {
                name: list(compress(values, used))
                for name, values in self._tokens.items()
                if name not in arrays
            },
        )

    def _rows(self) -> list[int]:
        """Those that are not fallback rows so far."""
        return [row for row in range(self.rows) if row not in self._fallback_rows]

    def _names(self, first: int) -> tuple[str, ...]:
        """The arrays that aggregates need and a row has; rows with others are fallback rows."""
        arrays = {name: self._tokens[name] for name in _NAMES if name in self._tokens}
        names = tuple(name for name, values in arrays.items() if values[first] is not None)
        for name, values in arrays.items():
            has = name in names
            self.use_row_reader(
                [row for row, value in enumerate(values) if (value is not None) != has]
            )
        return () if names == ("loss_mask",) else names

    def _values(self, names: Sequence[str]) -> dict[str, list[FloatArray]]:
        """The arrays of these names by row; rows with anything but numbers are fallback rows."""
        rows = self._rows()
        raw = [cast("RawNumbers", self._tokens[name][row]) for name in names for row in rows]
        together = values_together(raw) if raw else None
        if together is None:
            parsed = self._one_by_one(raw, rows)
        else:
            flat, lengths = together
            ends = list(accumulate(lengths, initial=0))
            parsed = (flat[ends[i] : ends[i + 1]] for i in range(len(lengths)))
        arrays = {name: [_NOTHING] * self.rows for name in names}
        for place, values in enumerate(parsed):
            arrays[names[place // len(rows)]][rows[place % len(rows)]] = values
        return arrays

    def _one_by_one(self, raw: Sequence[RawNumbers], rows: Sequence[int]) -> Iterator[FloatArray]:
        for place, array in enumerate(raw):
            try:
                yield array.values()
            except RecordError:
                self.use_row_reader((rows[place % len(rows)],))
                yield _NOTHING

    def _lengths(self, names: Sequence[str], arrays: Mapping[str, Sequence[FloatArray]]) -> Values:
        """The length of each response; rows with arrays of another length are fallback rows."""
        others = [values for name, values in self._tokens.items() if name not in names]
        counts: list[IntArray] = [
            np.fromiter(map(len, arrays[name]), np.int64, self.rows) for name in names
        ]
        counts += map(_counted, others)
        if not counts:
            counts = [np.full(self.rows, _NOT_RECORDED)]
        longest: IntArray = np.max(np.stack(counts), axis=0)
        shortest: IntArray = np.min(
            np.stack([np.where(one < 0, longest, one) for one in counts]), axis=0
        )
        has_arrays = longest >= 0
        self.use_row_reader(
            np.flatnonzero(has_arrays & ((longest != shortest) | (longest == 0))).tolist()
        )
        are_lists = (isinstance(own, list) for own in self._pieces)
        pieces = [
            len(p) if is_list else _NOT_RECORDED
            for p, is_list in zip(self._pieces, are_lists, strict=True)
        ]
        of_pieces = np.array(pieces, np.int64)
        lengths: IntArray = np.where(of_pieces < 0, longest, of_pieces)
        if "response_ids" in self._token_ids:
            of_ids = _counted(self._token_ids["response_ids"])
            lengths = np.where(of_ids < 0, lengths, of_ids)
        self._explain(
            {row: int(longest[row] - lengths[row]) for row in self._rows() if has_arrays[row]}
        )
        return [None if length < 0 else length for length in lengths.tolist()]

    def _explain(self, differences: Mapping[int, int]) -> None:
        """Says once of all rows by how much their arrays differ from the pieces in length."""
        usual = next(iter(differences.values()), 0)
        usual = usual if usual in self._explained else 0
        self.use_row_reader([row for row, difference in differences.items() if difference != usual])
        if usual:
            self.use_row_reader([row for row in self._rows() if row not in differences])
            self.remarks.append(self._explained[usual])


def _counted(arrays: Values) -> IntArray:
    """[rows] the length of each array, _NOT_RECORDED where there is none."""
    counts = np.full(len(arrays), _NOT_RECORDED)
    places = [row for row, array in enumerate(arrays) if array is not None]
    counts[places] = lengths_together([arrays[row] for row in places])
    return counts
