"""What the pages cache between reruns; all browser tabs share the results and must not change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from board.analysis import contrasts, mismatch, words
from board.analysis.audit import audit_sample
from board.analysis.findings import Diagnosis, OwnThresholds, diagnose
from board.analysis.rollout import OpenRollout, StepSpans, open_rollout, read_spans
from board.analysis.spike import Spike, spike_of
from board.analysis.token_sample import sampled_digests
from board.analysis.tokenizers import load_vocabulary
from board.analysis.utterances import Hit, compiled, hit_in
from board.charts import curve_charts, group_charts
from board.charts.curve_data import CurveOptions, Series, together, trainer_series
from board.charts.curves import LightCurve, curve, light
from board.charts.profile_chart import profile_chart
from board.core.findings.digest import Digest
from board.core.metrics.definitions import base_name, rollout_metric
from board.core.metrics.divergence import Divergence
from board.core.texts import diff
from board.core.tokens.vocabulary import Vocabulary
from board.errors import BoardError
from board.query import environments, failures, groups, prompts, rollouts, splits, tasks
from board.query.compare import diverged, ends, paired, seeds
from board.query.compare.answer import Answer, answer_of
from board.query.compare.matching import Match
from board.query.open_run import Run
from board.query.steps import OWN, errors_of, own_steps
from board.query.trainer.metrics import TrainerMetrics
from board.views.shared.background import BackgroundTask, Report, coarse_to_fine, collect_by_step

_HIT_CONTEXT_CHARACTERS: Final = 160
_MAX_SHARED_PROMPTS: Final = 2000
_MOST_WITH_ERRORS: Final = 300_000
"""Of more rollouts of a part of a run errors of means are computed where somebody asks for their band."""
Function = TypeVar("Function", bound=Callable[..., Any])


def _cached(
    entries: int, spinner: str = "", *, on_release: Callable[[Any], None] | None = None
) -> Callable[[Function], Function]:
    """Caches a function's results. spinner: words while it works; on_release: gets what is dropped."""
    decorate: Any = st.cache_resource(
        max_entries=entries,
        show_spinner=spinner or False,
        on_release=on_release,
        hash_funcs={  # Streamlit would hash them field by field
            Run: lambda run: repr((run.version, str(run.info.path), run.info.name, run.options)),
            CurveOptions: repr,
            OwnThresholds: repr,
            TrainerMetrics: lambda metrics: metrics.version,
        },
    )
    return decorate


audit_of = _cached(8, "Comparing lines of the log with what is shown …")(audit_sample)
environments_of = _cached(64)(environments.environments_of)
rollout_count = _cached(64, "Filtering the rollouts …")(rollouts.count)
by_environment = _cached(64)(environments.environment_curves)
means_by_environment = _cached(16)(environments.environment_means)
tasks_of = _cached(8)(tasks.tasks_of)
groups_of = _cached(4)(groups.run_groups)
cause_counts = _cached(8)(failures.cause_counts)
failures_by = _cached(16)(failures.counts_by)
failure_clusters = _cached(8)(failures.clusters)
tool_results = _cached(8)(failures.tool_results)
failure_effect = _cached(4, "Computing advantages without failures …")(failures.run_effect)
rollouts_per_prompt = _cached(4)(groups.rollouts_per_prompt)
prompts_of = _cached(4)(prompts.run_prompts)
prompt_table = _cached(16)(prompts.prompt_table)
prompt_rollouts = _cached(16)(prompts.prompt_rollouts)
prompts_with = _cached(16, "Searching the prompts …")(prompts.prompts_with)
text_diff = _cached(8)(diff.text_diff)
within_groups = _cached(16, "Comparing rollouts within their groups …")(contrasts.within_groups)
trending_phrases = _cached(32, "Reading a sample of the rollouts …")(words.trending_phrases)


@_cached(64)
def split_counts(run: Run) -> dict[str, int]:
    """The splits of a run, that of training first, with how many rollouts each has."""
    return {name: sum(counts.values()) for name, counts in splits.splits_of(run).items()}


def of_split(run: Run, written: str) -> Run | None:
    """The run with the rollouts of a split of the URL: "" is training's, "all" all; None: no such one."""
    names = split_counts(run)
    if written == splits.ALL or not names:
        return run
    name = splits.meant(written) if written else next(iter(names))
    if name not in names:
        return None
    return narrowed(run, labels_of(run), split=name) if len(names) > 1 else run


def of_environments(run: Run, envs: tuple[str, ...]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name."""
    return narrowed(run, labels_of(run), envs=envs) if envs else run


def labels_of(run: Run) -> str:
    """Another text whenever the labels of a run are others."""
    return run.labels.version


@_cached(64, "Counting the rollouts chosen …")
def narrowed(run: Run, labels: str, *, envs: tuple[str, ...] = (), split: str | None = None) -> Run:
    """The run with the rollouts of environments or a split alone. labels: as of `labels_of`."""
    chosen = run.where(envs=envs, split=split)
    chosen.counts  # noqa: B018 - computed here, where the spinner is shown
    return chosen


@_cached(32)
def rollout(run: Run, step: int, index: int, tokenizer: str = "") -> OpenRollout:
    """One rollout whole, ids decoded by the tokenizer where the log can't. Raises BoardError."""
    return open_rollout(run, step, index, vocabulary(tokenizer) if tokenizer else None)


@_cached(4096, "Reading lengths …")
def transcript_length(run: Run, step: int, index: int) -> int | None:
    """Characters of a rollout that is recorded as messages; None where it can't be read."""
    try:
        return len(open_rollout(run, step, index, None).transcript)
    except BoardError:
        return None


@st.cache_resource(max_entries=2, show_spinner="Loading the tokenizer …")
def vocabulary(name: str) -> Vocabulary:
    """A tokenizer's pieces, from this machine. Raises BoardError."""
    return load_vocabulary(name)


@_cached(32)
def step_spans(run: Run, step: int) -> BackgroundTask[StepSpans]:
    """The range of each token metric over all rollouts of a step."""
    return BackgroundTask(lambda report: read_spans(run, step, report))


@_cached(256)
def light_curve(
    run: Run,
    columns: tuple[str, ...],
    options: CurveOptions,
    *,
    dark: bool,
    evaluations: tuple[Run, ...] = (),
    among: tuple[str, ...] = (),
) -> LightCurve:
    """These columns over the run's steps, with points of other splits. among: see `together`."""
    others = {one.split or "": one.steps for one in evaluations}
    lines = together(columns, among)
    steps = _steps(run, options, columns[0])
    return light(curve(steps, lines, options, dark=dark, evaluations=others))


def _steps(run: Run, options: CurveOptions, column: str) -> pd.DataFrame:
    """The table of steps with what the band of a column needs."""
    if options.band == "quantiles":
        return run.step_table(quantiles=True).to_pandas()
    is_asked = options.band == "mean" or run.rollout_count <= _MOST_WITH_ERRORS
    if options.band not in ("std", "mean") or f"{base_name(column)}_se" in run.steps:
        return run.steps
    return run.steps.merge(errors_of(run, [column]), "left", "step") if is_asked else run.steps


@_cached(32, "Averaging over the rollouts …")
def own_curve(
    run: Run, text: str, trainer: TrainerMetrics, options: CurveOptions, labels: str, *, dark: bool
) -> LightCurve:
    """The curve of an expression, which may use the trainer's metrics. labels: as of `labels_of`, where
    it may use labels. Raises ExpressionError.
    """
    of_steps = {one.name: (one.steps, one.values) for one in trainer.curves.values()}
    steps = own_steps(run, text, of_steps)
    return light(curve(steps, [Series(OWN, text, "gap")], options, dark=dark))


@_cached(512)
def trainer_curve(
    trainer: TrainerMetrics, names: tuple[str, ...], options: CurveOptions, *, dark: bool
) -> LightCurve:
    """These metrics of the trainer, each over the steps at which it was logged."""
    look = replace(options, band="minmax")
    return light(curve(trainer.table(names), trainer_series(names), look, dark=dark, height=200))


@_cached(64)
def compared_curve(
    runs: tuple[Run, ...],
    names: tuple[str, ...],
    shifts: tuple[int, ...],
    column: str,
    options: CurveOptions,
    trainers: tuple[TrainerMetrics, ...] = (),
    *,
    dark: bool,
) -> LightCurve:
    """One metric of several runs, by what to call them, over their steps. trainers: of each run, where it
    is one of theirs.
    """
    steps = [_steps(run, options, column) for run in runs]
    if trainers:
        steps = [one.table([column] if column in one.curves else []) for one in trainers]
    tables = {
        name: own.assign(step=own["step"] + shift)
        for name, shift, own in zip(names, shifts, steps, strict=True)
    }
    return light(curve_charts.overlaid_runs(tables, column, options, dark=dark))


@_cached(128)
def environment_curve(
    run: Run, column: str, codes: tuple[int, ...], options: CurveOptions, *, alone: bool, dark: bool
) -> LightCurve:
    """Curves of these environments and of all; alone: a small chart of the first one."""
    means, unit = by_environment(run, column), rollout_metric(column).unit
    places = curve_charts.colour_places(by_environment(run, "step"))
    draw = curve_charts.environment_curves
    return light(draw(means, codes, unit, options, dark=dark, places=places, alone=alone))


@_cached(3)
def spike(run: Run, step: int, column: str, tokenizer: str = "") -> BackgroundTask[Spike | None]:
    """What carries a column of tokens at a step; None where the step has no values. Raises BoardError."""
    known = vocabulary(tokenizer) if tokenizer else None

    return BackgroundTask(lambda report: spike_of(run, step, column, known, report))


@_cached(24)
def findings(run: Run, limits: OwnThresholds, *, tokens: bool) -> BackgroundTask[Diagnosis]:
    """The findings of all rules; without tokens of those that need nothing but the index."""
    bounds = limits.thresholds
    return BackgroundTask(lambda report: diagnose(run, bounds, tokens=tokens, progress=report))


@_cached(8)
def token_samples(run: Run, step: int) -> BackgroundTask[tuple[Digest, ...]]:
    """The tokens of a few steps, this one among them, for the checks of the log."""
    return BackgroundTask(lambda report: sampled_digests(run, step, report))


@_cached(64)
def advantage_fit(run: Run, step: int) -> groups.StepFit | None:
    """Advantages of a step, recorded against recomputed; None where none is recorded."""
    run_groups = groups_of(run)
    return None if run_groups is None else run_groups.fit(step)


@_cached(64)
def group_curve(run: Run, chart: str, smoothing: float, *, dark: bool) -> LightCurve:
    """A chart of groups over the steps: "zero", "batch" or "pass"."""
    run_groups = groups_of(run)
    assert run_groups is not None, "the page looks for groups first"
    if chart == "pass":
        return light(group_charts.pass_at(run_groups.groups, dark=dark, smoothing=smoothing))
    draw = group_charts.zero_std_groups if chart == "zero" else group_charts.effective_batch
    return light(draw(run_groups.by_step, dark=dark, smoothing=smoothing))


@_cached(8)
def shared_prompts(left: Run, right: Run) -> pd.DataFrame:
    """The first prompts of `left` that `right` has too, by key."""
    return prompts.shared_prompts(left, right, _MAX_SHARED_PROMPTS)


@_cached(16, "Comparing the prompts …")
def paired_runs(
    first: Run, second: Run, matched: Match, shift: int, among: tuple[Run, ...]
) -> paired.PairedRuns:
    """The differences of two runs, of those `among`, on the prompts that both saw."""
    return paired.paired_runs(first, second, None, matched, shift, among)


@_cached(8, on_release=BackgroundTask.stop)
def answers_against_first(
    runs: tuple[Run, ...], shifts: tuple[int, ...], matched: Match
) -> BackgroundTask[list[Answer]]:
    """How each other run compares with the first."""
    first, *others = runs

    def work(report: Report) -> list[Answer]:
        answers: list[Answer] = []
        for other, shift in zip(others, shifts[1:], strict=True):
            report(len(answers), len(others))
            answers.append(answer_of(first, other, matched, shift - shifts[0], runs))
        return answers

    return BackgroundTask(work, len(others))


@_cached(16, "Comparing the steps …")
def when_diverged(
    first: Run, second: Run, metrics: tuple[str, ...], shift: int
) -> dict[str, Divergence]:
    """When each metric of two runs went beyond chance."""
    return diverged.when_diverged(first, second, metrics, shift)


run_ends = _cached(16, "Averaging the last steps …")(ends.run_ends)
seed_groups = _cached(16, "Grouping runs …")(seeds.seed_groups)


@_cached(64)
def by_environment_paired(
    first: Run, second: Run, matched: Match, shift: int, among: tuple[Run, ...], metric: str
) -> list[paired.EnvDifference]:
    """The paired difference of a metric in each environment."""
    return paired.by_environment(paired_runs(first, second, matched, shift, among), metric)


@_cached(32)
def seed_curve(
    runs: tuple[Run, ...], keys: tuple[str, ...], metric: str, *, dark: bool
) -> LightCurve:
    """A curve for each set of runs with the same values of these settings, with its interval."""
    groups = seed_groups(runs, keys, metric)
    tables = {
        one.name: pd.DataFrame(
            {"step": one.steps, "mean": one.mean, "low": one.low, "high": one.high}
        )
        for one in groups
    }
    return light(curve_charts.over_seeds(tables, metric, dark=dark))


@_cached(32, "Computing performance profiles …")
def seed_profiles(
    runs: tuple[Run, ...], keys: tuple[str, ...], metric: str, label: str, *, dark: bool
) -> go.Figure | None:
    """Performance profiles of these sets of runs; None where they have no prompt in common."""
    scores = {one.name: one.scores for one in seed_groups(runs, keys, metric)}
    return profile_chart(scores, label, dark=dark)


@_cached(16, on_release=BackgroundTask.stop)
def watched(run: Run, text: str, by: str, *, regex: bool) -> BackgroundTask[list[words.Watched]]:
    """The search for a pattern through all steps."""
    steps = [*run.counts]
    pattern = compiled(text, regex=regex)
    return collect_by_step(words.watch(run, pattern, by, coarse_to_fine(steps)), len(steps))


@_cached(64, "Searching the step …")
def watched_step(
    run: Run, texts: tuple[str, ...], by: str, step: int, *, regex: bool
) -> list[list[words.Watched]]:
    """Of each pattern what was said at one step, by environment."""
    return words.watch_step(run, step, [compiled(text, regex=regex) for text in texts], by)


def hit(
    run: Run, text: str, by: str, step: int, index: int, *, regex: bool, tokenizer: str = ""
) -> Hit | None:
    """Where a rollout first says it; None where it does not, or can't be read any more."""
    try:
        opened = rollout(run, step, index, tokenizer)
    except BoardError:
        return None
    return hit_in(run, opened, compiled(text, regex=regex), by, _HIT_CONTEXT_CHARACTERS)


@_cached(24)
def step_mismatch(run: Run, step: int) -> BackgroundTask[mismatch.StepMismatch]:
    """Sampler against trainer at a step, by its tokens."""
    return BackgroundTask(lambda report: mismatch.step_mismatch(run, step, report))


@_cached(4, on_release=BackgroundTask.stop)
def mismatch_scan(run: Run) -> BackgroundTask[list[mismatch.StepMismatch]]:
    """Sampler against trainer at all steps, by their tokens."""
    steps = [*run.counts]
    return collect_by_step(mismatch.mismatch_by_step(run, coarse_to_fine(steps)), len(steps))
