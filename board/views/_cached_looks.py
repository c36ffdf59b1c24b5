"""What the pages of a diagnosis keep between reruns, with a bound on how much; see `_cached`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from board.analysis.findings import Diagnosis, diagnose
from board.analysis.log_sample import sampled_digests
from board.analysis.own_thresholds import OwnThresholds
from board.analysis.patterns import compiled
from board.analysis.rollout_tokens import ReadTokens
from board.analysis.step_tokens import read_step
from board.analysis.stepwise import Stepwise, coarse_to_fine
from board.analysis.trending_phrases import SaidMore
from board.analysis.trending_phrases import said_more as said_more_of
from board.analysis.word_hits import Hit, hit_in
from board.analysis.words import Watched, watch, watch_step
from board.charts import env_charts, group_charts
from board.charts.curves import CurveOptions, Series, sketch
from board.charts.light import LightCurve, light
from board.charts.run_charts import RunSteps, overlaid_runs
from board.core.findings.digest import Digest
from board.core.groups.environments import EnvCurves
from board.core.metrics.definitions import rollout_metric
from board.core.tokens.contributions import Contributions, RolloutShare, TypeShare
from board.core.tokens.spike import TOKEN_SOURCES, Headline, contributions_to, headline
from board.core.tokens.vocabulary import Vocabulary
from board.errors import BoardError
from board.index.discovery.discovered_runs import Location
from board.query.environments import environment_curves
from board.query.groups import RunGroups, StepFit, run_groups
from board.query.open_run import OpenOptions, Run
from board.query.prompts import PromptRollouts, RunPrompts, run_prompts
from board.query.steps import OWN, own_steps
from board.views import _cached
from board.views._reading import Progress, Reading

_AROUND = 160
"""Characters shown before and after a hit."""


@dataclass(frozen=True, slots=True)
class Spike:
    """Rollouts, tokens and types that contribute to a column's mean at a step, largest first."""

    found: Contributions
    headline: Headline | None
    rollouts: list[RolloutShare]
    kinds: list[TypeShare]


@st.cache_resource(max_entries=3, show_spinner=False, hash_funcs=_cached.KEYS)
def _spike(
    version: str,
    options: OpenOptions,
    step: int,
    column: str,
    tokenizer: str,
    _run: Run,
    _vocabulary: Vocabulary | None,
) -> Reading[Spike | None]:
    def work(progress: Progress) -> Spike | None:
        metric, _ = TOKEN_SOURCES[column]
        tokens = read_step(_run, step, ReadTokens.of_metric(metric), None, _vocabulary, progress)
        if metric not in tokens.metric_names:
            return None
        found = contributions_to(tokens, column)
        return Spike(found, headline(found), found.top_rollouts(), found.by("kind"))

    return Reading(work)


def spike(of: Run, step: int, column: str, tokenizer: str = "") -> Reading[Spike | None]:
    """The reading of what carries a column of tokens at a step; None where the step has no values."""
    known = _cached.vocabulary(tokenizer) if tokenizer else None
    return _spike(of.version, of.options, step, column, tokenizer, of, known)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=_cached.KEYS)
def _index_reading(
    version: str, options: OpenOptions, limits: OwnThresholds, _run: Run
) -> Reading[Diagnosis]:
    return Reading(lambda _: diagnose(_run, limits.thresholds, tokens=False))


def index_reading(of: Run, limits: OwnThresholds) -> Reading[Diagnosis]:
    """The reading of what the rules find that need nothing but the index."""
    return _index_reading(of.version, of.options, limits, of)


def index_findings(of: Run, limits: OwnThresholds) -> Diagnosis:
    """What that reading finds, waited for. Raises BoardError."""
    return index_reading(of, limits).at_once()


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=_cached.KEYS)
def _findings(
    version: str, options: OpenOptions, limits: OwnThresholds, _run: Run
) -> Reading[Diagnosis]:
    return Reading(lambda progress: diagnose(_run, limits.thresholds, progress=progress))


def findings(of: Run, limits: OwnThresholds) -> Reading[Diagnosis]:
    """The reading of what all rules find, those of tokens among them."""
    return _findings(of.version, of.options, limits, of)


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=_cached.KEYS)
def _sampled(
    version: str, options: OpenOptions, step: int, _run: Run
) -> Reading[tuple[Digest, ...]]:
    return Reading(lambda progress: sampled_digests(_run, step, progress))


def sampled(of: Run, step: int) -> Reading[tuple[Digest, ...]]:
    """The reading of a few steps' tokens, this one among them, for the checks of the log."""
    return _sampled(of.version, of.options, step, of)


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=_cached.KEYS)
def _groups(version: str, path: Location, options: OpenOptions, _run: Run) -> RunGroups | None:
    return run_groups(_run)


def groups(of: Run) -> RunGroups | None:
    """The groups of a run; None where it has none."""
    return _groups(of.version, of.info.path, of.options, of)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=_cached.KEYS)
def _advantage_fit(
    version: str, path: Location, options: OpenOptions, step: int, _run: Run
) -> StepFit | None:
    found = groups(_run)
    return None if found is None else found.fit(step)


def advantage_fit(of: Run, step: int) -> StepFit | None:
    """Advantages of a step, recorded against recomputed; None where none is recorded."""
    return _advantage_fit(of.version, of.info.path, of.options, step, of)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=_cached.KEYS)
def _group_curve(
    version: str,
    path: Location,
    options: OpenOptions,
    chart: str,
    smoothing: float,
    dark: bool,
    _run: Run,
) -> LightCurve:
    found = groups(_run)
    assert found is not None, "the page looks for groups first"
    if chart == "pass":
        return light(group_charts.pass_at(found.groups, dark=dark, smoothing=smoothing))
    draw = group_charts.no_gradient if chart == "zero" else group_charts.effective_batch
    return light(draw(found.by_step, dark=dark, smoothing=smoothing))


def group_curve(of: Run, chart: str, smoothing: float, *, dark: bool) -> LightCurve:
    """A chart of groups over the steps: "zero", "batch" or "pass"; the caller must not change it."""
    return _group_curve(of.version, of.info.path, of.options, chart, smoothing, dark, of)


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=_cached.KEYS)
def _prompts(version: str, path: Location, options: OpenOptions, _run: Run) -> RunPrompts | None:
    return run_prompts(_run)


def prompts(of: Run) -> RunPrompts | None:
    """The prompts of a run and how they went; None where it has no prompts or rewards."""
    return _prompts(of.version, of.info.path, of.options, of)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=_cached.KEYS)
def _prompt_table(
    version: str, path: Location, options: OpenOptions, keys: tuple[int, ...], _run: Run
) -> pd.DataFrame:
    found = prompts(_run)
    assert found is not None, "keys are of prompts that there are"
    return found.table(keys)


def prompt_table(of: Run, keys: Sequence[int]) -> pd.DataFrame:
    """As RunPrompts.table; the caller must not change it."""
    return _prompt_table(of.version, of.info.path, of.options, tuple(keys), of)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=_cached.KEYS)
def _prompt_rollouts(
    version: str, path: Location, options: OpenOptions, key: int, _run: Run
) -> PromptRollouts:
    found = prompts(_run)
    assert found is not None, "the key is of a prompt that there is"
    return found.rollouts(key)


def prompt_rollouts(of: Run, key: int) -> PromptRollouts:
    """All rollouts of a prompt."""
    return _prompt_rollouts(of.version, of.info.path, of.options, key, of)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=_cached.KEYS)
def _by_environment(
    version: str, path: Location, options: OpenOptions, column: str, _run: Run
) -> EnvCurves:
    return environment_curves(_run, column)


def by_environment(of: Run, column: str) -> EnvCurves:
    """A metric by environment over the steps."""
    return _by_environment(of.version, of.info.path, of.options, column, of)


@st.cache_resource(max_entries=128, show_spinner=False, hash_funcs=_cached.KEYS)
def _environment_curve(
    version: str,
    path: Location,
    options: OpenOptions,
    column: str,
    shown: tuple[int, ...],
    alone: bool,
    look: CurveOptions,
    dark: bool,
    _run: Run,
) -> LightCurve:
    means = by_environment(_run, column)
    unit = rollout_metric(column).unit
    places = env_charts.colour_places(by_environment(_run, "step"))
    if alone:
        return light(
            env_charts.small_multiple(means, shown[0], unit, look, dark=dark, places=places)
        )
    return light(env_charts.overlaid(means, shown, unit, look, dark=dark, places=places))


def environment_curve(
    of: Run, column: str, shown: tuple[int, ...], look: CurveOptions, *, alone: bool, dark: bool
) -> LightCurve:
    """Curves of these environments and of all; alone: a small chart of the first one.

    The caller must not change it.
    """
    return _environment_curve(
        of.version, of.info.path, of.options, column, shown, alone, look, dark, of
    )


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=_cached.KEYS)
def _compared(
    versions: tuple[str, ...],
    paths: tuple[Location, ...],
    names: tuple[str, ...],
    options: OpenOptions,
    shifts: tuple[int, ...],
    column: str,
    look: CurveOptions,
    dark: bool,
    _runs: tuple[Run, ...],
) -> LightCurve:
    sides = [
        RunSteps(name, run.steps, shift)
        for name, run, shift in zip(names, _runs, shifts, strict=True)
    ]
    return light(overlaid_runs(sides, column, look, dark=dark))


def compared_curve(
    runs: tuple[Run, ...], shifts: tuple[int, ...], column: str, look: CurveOptions, *, dark: bool
) -> LightCurve:
    """One metric of several runs over their steps; the caller must not change it."""
    versions = tuple(run.version for run in runs)
    paths = tuple(run.info.path for run in runs)
    names = tuple(run.info.name for run in runs)
    return _compared(versions, paths, names, runs[0].options, shifts, column, look, dark, runs)


@st.cache_resource(
    max_entries=16, show_spinner=False, on_release=Stepwise.stop, hash_funcs=_cached.KEYS
)
def _watched(
    version: str, path: Location, options: OpenOptions, text: str, by: str, regex: bool, _run: Run
) -> Stepwise[Watched]:
    steps = [int(step) for step in _run.steps["step"]]
    pattern = compiled(text, regex=regex)
    return Stepwise(watch(_run, pattern, by, coarse_to_fine(steps)), len(steps))


def watched(of: Run, text: str, by: str, *, regex: bool) -> Stepwise[Watched]:
    """The search for a pattern through all steps, begun or not; one for all tabs."""
    return _watched(of.version, of.info.path, of.options, text, by, regex, of)


@st.cache_resource(max_entries=64, show_spinner="Searching the step …", hash_funcs=_cached.KEYS)
def _watched_step(
    version: str,
    path: Location,
    options: OpenOptions,
    texts: tuple[str, ...],
    by: str,
    regex: bool,
    step: int,
    _run: Run,
) -> list[list[Watched]]:
    return watch_step(_run, step, [compiled(text, regex=regex) for text in texts], by)


def watched_step(
    of: Run, texts: Sequence[str], by: str, step: int, *, regex: bool
) -> list[list[Watched]]:
    """Of each pattern what was said at one step, by environment."""
    return _watched_step(of.version, of.info.path, of.options, tuple(texts), by, regex, step, of)


@st.cache_resource(
    max_entries=32, show_spinner="Reading a sample of the rollouts …", hash_funcs=_cached.KEYS
)
def _said_more(version: str, path: Location, options: OpenOptions, by: str, _run: Run) -> SaidMore:
    return said_more_of(_run, by)


def said_more(of: Run, by: str) -> SaidMore:
    """The phrases that are said more or less over the run, by a sample of its rollouts."""
    return _said_more(of.version, of.info.path, of.options, by, of)


def hit(
    of: Run, text: str, by: str, step: int, index: int, *, regex: bool, tokenizer: str = ""
) -> Hit | None:
    """Where a rollout first says it; None where it does not, or can't be read any more."""
    try:
        opened = _cached.rollout(of, step, index, tokenizer)
    except BoardError:
        return None
    return hit_in(of, opened, compiled(text, regex=regex), by, _AROUND)


@st.cache_resource(
    max_entries=32, show_spinner="Averaging over the rollouts …", hash_funcs=_cached.KEYS
)
def _own_curve(
    version: str,
    path: Location,
    options: OpenOptions,
    text: str,
    look: CurveOptions,
    dark: bool,
    _run: Run,
) -> LightCurve:
    return light(sketch(own_steps(_run, text), [Series(OWN, text, "gap")], look, dark=dark))


def own_curve(of: Run, text: str, look: CurveOptions, *, dark: bool) -> LightCurve:
    """The curve of an expression; the caller must not change it. Raises ExpressionError."""
    return _own_curve(of.version, of.info.path, of.options, text, look, dark, of)
