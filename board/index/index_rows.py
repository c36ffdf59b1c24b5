"""Reads rows of an index: those of some steps, in their order."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.index import segments
from board.index.duplicates import Duplicates
from board.index.manifest import FileState, Manifest
from board.index.reading.file_steps import IntArray
from board.index.repeat_keys import place_codes
from board.index.row_order import in_order
from board.index.segments import whole_numbers
from board.index.storage import Storage
from board.index.superseded import Superseded
from board.index.table_files import StepRange

ORDER: Final = ("step", "rank", "file", "line", segments.PART)
"""Columns that say in which order rollouts are."""


@dataclass(frozen=True)
class IndexRows:
    """The rows of the files of a run. number_of: the number in the run of each file's id. repeats: by id
    of a file.
    """

    storage: Storage
    manifest: Manifest
    files: Sequence[FileState]
    number_of: Mapping[int, int]
    superseded: Superseded
    repeats: Mapping[int, Duplicates]

    def segments(self, steps: StepRange | None) -> list[str]:
        """Names of the segments that have rows of these steps."""
        return [
            segment.name
            for segment in self.manifest.all_segments
            if (steps is None or (segment.low <= steps[1] and segment.high >= steps[0]))
            and any(number in self.number_of for number in segment.files)
        ]

    def read(self, steps: StepRange | None, names: list[str] | None) -> pa.Table:
        """Rows of these steps and more; names: of stored columns."""
        return segments.joined(
            self.storage.get(name, names, steps) for name in self.segments(steps)
        )

    def visible(
        self, steps: StepRange | None, names: list[str] | None, superseded: bool = False
    ) -> pa.Table:
        """The rows in order, those that are joined to others among them; names: of stored columns.

        Those of ORDER have to be among them.
        """
        table = self.read(steps, names)
        keep = self.kept(table, steps, superseded)
        if not keep.all():
            table = table.filter(pa.array(keep))
        table = in_order(table, self.files, self.number_of)
        # Rows taken from many chunks are copied one chunk after the other.
        return table.combine_chunks()

    def kept(
        self, table: pa.Table, within: StepRange | None, superseded: bool = False
    ) -> npt.NDArray[np.bool_]:
        """[rows] which are shown; superseded: which are not, of the files of the run."""
        steps = table.column("step").to_numpy()
        keep = np.ones(len(steps), bool)
        if within is not None:
            keep &= (steps >= within[0]) & (steps <= within[1])
        if self.shows_all:
            return keep & (not superseded)
        files = table.column("file").to_numpy()
        known = np.zeros(max(int(files.max(initial=0)), *self.number_of, 0) + 1, bool)
        known[list(self.number_of)] = True
        hidden = self._hidden(table, steps, files)
        return keep & known[files] & (hidden if superseded else ~hidden)

    @cached_property
    def shows_all(self) -> bool:
        """Whether every row of the index is one of a file of the run that stands for itself."""
        known = self.number_of.keys() >= {n for s in self.manifest.all_segments for n in s.files}
        return known and not (self.repeats or self.superseded.as_plain)

    def _hidden(self, table: pa.Table, steps: IntArray, files: IntArray) -> npt.NDArray[np.bool_]:
        hidden = self.superseded.rows(table, steps, files)
        if self.repeats:
            codes = place_codes(
                table.column("line").to_numpy(), whole_numbers(table, segments.PART, 0)
            )
            for number, repeats in self.repeats.items():
                own = np.flatnonzero(files == number)
                hidden[own] |= np.isin(codes[own], repeats.codes)
        return hidden
