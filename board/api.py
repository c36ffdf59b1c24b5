"""A run for scripts and notebooks: its tables as pandas frames, and one rollout whole.

`board.open_run` and `board.list_runs` are the way in; docs/python.md describes all of it. The names and
signatures of this module are stable. What the log does not hold is NaN or None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from board import given
from board.analysis.findings import whole_diagnosis
from board.analysis.rollout import OpenRollout, open_rollout
from board.core.findings.finding import FINDING_KEYS
from board.errors import ChoiceError, did_you_mean
from board.formats.io.locations import location_of
from board.index.discovery.discovered_runs import discover
from board.index.segments import PART, TEXT_NAMES
from board.query import failures, prompts
from board.query.columns import known_column, known_columns
from board.query.environments import of_known_environments
from board.query.groups import group_table
from board.query.rollouts import Sorting, batches, rollout_table
from board.query.run import Run
from board.query.splits import chosen_split
from board.query.sql.user_sql import DEFAULT_TIMEOUT, asks_for_metrics, select
from board.query.trainer.metrics import read_trainer_metrics

__all__ = ["OpenRun", "Rollout", "runs_frame"]

_BATCH_ROLLOUTS: Final = 2048
_ADDRESS: Final = frozenset(("offset", "size", PART))
_ALWAYS: Final = ("step", "index", "line", "file")
_MOST_SIZES: Final = 4
_FIRST_CHARACTERS: Final = 400
_FAILURES_BY: Final = ("step", "evidence")


def runs_frame(path: str) -> pd.DataFrame:
    """What `board.list_runs` gives."""
    infos = discover(location_of(path)).runs
    columns = {
        "run": [info.name for info in infos],
        "path": [str(info.path / info.only if info.only else info.path) for info in infos],
        "source": [info.source for info in infos],
        "format": [", ".join(info.formats) for info in infos],
        "bytes": pd.array([info.bytes for info in infos], dtype="int64"),
        "changed": pd.to_datetime([info.mtime for info in infos], unit="s", utc=True),
    }
    return pd.DataFrame(columns)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout whole, read again from the log.

    step, index: its place. file, line: where the log has it, file relative to the run. facts: ids and
    scores by name, those that are recorded. texts: prompt, response and others, whole. messages: of the
    chat, as recorded. extras: every other key of its line. remarks: what could not be used, in words.

    tokens: a row for each token of the response, with columns token (its position, from 0), piece (its
    text, or its id in ⟨ ⟩ where no text is known) and one for each token metric, recorded or derived, NaN
    where it has no value. An array of another length has no place there: a remark names it.
    """

    step: int
    index: int
    file: str
    line: int
    facts: Mapping[str, Any]
    texts: Mapping[str, str]
    messages: tuple[Mapping[str, Any], ...]
    tokens: pd.DataFrame
    extras: Mapping[str, Any]
    remarks: tuple[str, ...]

    def __repr__(self) -> str:
        """What it is, in a line."""
        reward = f", reward {self.facts['reward']:g}" if "reward" in self.facts else ""
        sizes = [f"{name} of {len(text):,} characters" for name, text in self.texts.items()]
        texts = "".join(f", {size}" for size in sizes[:_MOST_SIZES])
        tokens = f", {len(self.tokens):,} tokens" if len(self.tokens) else ""
        return f"<Rollout step {self.step}, index {self.index}{reward}{texts}{tokens}>"

    def _repr_html_(self) -> str:
        """The same for a notebook, with the beginnings of its texts."""
        begins = [
            f"<tr><th>{escape(name)}</th><td><pre>{escape(text[:_FIRST_CHARACTERS])}</pre></td></tr>"
            for name, text in [*self.texts.items()][:_MOST_SIZES]
        ]
        return f"<code>{escape(repr(self))}</code><table>{''.join(begins)}</table>"


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run as it was when it was opened, or some of its rollouts.

    As on the command line, `rollouts` and `sql` are of all splits, and everything that counts or averages
    is of training's, unless `where` chose another one. Each method raises UnreadableError where the index
    or the log can't be read any more.

    run: what the board asks its questions of; not part of the stable interface.
    """

    run: Run
    _has_split: bool = False

    def __repr__(self) -> str:
        """What it is, in a line."""
        whole = self.run.whole or self.run
        part = [f"of {self.run.split}"] if self.run.split is not None else []
        part += [f"where {self.run.expression}"] if self.run.expression else []
        counts = self.run.counts
        steps = f"steps {min(counts)} to {max(counts)}" if counts else "no steps"
        rollouts = f"{whole.rollout_count:,} rollouts"
        return f"<OpenRun {self.name!r}: {', '.join([rollouts, steps, *part])}>"

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        return f"<code>{escape(repr(self))}</code>"

    @property
    def _counted(self) -> Run:
        """What is counted and averaged: of training's split, where none was chosen."""
        split = None if self._has_split else chosen_split(self.run.whole or self.run).split
        return self.run.where(split=split)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.run.info.name

    def where(
        self,
        expression: str = "",
        *,
        split: str | None = None,
        envs: Sequence[str] = (),
        steps: tuple[int, int] | None = None,
    ) -> OpenRun:
        """The run with some of its rollouts alone, for everything but `sql`.

        Args:
            expression: a filter, as of `--where` (docs/expressions.md).
            split: the name of one, or "all" for all together; None: as before.
            envs: names of environments; none: as before.
            steps: the first and the last one; None: as before.

        Raises:
            ExpressionError: the expression can't be read.
            ChoiceError: the run has no such split or environment.
        """
        given.text("expression", expression, "'reward > 0.5'")
        envs = given.names("envs", envs)
        steps = None if steps is None else given.step_range("steps", steps)
        if split is not None:
            given.text("split", split, "'eval'")
        run = self.run if split is None else chosen_split(self.run, split)
        chosen = of_known_environments(run, envs).where(expression, steps=steps)
        return OpenRun(chosen, self._has_split or split is not None)

    @property
    def steps(self) -> pd.DataFrame:
        """A row for each step: step, rollouts, and of each metric m its m_mean, m_std, m_n (rollouts that
        have a value), m_se (standard error, clustered by group) and quantiles m_q00 ... m_q100.
        """
        return self._counted.step_table(quantiles=True).to_pandas()

    def rollouts(
        self,
        where: str = "",
        *,
        columns: Sequence[str] | None = None,
        sort: str = "",
        descending: bool = False,
        limit: int | None = None,
        whole_texts: bool = False,
    ) -> pd.DataFrame:
        """A row for each rollout, by step and index unless they are sorted.

        Args:
            where: a filter, as of `--where`.
            columns: these alone, in this order; None: all of the table.
            sort: the column to sort by, missing values last.
            descending: the largest first.
            limit: at most so many.
            whole_texts: prompt, response, ref_response and ground_truth whole, in place of the beginning
                of prompt and response.

        Raises:
            ExpressionError: the filter can't be read.
            ChoiceError: the run has no such column.
        """
        given.text("where", where, "'reward > 0.5'")
        given.text("sort", sort, "'reward'")
        limit = None if limit is None else given.whole_number("limit", limit, least=0)
        columns = None if columns is None else given.names("columns", columns)
        descending = given.flag("descending", descending)
        names = [name for name in (self.run.whole or self.run).columns if name not in _ADDRESS]
        texts = TEXT_NAMES[:-1] if given.flag("whole_texts", whole_texts) else ()
        known = [*dict.fromkeys((*names, *texts))]
        if columns is not None and not columns:
            raise ChoiceError(f"columns={columns!r} names no column; {did_you_mean('', known)}")
        wanted = known if columns is None else known_columns(columns, known)
        sorting = Sorting(known_column(sort, names) if sort else "", descending)
        chosen = self.run.where(where)
        own = [name for name in wanted if name in texts]
        tables = batches(chosen, wanted, own, sorting, limit=limit, size=_BATCH_ROLLOUTS)
        frames = [*map(_frame, tables)]
        if not frames:
            frames = [_frame(rollout_table(chosen, wanted, sorting, limit=0))]
            frames = [frame.astype(dict.fromkeys(own, "str")) for frame in frames]
        table = pd.concat(frames, ignore_index=True)
        if "file" in table:
            paths = [self.run.info.path_of(file) for file in self.run.info.files]
            table["file"] = pd.Series([paths[number] for number in table["file"]], dtype="str")
        return table

    def rollout(self, step: int, index: int) -> Rollout:
        """One rollout by its step and its index within the step, with its tokens and their metrics.

        Raises NotFoundError where there is none, UnreadableError where its line can't be read.
        """
        step, index = given.whole_number("step", step), given.whole_number("index", index)
        row = self.run.row(step, index)
        opened = open_rollout(self.run, step, index)
        record = opened.record
        tokens, remarks = _tokens(opened)
        return Rollout(
            step=step,
            index=index,
            file=self.run.info.path_of(self.run.info.files[int(row["file"])]),
            line=int(row["line"]),
            facts={**record.ids, **record.scores},
            texts=dict(record.texts),
            messages=tuple(record.messages),
            tokens=tokens,
            extras=dict(record.extras),
            remarks=(*(f"{one.reason}; {one.hint}" for one in opened.remarks), *remarks),
        )

    def findings(self, *, tokens: bool = True) -> pd.DataFrame:
        """What looks wrong, the worst first: leads, not verdicts (docs/findings.md).

        Columns: severity, rule, subject, title, text, step (where it is worst), first_step, last_step,
        periods, value, threshold, unit, strength, cause, source, evidence: a list of {step, index, token,
        piece, value}, and target: where to look.

        tokens: whether token arrays are read, of a sample of the rollouts.

        Raises ChoiceError where thresholds.toml of the run can't be used.
        """
        diagnosis = whole_diagnosis(self._counted, tokens=given.flag("tokens", tokens))
        rows = [finding.document() for finding in diagnosis.findings]
        return pd.DataFrame(rows, columns=[*FINDING_KEYS])

    def groups(self, step: int | None = None) -> pd.DataFrame:
        """A row for each group of rollouts, of one step or of all.

        Columns: step, split, group_id, rollouts, scored (those with a reward), reward_mean, reward_std (n
        in the denominator), reward_min, reward_max. Without rows where no group_id is recorded.
        """
        if step is not None:
            step = given.whole_number("step", step)
            self.run.row(step, 0)  # raises, and says which steps there are
        return group_table(self._counted, step)

    def prompts(self) -> pd.DataFrame:
        """A row for each prompt, as they are first logged.

        Columns: prompt_key (of its whole text, as in SQL), prompt (of more than 64 kB the beginning),
        rollouts, steps, graded (steps at which it is known what is right), earlier and later (shares of
        right rollouts in the two halves of these), rate (false discovery rate of their difference),
        never_solved, regressed, newly_solved, volatility. Without rows where prompts or rewards are not
        recorded.
        """
        return prompts.prompts_frame(self._counted)

    def failures(self, by: Literal["step", "evidence"] = "step") -> pd.DataFrame:
        """Failed rollouts by cause (docs/failures.md); without rows where no cause can be told.

        By step: step, cause, rollouts, of (rollouts of the step), share. By evidence, of what is not the
        model's own: cause, evidence (an example), rollouts, prompts, first_step, last_step, and step and
        index of the example.
        """
        if given.text("by", by, "'step'") not in _FAILURES_BY:
            raise ChoiceError(
                f"by={by!r} is not one of those; {did_you_mean(str(by), _FAILURES_BY)}"
            )
        if by == "evidence":
            return failures.clusters(self._counted).table
        counts = failures.cause_counts(self._counted)
        of = counts.groupby("step")["rollouts"].transform("sum")
        table = counts.assign(of=of, share=counts["rollouts"] / of)
        return table.dropna(subset="cause").reset_index(drop=True)

    def metrics(self) -> pd.DataFrame:
        """What the trainer logged, a row for each step: step, and a column for each `trainer/` name."""
        trainer = read_trainer_metrics(self.run)
        return trainer.table([*trainer.curves])[["step", *trainer.curves]]

    def sql(self, statement: str, timeout: float = DEFAULT_TIMEOUT) -> pd.DataFrame:
        """The rows of one SELECT over the whole run, in DuckDB's SQL; its views: docs/sql.md.

        timeout: in seconds. Raises ChoiceError where the statement is not a SELECT, is wrong, reads
        something else, or takes too long.
        """
        given.text("statement", statement, "'select * from steps'")
        timeout = given.seconds("timeout", timeout)
        whole = self.run.whole or self.run
        trainer = read_trainer_metrics(whole) if asks_for_metrics(statement) else None
        return select(whole, statement, timeout, trainer).to_pandas()


def _frame(table: pa.Table) -> pd.DataFrame:
    """Rollouts as a frame whose types do not depend on which rows there are: whole numbers of which some
    may be missing are Int64.
    """
    kinds: dict[pa.DataType, Any] = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    frame = table.to_pandas(types_mapper=kinds.get)
    return frame.astype({name: "int64" for name in _ALWAYS if name in frame})


def _tokens(opened: OpenRollout) -> tuple[pd.DataFrame, list[str]]:
    """The tokens with their metrics, and which metrics have no place beside them."""
    length, texts = opened.token_count, opened.listed_tokens
    columns: dict[str, Any] = {"token": np.arange(length), "piece": texts or [None] * length}
    remarks: list[str] = []
    for name, values in opened.metrics.items():
        if len(values) == length:
            columns[name] = values
        else:
            remarks.append(f"{name} has {len(values)} values for {length} tokens; it is left out")
    return pd.DataFrame(columns), remarks
