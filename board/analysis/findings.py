"""Looks a run over: gathers what the rules of core.findings need, and runs them by its thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from board.analysis.token_sample import Budget, Progress, TokenSample
from board.core.arrays import FloatArray, IntArray
from board.core.findings.coverage import Coverage, Recorded, checked_words, coverage
from board.core.findings.digest import Digest
from board.core.findings.facts import Facts, StepRows
from board.core.findings.finding import (
    SEVERITIES,
    Finding,
    Thresholds,
    changed,
    parse,
)
from board.core.findings.rules import TOKEN_RULES, find, in_order
from board.core.findings.series import Changes, changes_of
from board.core.findings.trait_series import changes_of_digests
from board.core.groups.statistics import Groups
from board.core.metrics.definitions import reward_parts
from board.core.metrics.trainer import PREFIX, Agreement
from board.errors import BoardError, ChoiceError, NotFoundError, UnreadableError
from board.formats import reader_named
from board.formats.io.locations import Location
from board.index.discovery.discovered_runs import THRESHOLDS, RunInfo
from board.index.discovery.mappings import content_of
from board.query.advantages import advantage_fit, expected_advantages
from board.query.checks import copied_files, copies, expects_all_ranks, step_checks
from board.query.columns import numbers
from board.query.environments import environment_curves
from board.query.facts.relations import relations_of
from board.query.facts.series import series_of
from board.query.failure_facts import causes_by_step, failed_rows, failures_by, reward_modes
from board.query.groups import GROUP_COLUMNS, groups_of_run, places_of
from board.query.open_run import Run
from board.query.trainer.agreement import agreements, is_what_was_trained_on
from board.query.trainer.changes import trainer_changes, trainer_steps
from board.query.trainer.metrics import read_trainer_metrics

_REFINEMENTS: Final = 24
"""Steps that are read besides, to tell at which one something began."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """findings: the worst first. steps_read: whose tokens were looked at, of `steps`; rollouts_read.
    rules: whether each checked the run.
    """

    findings: tuple[Finding, ...]
    steps_read: int
    steps: int
    rollouts_read: int
    rules: tuple[Coverage, ...] = ()

    @property
    def checked_words(self) -> str:
        """How many rules checked the run, and what the others lack."""
        return checked_words(self.rules)

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each severity, the worst first."""
        severities = [finding.severity for finding in self.findings]
        return {name: severities.count(name) for name in SEVERITIES}

    def document(self, run: Run) -> dict[str, Any]:
        """The diagnosis of a run as one JSON object."""
        return {
            "run": run.info.name,
            "split": run.split,
            "env": [*run.envs],
            "where": run.expression,
            "steps": self.steps,
            "steps_read": self.steps_read,
            "rollouts_read": self.rollouts_read,
            "rules": [asdict(rule) for rule in self.rules],
            **self.counts,
            "rows": [finding.document() for finding in self.findings],
        }


def diagnose(
    run: Run,
    thresholds: Thresholds | None = None,
    *,
    tokens: bool = True,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """What the rules find in a run. tokens: whether to read token arrays, which the rules in
    core.findings.TOKEN_RULES need; without, the index alone is looked at.

    A step at which something of the tokens begins is exact where the step before it was read;
    where steps were passed over, those between are looked at, half by half.
    """
    limits = thresholds or default_thresholds()
    facts = facts_of(run)
    if not tokens or not len(facts.steps):
        rules = coverage(recorded_of(run), limits)
        return Diagnosis(tuple(find(facts, limits)), 0, len(facts.steps), 0, rules)
    sample = TokenSample(run, budget or Budget(), progress)
    digests = dict(sample.digests())
    evenly = [*digests.values()]
    facts = replace(
        facts, token_changes=cache(lambda: changes_of_digests(facts.steps, evenly, run.metrics))
    )
    findings = find(_with(facts, digests), limits)
    for _ in range(_REFINEMENTS):
        between = _between(facts.steps, digests, findings)
        if not between:
            break
        digests |= sample.digests_of(between)
        findings = find(_with(facts, digests), limits)
    read = sum(digest.read for digest in digests.values())
    rules = coverage(replace(recorded_of(run), steps_read=len(digests)), limits)
    return Diagnosis(tuple(findings), len(digests), len(facts.steps), read, rules)


def recorded_of(run: Run) -> Recorded:
    """What a run has for rules, its tokens and the trainer's metrics aside."""
    steps = run.steps
    known = {str(name): int(values.notna().sum()) for name, values in steps.items()}
    return Recorded(run.columns, len(steps), run.rollout_count, known, None)


def with_trainer(
    diagnosis: Diagnosis,
    compared: Sequence[Agreement],
    thresholds: Thresholds | None = None,
    changed_at: tuple[IntArray, Changes] | None = None,
) -> Diagnosis:
    """A diagnosis with what is found where the trainer and the rollouts do not agree, and where the
    trainer's scalars change. changed_at: steps, and changes by their place in these.

    Apart from the others: the trainer's files grow by themselves, and this takes no time.
    """
    limits = thresholds or default_thresholds()
    if changed_at is not None and changed_at[1].hits:
        facts = Facts(changed_at[0], {}, _no_rows, index_changes=lambda: changed_at[1])
        diagnosis = _with_scalars(diagnosis, find(facts, limits, only=("change",)))
    if not compared:
        return diagnosis
    facts = Facts(compared[0].steps, {}, _no_rows, trainer=compared)
    own = find(facts, limits, only=("trainer_differs",))
    steps = max(len(one.steps) for one in compared)
    trainer = {
        rule.rule: rule for rule in coverage(Recorded((PREFIX,), steps, 0, {}, None), limits)
    }
    rules = (trainer[r.rule] if r.rule == "trainer_differs" else r for r in diagnosis.rules)
    findings = tuple(in_order([*diagnosis.findings, *own]))
    return replace(diagnosis, findings=findings, rules=tuple(rules))


def _with_scalars(diagnosis: Diagnosis, scalars: Sequence[Finding]) -> Diagnosis:
    """A diagnosis with changes of the trainer's scalars: those of a step of which there is an event are
    told with it.
    """
    findings = list(diagnosis.findings)
    for one in scalars:
        assert one.step is not None, "a change is of a step"
        near = [i for i, f in enumerate(findings) if _is_event_near(f, one.step)]
        if near:
            event = findings[near[0]]
            findings[near[0]] = replace(event, text=f"{event.text} The trainer: {one.text}")
        else:
            findings.append(one)
    return replace(diagnosis, findings=tuple(in_order(findings)))


def _is_event_near(finding: Finding, step: int) -> bool:
    return finding.rule == "change" and finding.step is not None and abs(finding.step - step) <= 2


def whole_diagnosis(run: Run, *, tokens: bool = True) -> Diagnosis:
    """The findings of all rules by the run's own thresholds, those on the trainer's metrics included.

    tokens: as of diagnose. Raises ChoiceError where thresholds.toml of the run can't be used.
    """
    limits = own_thresholds(run.info)
    if limits.error:
        raise ChoiceError(limits.error)
    diagnosis = diagnose(run, limits.thresholds, tokens=tokens)
    if not is_what_was_trained_on(run):
        return diagnosis
    trainer = read_trainer_metrics(run)
    compared = agreements(run, trainer)
    changed_at = trainer_steps(trainer), trainer_changes(trainer, compared)
    return with_trainer(diagnosis, compared, limits.thresholds, changed_at)


def _no_rows(step: int) -> StepRows:
    raise NotFoundError(f"the rollouts of step {step} are not read for this rule")


def _with(facts: Facts, digests: Mapping[int, Digest]) -> Facts:
    return replace(facts, digests=tuple(digests[step] for step in sorted(digests)))


def _between(
    steps: IntArray, digests: Mapping[int, Digest], findings: Iterable[Finding]
) -> set[int]:
    """Steps in the middle between one where something of the tokens holds and the one read before."""
    read = np.array(sorted(digests))
    middles: set[int] = set()
    for finding in findings:
        for _, first, _ in finding.periods if finding.rule in TOKEN_RULES else ():
            place = int(np.searchsorted(read, first))
            before = int(read[place - 1]) if place else int(steps[0]) - 1
            unread = steps[(steps > before) & (steps < first)]
            if len(unread):
                middles.add(int(unread[len(unread) // 2]))
    return middles


def facts_of(run: Run) -> Facts:
    """What the index says of a run, without a look at its log or at its rollouts."""
    steps = run.steps["step"].to_numpy(np.int64)
    groups = groups_of_run(run)
    env_rewards = environment_curves(run) if "reward" in run.columns else None
    envs = () if env_rewards is None else env_rewards.names
    causes = causes_by_step(run, steps)
    return Facts(
        steps=steps,
        curves={str(name): _numbers(column) for name, column in run.steps.items()},
        rows_of=lru_cache(_CACHED_STEPS)(partial(_step_rows, run, groups, envs)),
        checks=step_checks(run),
        groups=groups,
        fit=advantage_fit(run),
        expected_advantages=partial(expected_advantages, run),
        env_rewards=env_rewards,
        parts=reward_parts(run.columns),
        world_sizes=run.rows.world_sizes() if expects_all_ranks(run) else {},
        growing=frozenset(steps[-1:].tolist()) & frozenset(run.missing_ranks),
        copies=copies(run),
        copied_files=copied_files(run),
        rewritten=_rewritten(run),
        by_restart=run.rows.files.written_again_by == "a restart",
        trained_until=_trained_until(run),
        causes=causes,
        failures_by=failures_by(run, steps, causes),
        failed_of=lru_cache(_CACHED_STEPS)(partial(failed_rows, run)),
        reward_modes=reward_modes(run, steps),
        relations=cache(lambda: relations_of(run, steps)),
        index_changes=cache(lambda: changes_of(series_of(run, steps))),
    )


def _trained_until(run: Run) -> int | None:
    """The newest step of the trainer's log, where it is joined with others."""
    joined = ((reader_named(count.source).join, count.last_step) for count in run.rows.joins.counts)
    steps = [step for join, step in joined if join and join.is_trainer and step is not None]
    return max(steps, default=None)


def _rewritten(run: Run) -> tuple[int, int, int] | None:
    if not run.superseded:
        return None
    steps = run.superseded_rollouts()["step"]
    return int(steps.min()), int(steps.max()), run.superseded


_COLUMNS: Final = (
    *("reward", "advantage", "response_tokens", "is_truncated", "rank", "timestamp"),
    *("k3_mean", "entropy_mean"),
)
_CACHED_STEPS: Final = 16


def _step_rows(run: Run, groups: Groups | None, envs: Sequence[str], step: int) -> StepRows:
    """Numbers are read together; group ids and environments when a rule asks for them."""
    names = [*(name for name in _COLUMNS if name in run.columns), *reward_parts(run.columns)]
    rows = run.frame(names, (step, step))

    def read(*columns: str) -> pd.DataFrame:
        return run.frame(columns, (step, step))

    def read_groups() -> IntArray:
        if groups is None:
            return np.full(len(rows), -1, np.int64)
        return places_of(groups, step, read(*GROUP_COLUMNS))

    return StepRows(
        rows["index"].to_numpy(),
        {name: numbers(rows, name) for name in names},
        cache(read_groups),
        cache(lambda: _places(read("env"), envs, len(rows))),
    )


def _places(rows: pd.DataFrame, envs: Sequence[str], count: int) -> IntArray:
    """[count] the place of each rollout's environment among these, -1 for none."""
    if "env" not in rows:
        return np.full(count, -1, np.int64)
    return np.asarray(rows["env"].cat.set_categories(envs).cat.codes, np.int64)


def _numbers(column: pd.Series[Any]) -> FloatArray:
    return pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)


@cache
def default_thresholds() -> dict[str, dict[str, float]]:
    """Those of the package: core/findings/thresholds.toml."""
    packaged = resources.files("board.core.findings").joinpath("thresholds.toml")
    return parse(packaged.read_text(encoding="utf-8"))


def read_thresholds(path: Location) -> dict[str, dict[str, float]]:
    """The package's thresholds with what a file changes. Raises UnreadableError or ChoiceError."""
    try:
        text = content_of(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path} can't be read: {error}") from error
    try:
        return changed(default_thresholds(), parse(text))
    except ChoiceError as error:
        raise ChoiceError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class OwnThresholds:
    """thresholds: of all rules. path: of the file that changes them, None for the package's own.
    error: why that file was not used; the package's own are, then.
    """

    thresholds: Thresholds = field(default_factory=default_thresholds)
    path: Location | None = None
    error: str = ""


def own_thresholds(info: RunInfo, named: Path | None = None) -> OwnThresholds:
    """Those that `named` changes, else those of thresholds.toml in the run's folder."""
    local = _in_folder(info.path) if isinstance(info.path, Path) else None
    path = named or local or info.thresholds
    if path is None:
        return OwnThresholds()
    try:
        return OwnThresholds(read_thresholds(path), path)
    except BoardError as error:
        return OwnThresholds(path=path, error=str(error))


def _in_folder(folder: Path) -> Path | None:
    """The file, unless it is a link that leads out of the folder."""
    path = folder / THRESHOLDS
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        return path if inside and path.is_file() else None
    except OSError:
        return None
