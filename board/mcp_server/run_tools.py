"""Tools that ask about a run as a whole: its steps, findings, failures, and what its trainer logged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import pandas as pd
from pydantic import Field

from board.analysis.findings import whole_diagnosis
from board.analysis.report_check import ReportCheck
from board.core.arrays import FloatArray
from board.core.citations import citation_text
from board.core.failures.causes import CAUSES
from board.core.findings.finding import Evidence, Finding
from board.core.metrics.definitions import MEAN_COLUMNS, base_name, rollout_metric
from board.core.metrics.step_means import interval_of_step_means
from board.errors import ChoiceError
from board.mcp_server.answers import Answer, cell, cells, page_of, paged, untrusted
from board.mcp_server.links import Links, citation_that_holds, cite, cite_mean, of_part
from board.mcp_server.open_runs import OpenRuns
from board.query.columns import known_column, known_columns, numbers, records_of
from board.query.failures import cause_counts, clusters, has_causes, headline
from board.query.open_run import OpenOptions
from board.query.run import Run
from board.query.sql.limited_sql import Question, ask
from board.query.sql.user_sql import plain_rows

RunName = Annotated[str, Field(description="name of a run, as the tool `runs` lists it")]
Split = Annotated[str, Field(description='a split, "all" for all; default: that of training')]
Envs = Annotated[list[str], Field(description="environments; default: all")]
First = Annotated[int | None, Field(description="first step; default: the newest steps")]
Last = Annotated[int | None, Field(description="last step; default: the newest")]
Where = Annotated[
    str,
    Field(description="filter over columns, such as: reward < 0.5 and response contains 'I think'"),
]
RightFrom = Annotated[
    float | None,
    Field(description="from which score on a rollout is right; default: what the log says"),
]
Offset = Annotated[int, Field(ge=0, description="rows to pass over")]
Limit = Annotated[int, Field(ge=1, le=200, description="rows at most")]

_USUAL: Final = ("reward", "k3", "mismatch_kl", "entropy", "response_tokens", "is_truncated")
_PARTS: Final = ("mean", "n", "se", "low", "high")
_MOST_EVIDENCE: Final = 5
SQL_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class RunTools:
    """Each public method is a tool; its docstring is the tool's description."""

    open_runs: OpenRuns
    links: Links

    def runs(self, offset: Offset = 0, limit: Limit = 100) -> Answer:
        """List the runs that can be asked about, the one that changed last first."""
        infos = self.open_runs.infos()
        rows = [
            {
                "run": cell(info.name),
                "source": info.source,
                "format": ", ".join(info.formats),
                "bytes": info.bytes,
                "changed": f"{datetime.fromtimestamp(info.mtime, UTC):%Y-%m-%dT%H:%M:%SZ}",
            }
            for info in infos
        ]
        return paged({}, rows, offset, limit)

    def steps(
        self,
        run: RunName,
        metrics: Annotated[
            list[str],
            Field(description="metrics, or columns of the table of steps; default: a few"),
        ] = [],
        first: First = None,
        last: Last = None,
        split: Split = "",
        envs: Envs = [],
        where: Where = "",
        offset: Offset = 0,
        limit: Limit = 20,
    ) -> Answer:
        """Means of metrics over the rollouts of each step, with n and standard error.

        M_mean is the mean of metric M, M_n how many rollouts have a value, M_se its standard error,
        clustered by group, M_low and M_high its 95 % interval, the one that the dashboard draws (null
        where it has none: never take 2 M_se for it). Names of all metrics of the run are in `metrics`.
        """
        chosen = self.open_runs.part(run, split, envs, where)
        table = _with_intervals(chosen.step_table(quantiles=True).to_pandas(), metrics)
        names = _step_columns([*map(str, table.columns)], metrics)
        recorded = [name for name in names if name in table]
        rows = [*map(cells, records_of(_of_steps(table[recorded], first, last, limit)))]
        head = {
            "run": run,
            "split": chosen.split,
            "steps": {
                "first": min(chosen.counts, default=None),
                "last": max(chosen.counts, default=None),
                "count": len(chosen.counts),
            },
            "metrics": [*map(cell, chosen.metrics)],
            "not_recorded": [name for name in names if name not in recorded],
            "cite_as": cite_mean(chosen, "COLUMN", "STEP"),
            "link": self.links.page("", chosen),
        }
        return paged(head, rows, offset, limit)

    def metrics(
        self,
        run: RunName,
        names: Annotated[
            list[str], Field(description="trainer/ names; default: lists the names there are")
        ] = [],
        first: First = None,
        last: Last = None,
        offset: Offset = 0,
        limit: Limit = 20,
    ) -> Answer:
        """The trainer's own scalars (loss, learning rate, grad norm, ...), by step.

        Without names: which there are, with how many points and the last value.
        """
        chosen, trainer = self.open_runs.run(run), self.open_runs.trainer(run)
        head: Answer = {
            "run": run,
            "cite_as": citation_text(run, metric="NAME", step="STEP"),
            "not_recorded": [],
            "link": self.links.page("", chosen),
        }
        if not trainer.curves:
            return paged({**head, "not_recorded": ["metrics of the trainer"]}, [], offset, limit)
        if names:
            table = trainer.table(known_columns(names, trainer.curves))
            rows = [*map(cells, records_of(_of_steps(table, first, last, limit)))]
        else:
            rows = [
                {
                    "name": cell(one.name),
                    "file": cell(one.source),
                    "points": one.points,
                    "last": cell(one.last),
                }
                for one in trainer.curves.values()
            ]
        return paged(head, rows, offset, limit)

    def findings(
        self,
        run: RunName,
        split: Split = "",
        envs: Envs = [],
        where: Where = "",
        read_tokens: Annotated[
            bool, Field(description="also the rules that read token arrays, which take longer")
        ] = True,
        offset: Offset = 0,
        limit: Limit = 20,
    ) -> Answer:
        """What looks wrong in a run, the worst first: leads, not verdicts; and what could not be checked.

        Each names its rule, steps, measured value and threshold, evidence (rollouts and tokens), and
        where the tool `spike` shows more, its arguments.
        """
        chosen = self.open_runs.part(run, split, envs, where)
        diagnosis = chosen.remembered(
            f"diagnosis {read_tokens}", lambda: whole_diagnosis(chosen, tokens=read_tokens)
        )
        check = ReportCheck(lambda _: chosen)
        everything = diagnosis.findings
        page = everything[offset : offset + limit]
        rows = (self._finding(chosen, one, check) for one in page)
        head = {
            "run": run,
            "split": chosen.split,
            **diagnosis.counts,
            "steps": diagnosis.steps,
            "steps_whose_tokens_were_read": diagnosis.steps_read,
            "checked": diagnosis.checked_words,
            "rules_that_did_not_check": {
                rule.rule: f"{rule.state}: {rule.missing}" if rule.missing else rule.state
                for rule in diagnosis.rules
                if rule.state != "checked"
            },
            "link": self.links.page("findings", chosen),
        }
        return page_of(head, rows, len(everything), offset)

    def _finding(self, run: Run, finding: Finding, check: ReportCheck) -> Answer:
        target = finding.target
        column = MEAN_COLUMNS.get(target.metric, target.metric)
        spike = None
        if target.step is not None and column in run.metrics:
            spike = {"step": target.step, "metric": column, "only": target.only}
        mean = {"metric": f"{base_name(column)}_mean", "step": finding.step, **of_part(run)}
        return {
            "severity": finding.severity,
            "rule": finding.rule,
            "subject": cell(finding.subject),
            "title": untrusted(finding.title),
            "text": untrusted(finding.text, 1000),
            "step": finding.step,
            "first_step": finding.first_step,
            "last_step": finding.last_step,
            "steps_text": finding.steps_text or None,
            "value": cell(finding.value),
            "threshold": cell(finding.threshold),
            "unit": finding.unit,
            "cite_value_as": citation_that_holds(check, run, finding.value, mean),
            "cause": finding.cause or None,
            "source": finding.source,
            "evidence": [
                self._evidence(run, one, column, check) for one in finding.evidence[:_MOST_EVIDENCE]
            ],
            "evidence_total": len(finding.evidence),
            "spike": spike,
        }

    def _evidence(self, run: Run, one: Evidence, column: str, check: ReportCheck) -> Answer:
        place = {"step": one.step, "rollout": one.index, "token": one.token}
        metric = column if one.token is None else base_name(column)
        value = citation_that_holds(check, run, one.value, {**place, "metric": metric})
        return {
            "step": one.step,
            "index": one.index,
            "token": one.token,
            "piece": untrusted(one.piece) if one.piece else None,
            "value": cell(one.value),
            "cite_value_as": value,
            "cite_as": cite(run, **place),
            "link": self.links.rollout(run, one.step, one.index, one.token),
        }

    def failures(
        self,
        run: RunName,
        split: Split = "",
        envs: Envs = [],
        where: Where = "",
        offset: Offset = 0,
        limit: Limit = 20,
    ) -> Answer:
        """Why rollouts failed: rollouts by cause, and failures with equal evidence.

        tool_error, sandbox, judge and server are failures of infrastructure; unknown, unscored and
        aborted are unclear; policy is the model's own; truncated and timeout are limits. Find the
        rollouts with the tool `rollouts` and where = "cause = 'server'".
        """
        chosen = self.open_runs.part(run, split, envs, where)
        head: Answer = {
            "run": run,
            "split": chosen.split,
            **dict.fromkeys(("rollouts", "says", "equal_failures")),
            **{name: {} for name in ("classes", "causes", "meanings")},
            "not_recorded": [],
            "link": self.links.page("findings", chosen, findings_part="failures"),
        }
        if not has_causes(chosen):
            return paged({**head, "not_recorded": ["causes of failures"]}, [], offset, limit)
        counts, similar = cause_counts(chosen), clusters(chosen)
        totals = counts.dropna().groupby("cause")["rollouts"].sum()
        failed = headline(counts)
        head |= {
            "rollouts": failed.rollouts,
            "says": failed.sentence,
            "classes": dict(failed.by_class),
            "causes": {cause: int(totals[cause]) for cause in CAUSES if cause in totals.index},
            "meanings": {cause: CAUSES[cause] for cause in CAUSES if cause in totals.index},
            "equal_failures": similar.total,
        }
        rows = [
            {
                **cells(row),
                "cite_as": cite(chosen, step=int(row["step"]), rollout=int(row["index"])),
                "link": self.links.rollout(chosen, int(row["step"]), int(row["index"])),
            }
            for row in records_of(similar.table)
        ]
        return paged(head, rows, offset, limit)

    def sql(
        self,
        run: RunName,
        statement: Annotated[str, Field(description="one SELECT in DuckDB's SQL")],
        limit: Annotated[int, Field(ge=1, le=200, description="rows at most")] = 50,
    ) -> Answer:
        """One SELECT over the views rollouts, steps, groups, prompts, problems and metrics of a run.

        rollouts: step, index, group_id, env, split, reward, k3_mean, prompt, response, ... (rows of
        all splits). groups: step, group_id, rollouts, reward_mean, reward_std. prompts: prompt_key,
        rollouts, reward_mean. metrics: step, name, value. `select * from rollouts limit 1` has all
        columns. It reads nothing else, changes nothing, and is stopped after 30 seconds.
        """
        chosen = self.open_runs.run(run)
        options = OpenOptions()
        table = ask(Question(chosen.info, options, statement, SQL_SECONDS, limit=limit + 1))
        rows = [cells(row) for row in plain_rows(table.slice(0, limit))]
        answer = page_of({"run": run, "columns": [*map(cell, table.column_names)]}, rows, len(rows))
        if table.num_rows > limit:
            answer["more"] = f"there are more than {limit} rows; use LIMIT and OFFSET, or aggregate"
        return answer


def _with_intervals(table: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """The table of steps with M_low and M_high of the metrics whose error it has."""
    ends: dict[str, FloatArray] = {}
    for name in wanted or _USUAL:
        stem = base_name(name)
        if f"{stem}_se" in table:
            is_share = rollout_metric(name).unit == "share"
            low, high = interval_of_step_means(
                lambda part, stem=stem: numbers(table, f"{stem}_{part}"), is_share=is_share
            )
            ends |= {f"{stem}_low": low, f"{stem}_high": high}
    return table.assign(**ends)


def _step_columns(columns: list[str], wanted: list[str]) -> list[str]:
    """Columns of the table of steps: those of a metric for its name. Raises ChoiceError."""
    names = ["step", "rollouts"]
    for name in wanted or _USUAL:
        stem = base_name(name)
        if f"{stem}_mean" in columns or not wanted:
            names += [f"{stem}_{part}" for part in _PARTS]
        else:
            names.append(known_column(name, columns))
    return [*dict.fromkeys(names)]


def _of_steps(table: pd.DataFrame, first: int | None, last: int | None, limit: int) -> pd.DataFrame:
    """The rows from the first step to the last one; without a first one the last `limit` of them."""
    if first is not None and last is not None and first > last:
        raise ChoiceError(f"first={first} is after last={last}; give the smaller step as first")
    own = table if last is None else table[table["step"] <= last]
    return own.tail(limit) if first is None else own[own["step"] >= first]
