"""Words: how often a phrase or a pattern is said over training, by whom and where, and what it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np
import streamlit as st

from board.analysis.utterances import SPEAKERS, compiled
from board.analysis.words import Watched, within_groups
from board.charts.curve_charts import ALL, word_shares
from board.charts.curves import light
from board.components.curve_grid import Card
from board.core.expression_tree import text_literal
from board.core.groups.contrasts import LEAST_GROUPS
from board.errors import BoardError
from board.export.file_names import file_of
from board.export.run_pages import PageTable, tables_page
from board.index.segments import ANY_TEXT
from board.index.whole_texts import TEXTS
from board.query.open_run import Run
from board.views.shared import cache, page_export, page_parts, shortcuts, state, tables
from board.views.shared.background import BackgroundTask, scan_buttons, watch_scans
from board.views.shared.tables import PERCENT, Column
from board.views.shared.text import counted, distinct_options, one_line, plain

_MOST_PATTERNS: Final = 6
_EXAMPLES: Final = 6
_MORE_EXAMPLES: Final = 24
_AT_ONCE_BYTES: Final = 64 << 20
_UNSEEN_SECONDS: Final = 0.4
_SUGGESTED: Final = ("wait", "however", "let me check", "I cannot", "```", "Answer:")
_WHOSE: Final = {"response": "response, all of it", "tool": "tool output"}
_SPEAKER_NEEDS: Final = {
    "reasoning": "segments of reasoning or thinking tags",
    "answer": "a response",
}
_PRESETS: Final = {
    "second thoughts": r"\b(?:wait|hmm|hold on|actually|let me (?:re-?)?check)\b",
    "checks itself": r"\b(?:check|verify|double-check)",
    "refuses": r"\bI (?:cannot|can['’]t|won['’]t|am unable)|\bI['’]m (?:sorry|unable)",
    "tool tags": r"</?tool_(?:call|response)s?>|<\|?/?tool|<function",
    "thinking tags": r"</?think(?:ing)?>",
    "names its answer": r"\\boxed\{|\banswer(?: is|:)|####",
    "code": r"```",
}

_SUM_UNITS: Final = (None, None, None, "", "", "share", *[""] * 7)
"""Units of the columns of an exported table: phrase, scope, environment, and the sums."""
_INTERVAL_HELP: Final = (
    "Of the difference, over groups. None where rewards differ in fewer than "
    f"{LEAST_GROUPS} of them, or in all by the same."
)
_SUMS: Final = {
    **dict.fromkeys(("rollouts", "hits", "times"), Column((), "localized")),
    "share": Column((), PERCENT, help="Rollouts with a hit, of these rollouts."),
    **dict.fromkeys(("reward of hits", "reward of misses"), Column((), "%.4g")),
    "difference": Column(
        (),
        "%+.4g",
        "difference within groups",
        help="Mean reward with it minus that without, among rollouts of the same group and step, over "
        "the groups that have both. A group with more of each counts more.",
    ),
    "low": Column((), "%+.4g", "95 %, from", help=_INTERVAL_HELP),
    "high": Column((), "%+.4g", "95 %, to", help=_INTERVAL_HELP),
    "groups": Column(
        (),
        "localized",
        help="Groups with a rollout that contains it and one that does not. Rollouts of a step and "
        "environment whose group is not recorded are one group.",
    ),
}
_QUARTERS: Final = (
    "Share in the {} of two quarters of the sampled steps: those where it is largest and smallest."
)


def _choose_patterns(run: Run) -> list[str]:
    """Fields for what is searched for; the patterns that can be read."""
    chosen, regex = state.get("words_phrases"), state.get("words_regex")
    phrases = cache.trending_phrases(run, state.get("words_speaker")).phrases
    trending = [one.pattern if regex else one.phrase for one in phrases]
    offered = [*dict.fromkeys((*chosen, *trending, *_SUGGESTED))]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.multiselect(
            "Words, phrases or patterns",
            offered,
            **state.bound("words_phrases"),
            accept_new_options=True,
            # Enter takes what was typed, or the suggestion that it begins, and never all matches.
            filter_mode="prefix",
            select_all=False,
            max_selections=_MOST_PATTERNS,
            placeholder="type one and press Enter",
            width=480,
            format_func=distinct_options(offered),
        )
        st.selectbox(
            "Search in",
            SPEAKERS,
            **state.bound("words_speaker"),
            width=190,
            format_func=lambda name: str(_WHOSE.get(name, name)),
            help="Roles come from the recorded segments of tokens, else from the markers of chat "
            "templates, else from messages. Reasoning is what segments or thinking tags enclose, "
            "the answer is the rest of the response.",
        )
        st.toggle(
            "Regular expressions",
            **state.bound("words_regex"),
            help="RE2 syntax: no look-around, no back-references, so that no search can run forever. "
            "Case is ignored either way.",
        )
    sound: list[str] = []
    for text in state.get("words_phrases")[:_MOST_PATTERNS]:
        try:
            compiled(text, regex=state.get("words_regex"))
            sound.append(text)
        except BoardError as error:
            st.error(plain(error, 300), icon=":material/regular_expression:")
    return sound


def _search_run(run: Run, patterns: Sequence[str]) -> None:
    """The search through all steps: the buttons that start and stop it, and what was found so far."""
    speaker, regex = state.get("words_speaker"), state.get("words_regex")
    searches = {text: cache.watched(run, text, speaker, regex=regex) for text in patterns}
    tasks = [*searches.values()]
    if run.info.bytes <= _AT_ONCE_BYTES:
        for task in tasks:
            if not task.done:
                task.start()
        for task in tasks:
            task.wait(_UNSEEN_SECONDS)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        act = scan_buttons(tasks, "Search the whole run", key="words", help="Key: S")
        if act is not None:
            shortcuts.on_key("s", act)
    if any(task.done for task in tasks):
        page_parts.smoothing()
    watch_scans(tasks, lambda: _show_results(run, searches))


def _show_results(run: Run, searches: Mapping[str, BackgroundTask[list[Watched]]]) -> None:
    results = {text: task.partial or [] for text, task in searches.items()}
    for text, task in searches.items():
        if task.error is not None:
            st.error(plain(f"{text}: {task.error}", 300))
    if not any(results.values()):
        return
    cards = [_card("said", "Share of rollouts with a hit", results)]
    if len({one.env for entries in results.values() for one in entries} - {None}) > 1:
        first = next(text for text, entries in results.items() if entries)
        title = f"{one_line(first, 60)}, by environment"
        cards.append(_card("said_by_env", title, _by_env(results[first])))
    if clicked := page_parts.curves(cards, "words"):
        state.go("rollouts", rollouts_view="words", step=clicked.step, index=None, token=None)
    rows: list[dict[str, Any]] = []
    phrase_of = distinct_options(results, limit=60)
    for text, entries in results.items():
        scopes = [("all", "", entries), *(("env", *one) for one in _by_env(entries).items())]
        rows += [
            {"phrase": phrase_of(text), "scope": scope, "env": env, **_sums(own)}
            for scope, env, own in scopes
        ]
    own = PageTable(
        "Over the steps read", [*rows[0]], _SUM_UNITS, [[*row.values()] for row in rows]
    )
    make = partial(tables_page, run, "Words", "Rollouts that say them, and their rewards.", [own])
    page_export.offer(file_of(run, "words"), make)
    _draw_linked(run, results, rows)
    is_scored = any(np.isfinite(row["reward of hits"]) for row in rows)
    unscored = "" if is_scored else " No rollout with a hit is scored."
    few = [str(r["phrase"]) for r in rows if r["scope"] == "all" and r["groups"] < LEAST_GROUPS]
    too_few = f" Too few groups for a difference: {', '.join(few)}." if few and is_scored else ""
    words = f"Over the steps read; the scope “all” is over {ALL}.{unscored}{too_few}"
    st.caption(plain(words, 600))


def _draw_linked(
    run: Run, results: Mapping[str, Sequence[Watched]], rows: Sequence[Mapping[str, Any]]
) -> None:
    """The table; a click on a phrase lists all rollouts with it. Patterns no filter can search for."""
    if state.get("words_regex"):
        tables.draw(_sum_columns(rows), most_pixels=400)
        return
    phrases = [text for text, own in results.items() for _ in range(1 + len(_by_env(own)))]
    filters = [_filter_of(text, str(row["env"])) for text, row in zip(phrases, rows, strict=True)]
    key = f"words_sums_{run.info.name}_{state.get('words_speaker')}"
    where = tables.pick(_sum_columns(rows), filters, key=key, most_pixels=400)
    st.caption("Click a phrase for the list of all rollouts with it.")
    if where is not None:
        page_parts.open_matching(where)


def _filter_of(phrase: str, env: str) -> str:
    """The filter of the rollouts with a phrase; of other speakers than these, whoever says it."""
    speaker = str(state.get("words_speaker"))
    where = f"{speaker if speaker in TEXTS else ANY_TEXT} contains {text_literal(phrase)}"
    return f"{where} and env == {text_literal(env)}" if env else where


def _card(key: str, title: str, results: Mapping[str, Sequence[Watched]]) -> Card:
    smoothing = float(state.get("smooth"))
    drawn = light(word_shares(results, dark=page_parts.dark(), smoothing=smoothing))
    what = "Rollouts of the step that contain it, of those that were read."
    return Card(key, title, drawn, help=[what, "Click a step to read its hits."])


def _by_env(entries: Sequence[Watched]) -> dict[str, list[Watched]]:
    names = sorted({one.env for one in entries if one.env is not None})
    return {name: [one for one in entries if one.env == name] for name in names}


def _sums(entries: Sequence[Watched]) -> dict[str, float]:
    """Counts and rewards over all steps that were read."""
    rollouts, hits = sum(one.rollouts for one in entries), sum(one.hits for one in entries)
    within = within_groups(entries)
    return {
        "rollouts": rollouts,
        "hits": hits,
        "share": hits / rollouts if rollouts else float("nan"),
        "times": sum(one.times for one in entries),
        "reward of hits": _weighted([(one.reward_hits, one.scored_hits) for one in entries]),
        "reward of misses": _weighted([(one.reward_misses, one.scored_misses) for one in entries]),
        "difference": within.difference,
        "low": within.low,
        "high": within.high,
        "groups": within.groups,
    }


def _sum_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    styles = {name: _SUMS.get(name, Column(())) for name in rows[0]}
    return {
        name: replace(style, values=[row[name] for row in rows]) for name, style in styles.items()
    }


def _weighted(means: Sequence[tuple[float, int]]) -> float:
    """Mean of step means by their scored rollouts; NaN where nothing is scored."""
    known = np.array([one for one in means if np.isfinite(one[0]) and one[1]]).reshape(-1, 2)
    return float(np.average(known[:, 0], weights=known[:, 1])) if len(known) else float("nan")


def _show_hits(run: Run, patterns: Sequence[str]) -> None:
    """Hits of the chosen step, each in its place; a click opens the rollout at that token."""
    step, speaker, regex = map(state.get, ("step", "words_speaker", "words_regex"))
    explained = "click one to open it in place; ⟦ marks where it begins"
    st.markdown(f"#### Hits at step {step} :gray[{explained}]")
    watched = cache.watched_step(run, tuple(patterns), speaker, step, regex=regex)
    for number, (text, entries) in enumerate(zip(patterns, watched, strict=True)):
        rollouts, hits = sum(e.rollouts for e in entries), sum(e.hits for e in entries)
        unknown = sum(e.not_recorded for e in entries)
        if not rollouts and unknown:
            st.caption(_needs(speaker))
            return
        st.markdown(f"**{plain(text, 60)}** :gray[in {hits:,} of {rollouts:,} rollouts]")
        if unknown:
            st.caption(f"In {unknown:,} rollouts the speaker is not recorded.")
        indices = sorted(index for entry in entries for index in entry.examples)
        key = f"hits_shown_{run.info.name}_{step}_{speaker}_{text}"
        examples = indices[: st.session_state.get(key, _EXAMPLES)]
        with st.grid(3, gap="small"):
            for index in examples:
                with st.container():
                    is_first = not number and index == examples[0]
                    _show_hit(run, text, index, number, has_key=is_first)
        if others := len(indices) - len(examples):
            words = f"Show {min(_MORE_EXAMPLES, others)} more of {others:,}"
            longer = {key: len(examples) + _MORE_EXAMPLES}
            show_more = {"on_click": st.session_state.update, "kwargs": longer}
            icon = ":material/expand_more:"
            st.button(words, icon=icon, key=f"more_hits_{number}", **show_more)


def _needs(speaker: str) -> str:
    if speaker in ("response", "prompt"):
        return f"Not recorded at this step: {speaker}."
    needs = _SPEAKER_NEEDS.get(speaker, "segments, chat-template markers or messages of this role")
    return f"Not recorded at this step: {needs}, which say who speaks."


def _show_hit(run: Run, text: str, index: int, number: int, *, has_key: bool) -> None:
    step, speaker = state.get("step"), state.get("words_speaker")
    regex, tokenizer = state.get("words_regex"), state.get("tokenizer")
    hit = cache.hit(run, text, speaker, step, index, regex=regex, tokenizer=tokenizer)
    token = None if hit is None else hit.token
    at = "" if token is None else f", token {token}"
    is_clicked = st.button(
        f"rollout {index}{at}",
        key=f"hit_{number}_{index}",
        type="tertiary",
        icon=":material/gradient:",
        help="Opens the rollout there" + " (O)" * has_key,
    )
    if shortcuts.opening(is_clicked) if has_key else is_clicked:
        place = {"step": step, "index": index, "token": token}
        state.go("rollouts", rollouts_view="list", rollouts_scope="step", **place)
    if hit is not None:
        st.code(f"{hit.before}⟦{hit.after}", language=None, wrap_lines=True)
        if hit.unplaced:
            st.caption(plain(hit.unplaced))


def _show_trending(run: Run) -> None:
    """Phrases that rise or fall over training; a click follows one through the run."""
    speaker = state.get("words_speaker")
    trending = cache.trending_phrases(run, speaker)
    phrases = trending.phrases
    if not trending.rollouts:
        return
    steps = counted(len(trending.steps), "step")
    sampled = f"{counted(trending.rollouts, 'rollout')} sampled from {steps}"
    if not phrases:
        st.caption(f"No phrase clearly rises or falls over training, in {sampled}.")
        return
    heads, units = ("phrase", "before", "after", "change"), (None, "share", "share", "share")
    changes = [(one.phrase, one.before, one.after, one.change) for one in phrases]
    own = PageTable(f"Rising and falling phrases in {sampled}", heads, units, changes)
    words = "Shares of the rollouts in the earlier and the later quarter that say them."
    make = partial(tables_page, run, "Words", words, [own])
    page_export.offer(file_of(run, "rising_and_falling_phrases"), make)
    st.markdown(f"#### Rising and falling phrases :gray[in {sampled} · click one to follow it]")
    before, after, change = zip(
        *((p.before, p.after, 100 * p.change) for p in phrases), strict=True
    )
    columns = {
        "phrase": Column([one_line(one.phrase) for one in phrases], width=280),
        "share over training": Column(
            [[share for share in one.shares if share == share] for one in phrases],
            width=260,
            help="Of the rollouts sampled from each step, from 0 to 1.",
            line=(0, 1),
        ),
        "before": Column(before, PERCENT, help=_QUARTERS.format("earlier")),
        "after": Column(after, PERCENT, help=_QUARTERS.format("later")),
        "change": Column(
            change, "%+.1f", "change, points", help="From before to after, in percentage points."
        ),
    }
    said = [one.phrase for one in phrases]
    phrase = tables.pick(columns, said, key=f"said_more_{run.info.name}_{speaker}")
    if phrase is not None:
        _follow(phrase, regex=False)


def _show_presets(run: Run) -> None:
    """Patterns that are often watched, at this step; a click follows one through the run."""
    step, speaker = state.get("step"), state.get("words_speaker")
    watched = cache.watched_step(run, tuple(_PRESETS.values()), speaker, step, regex=True)
    if not any(entry.rollouts for entries in watched for entry in entries):
        st.info(_needs(speaker), icon=":material/speaker_notes_off:")
        return
    explained = f"at step {step} · click one to follow it through the run"
    st.markdown(f"#### Common patterns :gray[{explained}]")
    rows = [
        {"what": name, "pattern": pattern, **_sums(entries)}
        for (name, pattern), entries in zip(_PRESETS.items(), watched, strict=True)
    ]
    patterns = [*_PRESETS.values()]
    pattern = tables.pick(_sum_columns(rows), patterns, key=f"presets_{run.info.name}_{speaker}")
    if pattern is not None:
        _follow(pattern, regex=True)


def _follow(text: str, *, regex: bool) -> NoReturn:
    """Opens the search of the run for one phrase or pattern."""
    state.go("rollouts", rollouts_view="words", words_phrases=[text], words_regex=regex)


def show(run: Run) -> None:
    """The search for words: its fields, then its curves and hits, or suggestions before one is chosen."""
    patterns = _choose_patterns(run)
    if patterns:
        _search_run(run, patterns)
        if page_parts.has_step(run):
            _show_hits(run, patterns)
    else:
        _show_trending(run)
        if page_parts.has_step(run):
            _show_presets(run)
