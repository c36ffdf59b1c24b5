"""What the pages keep between reruns, each with a bound on its entries: one function per question.

All browser tabs share the results: callers must not change them. A key holds a Run by its version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import streamlit as st

from board.analysis import mismatch
from board.analysis.findings import Diagnosis, diagnose
from board.analysis.own_thresholds import OwnThresholds
from board.analysis.patterns import compiled
from board.analysis.rollout import OpenRollout, open_rollout
from board.analysis.rollout_tokens import ReadTokens
from board.analysis.step_spans import StepSpans, read_spans
from board.analysis.step_tokens import read_step
from board.analysis.token_sample import sampled_digests
from board.analysis.tokenizers import load_vocabulary
from board.analysis.utterances import Hit, hit_in
from board.analysis.words import TrendingPhrases, Watched, trending_phrases, watch, watch_step
from board.charts import env_charts, group_charts
from board.charts.curve_data import together
from board.charts.curves import Beside, CurveOptions, Series, sketch
from board.charts.light import LightCurve, light
from board.charts.run_charts import RunSteps, overlaid_runs
from board.core.findings.digest import Digest
from board.core.groups.environments import EnvCurves
from board.core.metrics.definitions import rollout_metric
from board.core.texts import diff
from board.core.tokens.contributions import Contributions, RolloutShare, TypeShare
from board.core.tokens.spike import TOKEN_SOURCES, Headline, contributions_to, headline
from board.core.tokens.vocabulary import Vocabulary
from board.errors import BoardError
from board.query import environments, groups, narrowing, prompts, rollouts, splits
from board.query.open_run import Run
from board.query.selection import Selection
from board.query.steps import OWN, own_steps
from board.views.shared.background import BackgroundTask, Report, coarse_to_fine, collect_by_step

_HIT_CONTEXT_CHARACTERS: Final = 160


def _run_key(run: Run) -> str:
    return repr((run.version, str(run.info.path), run.info.name, run.options))


def _selection_key(selection: Selection) -> str:
    return selection.version


HASH_FUNCS: Final[dict[str | type, Callable[[Any], Any]]] = {
    Run: _run_key,
    Selection: _selection_key,
    CurveOptions: repr,
    OwnThresholds: repr,
}
"""What represents these in a cache's key: by default Streamlit hashes them field by field."""


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=HASH_FUNCS)
def environments_of(run: Run) -> tuple[str, ...]:
    """The environments that the run names."""
    return narrowing.environments_of(run)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=HASH_FUNCS)
def split_counts(run: Run) -> dict[str, int]:
    """The splits of a run, that of training first, with how many rollouts each has."""
    return {name: sum(counts.values()) for name, counts in narrowing.splits_of(run).items()}


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=HASH_FUNCS)
def _of_split(run: Run, name: str) -> Run:
    return narrowing.of_split(run, name)


def of_split(run: Run, written: str) -> Run | None:
    """The run with the rollouts of a split as the URL has it: "" is training's, "all" all of them; None
    where it has none of that name.
    """
    names = split_counts(run)
    if written == splits.ALL or not names:
        return run
    name = splits.meant(written) if written else next(iter(names))
    if name not in names:
        return None
    return _of_split(run, name) if len(names) > 1 else run


@st.cache_resource(
    max_entries=8, show_spinner="Averaging over the environments chosen …", hash_funcs=HASH_FUNCS
)
def _of_environments(run: Run, envs: tuple[str, ...]) -> Run:
    return narrowing.narrowed(run, envs)


def of_environments(run: Run, envs: tuple[str, ...]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name."""
    return _of_environments(run, envs) if envs else run


@st.cache_resource(max_entries=64, show_spinner="Filtering the rollouts …", hash_funcs=HASH_FUNCS)
def rollout_count(selection: Selection) -> int:
    """How many rollouts a selection has."""
    return rollouts.count(selection)


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=HASH_FUNCS)
def rollout(run: Run, step: int, index: int, tokenizer: str = "") -> OpenRollout:
    """One rollout whole, ids decoded by the tokenizer where the log can't. Raises BoardError."""
    return open_rollout(run, step, index, vocabulary(tokenizer) if tokenizer else None)


@st.cache_resource(max_entries=4096, show_spinner="Reading lengths …", hash_funcs=HASH_FUNCS)
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


def download_vocabulary(name: str) -> None:
    """Fetches a tokenizer from the hub into the local cache. Raises BoardError."""
    load_vocabulary(name, download=True)
    vocabulary.clear()


@st.cache_resource(max_entries=8, show_spinner=False)
def text_diff(left: str, right: str) -> list[diff.Stretch]:
    """The stretches of two texts."""
    return diff.text_diff(left, right)


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=HASH_FUNCS)
def step_spans(run: Run, step: int) -> BackgroundTask[StepSpans]:
    """The range of each token metric over all rollouts of a step."""
    return BackgroundTask(lambda report: read_spans(run, step, report))


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=HASH_FUNCS)
def light_curve(
    run: Run,
    columns: tuple[str, ...],
    look: CurveOptions,
    *,
    dark: bool,
    beside: tuple[Run, ...] = (),
    among: tuple[str, ...] = (),
) -> LightCurve:
    """These columns over the run's steps, with points of other splits. among: see `together`."""
    others = [Beside(one.split or "", one.steps) for one in beside]
    return light(sketch(run.steps, together(columns, among), look, dark=dark, beside=others))


@st.cache_resource(
    max_entries=32, show_spinner="Averaging over the rollouts …", hash_funcs=HASH_FUNCS
)
def own_curve(run: Run, text: str, look: CurveOptions, *, dark: bool) -> LightCurve:
    """The curve of an expression. Raises ExpressionError."""
    return light(sketch(own_steps(run, text), [Series(OWN, text, "gap")], look, dark=dark))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=HASH_FUNCS)
def compared_curve(
    runs: tuple[Run, ...], shifts: tuple[int, ...], column: str, look: CurveOptions, *, dark: bool
) -> LightCurve:
    """One metric of several runs over their steps."""
    sides = [
        RunSteps(run.info.name, run.steps, shift) for run, shift in zip(runs, shifts, strict=True)
    ]
    return light(overlaid_runs(sides, column, look, dark=dark))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=HASH_FUNCS)
def by_environment(run: Run, column: str) -> EnvCurves:
    """A metric by environment over the steps."""
    return environments.environment_curves(run, column)


@st.cache_resource(max_entries=128, show_spinner=False, hash_funcs=HASH_FUNCS)
def environment_curve(
    run: Run, column: str, shown: tuple[int, ...], look: CurveOptions, *, alone: bool, dark: bool
) -> LightCurve:
    """Curves of these environments and of all; alone: a small chart of the first one."""
    means = by_environment(run, column)
    unit = rollout_metric(column).unit
    places = env_charts.colour_places(by_environment(run, "step"))
    if alone:
        drawn = env_charts.small_multiple(means, shown[0], unit, look, dark=dark, places=places)
    else:
        drawn = env_charts.overlaid(means, shown, unit, look, dark=dark, places=places)
    return light(drawn)


@dataclass(frozen=True, slots=True)
class Spike:
    """Rollouts, tokens and types that contribute to a column's mean at a step, largest first."""

    found: Contributions
    headline: Headline | None
    rollouts: list[RolloutShare]
    kinds: list[TypeShare]


@st.cache_resource(max_entries=3, show_spinner=False, hash_funcs=HASH_FUNCS)
def spike(run: Run, step: int, column: str, tokenizer: str = "") -> BackgroundTask[Spike | None]:
    """What carries a column of tokens at a step; None where the step has no values. Raises BoardError."""
    known = vocabulary(tokenizer) if tokenizer else None

    def work(report: Report[Spike | None]) -> Spike | None:
        metric, _ = TOKEN_SOURCES[column]
        tokens = read_step(run, step, ReadTokens.of_metric(metric), None, known, report)
        if metric not in tokens.metric_names:
            return None
        found = contributions_to(tokens, column)
        return Spike(found, headline(found), found.top_rollouts(), found.by("kind"))

    return BackgroundTask(work)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=HASH_FUNCS)
def index_findings(run: Run, limits: OwnThresholds) -> BackgroundTask[Diagnosis]:
    """The findings of the rules that need nothing but the index."""
    return BackgroundTask(lambda _: diagnose(run, limits.thresholds, tokens=False))


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=HASH_FUNCS)
def findings(run: Run, limits: OwnThresholds) -> BackgroundTask[Diagnosis]:
    """The findings of all rules, those of tokens among them."""
    return BackgroundTask(lambda report: diagnose(run, limits.thresholds, progress=report))


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=HASH_FUNCS)
def token_samples(run: Run, step: int) -> BackgroundTask[tuple[Digest, ...]]:
    """The tokens of a few steps, this one among them, for the checks of the log."""
    return BackgroundTask(lambda report: sampled_digests(run, step, report))


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=HASH_FUNCS)
def groups_of(run: Run) -> groups.RunGroups | None:
    """The groups of a run; None where it has none."""
    return groups.run_groups(run)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=HASH_FUNCS)
def advantage_fit(run: Run, step: int) -> groups.StepFit | None:
    """Advantages of a step, recorded against recomputed; None where none is recorded."""
    found = groups_of(run)
    return None if found is None else found.fit(step)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=HASH_FUNCS)
def group_curve(run: Run, chart: str, smoothing: float, *, dark: bool) -> LightCurve:
    """A chart of groups over the steps: "zero", "batch" or "pass"."""
    found = groups_of(run)
    assert found is not None, "the page looks for groups first"
    if chart == "pass":
        return light(group_charts.pass_at(found.groups, dark=dark, smoothing=smoothing))
    draw = group_charts.no_gradient if chart == "zero" else group_charts.effective_batch
    return light(draw(found.by_step, dark=dark, smoothing=smoothing))


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=HASH_FUNCS)
def prompts_of(run: Run) -> prompts.RunPrompts | None:
    """The prompts of a run and how they went; None where it has no prompts or rewards."""
    return prompts.run_prompts(run)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=HASH_FUNCS)
def prompt_table(run: Run, keys: tuple[int, ...]) -> pd.DataFrame:
    """See RunPrompts.table."""
    found = prompts_of(run)
    assert found is not None, "keys are of prompts that there are"
    return found.table(keys)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=HASH_FUNCS)
def prompt_rollouts(run: Run, key: int) -> prompts.PromptRollouts:
    """All rollouts of a prompt."""
    found = prompts_of(run)
    assert found is not None, "the key is of a prompt that there is"
    return found.rollouts(key)


@st.cache_resource(
    max_entries=16, show_spinner=False, on_release=BackgroundTask.stop, hash_funcs=HASH_FUNCS
)
def watched(run: Run, text: str, by: str, *, regex: bool) -> BackgroundTask[list[Watched]]:
    """The search for a pattern through all steps."""
    steps = [int(step) for step in run.steps["step"]]
    pattern = compiled(text, regex=regex)
    return collect_by_step(watch(run, pattern, by, coarse_to_fine(steps)), len(steps))


@st.cache_resource(max_entries=64, show_spinner="Searching the step …", hash_funcs=HASH_FUNCS)
def watched_step(
    run: Run, texts: tuple[str, ...], by: str, step: int, *, regex: bool
) -> list[list[Watched]]:
    """Of each pattern what was said at one step, by environment."""
    return watch_step(run, step, [compiled(text, regex=regex) for text in texts], by)


@st.cache_resource(
    max_entries=32, show_spinner="Reading a sample of the rollouts …", hash_funcs=HASH_FUNCS
)
def said_more(run: Run, by: str) -> TrendingPhrases:
    """The phrases that are said more or less over the run, by a sample of its rollouts."""
    return trending_phrases(run, by)


def hit(
    run: Run, text: str, by: str, step: int, index: int, *, regex: bool, tokenizer: str = ""
) -> Hit | None:
    """Where a rollout first says it; None where it does not, or can't be read any more."""
    try:
        opened = rollout(run, step, index, tokenizer)
    except BoardError:
        return None
    return hit_in(run, opened, compiled(text, regex=regex), by, _HIT_CONTEXT_CHARACTERS)


@st.cache_resource(max_entries=24, show_spinner=False, hash_funcs=HASH_FUNCS)
def step_mismatch(run: Run, step: int) -> BackgroundTask[mismatch.StepMismatch]:
    """Sampler against trainer at a step, by its tokens."""
    return BackgroundTask(lambda report: mismatch.step_mismatch(run, step, report))


@st.cache_resource(
    max_entries=4, show_spinner=False, on_release=BackgroundTask.stop, hash_funcs=HASH_FUNCS
)
def mismatch_scan(run: Run) -> BackgroundTask[list[mismatch.StepMismatch]]:
    """Sampler against trainer at all steps, by their tokens."""
    steps = [int(step) for step in run.steps["step"]]
    return collect_by_step(mismatch.mismatch_by_step(run, coarse_to_fine(steps)), len(steps))
