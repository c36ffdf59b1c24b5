"""Words: how often a phrase or a pattern is said over training, by whom and where, and what it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.analysis.patterns import compiled
from board.analysis.utterances import SPEAKERS
from board.analysis.words import Watched, within_steps
from board.charts.env_charts import ALL
from board.charts.light import light
from board.charts.word_charts import shares_said
from board.components.curve_grid import Card, curve_grid
from board.errors import BoardError
from board.query.open_run import Run
from board.views.rollouts import trending_phrases
from board.views.shared import cache, page_parts, state, table_headings
from board.views.shared.background import BackgroundTask
from board.views.shared.text import one_line, plain

_WATCH_SECONDS: Final = 2.0
_MOST_PATTERNS: Final = 6
_EXAMPLES: Final = 6
_MORE_EXAMPLES: Final = 24
_AT_ONCE_BYTES: Final = 64 << 20
_UNSEEN_SECONDS: Final = 0.4
_SUGGESTED: Final = ("wait", "however", "let me check", "I cannot", "```", "Answer:")
_WHOSE: Final = {
    "response": "response, all of it",
    "prompt": "prompt",
    "reasoning": "reasoning",
    "answer": "answer",
    "assistant": "assistant",
    "user": "user",
    "tool": "tool output",
    "system": "system",
}
_NOT_TOLD: Final = {
    "reasoning": "segments of reasoning or thinking tags",
    "answer": "a response",
}
# What is often watched: a word for it, and a pattern.
_PRESETS: Final = {
    "second thoughts": r"\b(?:wait|hmm|hold on|actually|let me (?:re-?)?check)\b",
    "checks itself": r"\b(?:check|verify|double-check)",
    "refuses": r"\bI (?:cannot|can['’]t|won['’]t|am unable)|\bI['’]m (?:sorry|unable)",
    "tool tags": r"</?tool_(?:call|response)s?>|<\|?/?tool|<function",
    "thinking tags": r"</?think(?:ing)?>",
    "names its answer": r"\\boxed\{|\banswer(?: is|:)|####",
    "code": r"```",
}

_SUM_COLUMNS: Final = {
    **{
        name: st.column_config.NumberColumn(name, format="localized")
        for name in ("rollouts", "hits", "times")
    },
    "share": st.column_config.NumberColumn(
        "share", format=table_headings.PERCENT, help="Of these rollouts."
    ),
    **{
        name: st.column_config.NumberColumn(name, format="%.4g")
        for name in ("reward of hits", "reward of misses")
    },
    "difference": st.column_config.NumberColumn(
        "difference within steps",
        format="%+.4g",
        help="Mean reward with it less that without, among rollouts of the same step and environment.",
    ),
}


def _controls(run: Run) -> list[str]:
    """The patterns that can be searched for."""
    chosen, regex = list(state.get("words")), bool(state.get("regex"))
    suggested = trending_phrases.suggested(run, str(state.get("speaker")), regex=regex)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.multiselect(
            "Words, phrases or patterns",
            list(dict.fromkeys((*chosen, *suggested, *_SUGGESTED))),
            key="words",
            accept_new_options=True,
            # Enter takes what was typed, or the suggestion that it begins, and never all matches.
            filter_mode="prefix",
            select_all=False,
            max_selections=_MOST_PATTERNS,
            placeholder="type one and press Enter",
            width=480,
            format_func=one_line,
            persist_state="session",
        )
        st.selectbox(
            "Search in",
            SPEAKERS,
            key="speaker",
            width=190,
            format_func=lambda by: _WHOSE[by],
            help="Roles come from the recorded segments of tokens, else from the markers of chat "
            "templates, else from messages. Reasoning is what segments or thinking tags enclose, "
            "the answer is the rest of the response.",
            persist_state="session",
        )
        st.toggle(
            "Regular expressions",
            key="regex",
            help="RE2 syntax: no look-around, no back-references, so that no search can run forever. "
            "Case is ignored either way.",
            persist_state="session",
        )
    return [text for text in state.get("words")[:_MOST_PATTERNS] if _is_sound(text)]


def _is_sound(text: str) -> bool:
    try:
        compiled(text, regex=bool(state.get("regex")))
    except BoardError as error:
        st.error(plain(error, 300), icon=":material/regular_expression:")
        return False
    return True


def _scans(run: Run, patterns: Sequence[str]) -> dict[str, BackgroundTask[list[Watched]]]:
    by, regex = str(state.get("speaker")), bool(state.get("regex"))
    return {text: cache.watched(run, text, by, regex=regex) for text in patterns}


def _begin_small(run: Run, scans: dict[str, BackgroundTask[list[Watched]]]) -> None:
    """A run that is read within seconds is searched without being asked."""
    if run.info.bytes > _AT_ONCE_BYTES:
        return
    for scan in scans.values():
        if not scan.done:
            scan.start()
    for scan in scans.values():
        scan.wait(_UNSEEN_SECONDS)


def _buttons(scans: dict[str, BackgroundTask[list[Watched]]]) -> None:
    waiting = [scan for scan in scans.values() if not scan.has_ended]

    def start() -> None:
        for scan in waiting:
            scan.start()

    def stop() -> None:
        for scan in waiting:
            scan.stop()

    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if any(scan.is_running for scan in waiting):
            st.button("Stop", icon=":material/stop:", key="words_stop", shortcut="S", on_click=stop)
        elif waiting:
            words = "Go on" if any(scan.done for scan in waiting) else "Search the whole run"
            st.button(
                words,
                icon=":material/play_arrow:",
                key="words_start",
                shortcut="S",
                on_click=start,
            )
        if any(scan.done for scan in scans.values()):
            st.space("stretch")
            page_parts.smoothing()


@st.fragment(run_every=_WATCH_SECONDS)
def _watch(run: Run, patterns: list[str]) -> None:
    scans = _scans(run, patterns)
    if not any(scan.is_running for scan in scans.values()):
        st.rerun()
    done = sum(scan.done for scan in scans.values())
    total = sum(scan.total for scan in scans.values())
    st.progress(min(done / max(total, 1), 1.0), text=f"{done:,} of {total:,} steps")
    _results(scans)


def _results(scans: dict[str, BackgroundTask[list[Watched]]]) -> None:
    found = {text: scan.partial or [] for text, scan in scans.items()}
    for text, scan in scans.items():
        if scan.error is not None:
            st.error(plain(f"{text}: {scan.error}", 300))
    if not any(found.values()):
        return
    smoothing = float(state.get("smooth"))
    cards = [_card("said", "Share of rollouts with a hit", found, smoothing)]
    if _has_envs(found):
        first = next(text for text, entries in found.items() if entries)
        by_env = _by_env(found[first])
        cards.append(
            _card("said_by_env", f"{one_line(first, 60)}, by environment", by_env, smoothing)
        )
    picked = curve_grid(cards, step=state.get("step"), key=page_parts.chart_key("words"))
    if picked:
        state.go("rollouts", view="words", step=picked.step, index=None, token=None)
    _table(found)


def _card(key: str, title: str, found: Mapping[str, Sequence[Watched]], smoothing: float) -> Card:
    drawn = light(shares_said(found, dark=page_parts.dark(), smoothing=smoothing))
    told = [
        "Rollouts of the step that contain it, of those that were read.",
        "Click a step to read its hits.",
    ]
    return Card(key, title, drawn.chart, "", told, drawn.notes)


def _has_envs(found: dict[str, list[Watched]]) -> bool:
    return len({one.env for entries in found.values() for one in entries} - {None}) > 1


def _by_env(entries: Sequence[Watched]) -> dict[str, list[Watched]]:
    names = sorted({one.env for one in entries if one.env is not None})
    return {name: [one for one in entries if one.env == name] for name in names}


def _table(found: dict[str, list[Watched]]) -> None:
    """Over all steps that were read, by pattern and environment."""
    rows: list[dict[str, object]] = []
    for text, entries in found.items():
        rows.append({"phrase": one_line(text, 60), "scope": "all", "env": "", **_sums(entries)})
        for env, own in _by_env(entries).items():
            rows.append({"phrase": one_line(text, 60), "scope": "env", "env": env, **_sums(own)})
    frame = table_headings.written(table_headings.without_empty(pd.DataFrame(rows)), ("share",))
    st.dataframe(
        frame,
        hide_index=True,
        row_height=36,
        height=min(36 * (len(rows) + 1) + 3, 400),
        placeholder="–",
        column_config=_SUM_COLUMNS,
    )
    unscored = "" if "reward of hits" in frame else " No rollout with a hit is scored."
    st.caption(f"Over the steps read; the scope “all” is over {ALL}.{unscored}")


def _sums(entries: Sequence[Watched]) -> dict[str, object]:
    read, hits = sum(one.rollouts for one in entries), sum(one.hits for one in entries)
    with_it = _weighted([(one.reward_hits, one.scored_hits) for one in entries])
    without = _weighted([(one.reward_misses, one.scored_misses) for one in entries])
    return {
        "rollouts": read,
        "hits": hits,
        "share": hits / read if read else float("nan"),
        "times": sum(one.times for one in entries),
        "reward of hits": with_it,
        "reward of misses": without,
        "difference": within_steps(entries),
    }


def _weighted(means: Sequence[tuple[float, int]]) -> float:
    """Mean of step means by their scored rollouts; NaN where nothing is scored."""
    known = [(mean, count) for mean, count in means if np.isfinite(mean) and count]
    total = sum(count for _, count in known)
    return sum(mean * count for mean, count in known) / total if total else float("nan")


def _hits_here(run: Run, patterns: Sequence[str]) -> None:
    """Hits of the chosen step, each in its place; a click opens the rollout at that token."""
    step, by = int(state.get("step")), str(state.get("speaker"))
    st.markdown(
        f"#### Hits at step {step} :gray[click one to open it in place; ⟦ marks where it begins]"
    )
    watched = cache.watched_step(run, tuple(patterns), by, step, regex=bool(state.get("regex")))
    for number, (text, entries) in enumerate(zip(patterns, watched, strict=True)):
        told, hits = sum(e.rollouts for e in entries), sum(e.hits for e in entries)
        untold = sum(e.not_recorded for e in entries)
        if not told and untold:
            st.caption(_needs(by))
            return
        st.markdown(f"**{plain(text, 60)}** :gray[in {hits:,} of {told:,} rollouts]")
        if untold:
            st.caption(f"In {untold:,} rollouts the speaker is not recorded.")
        found = sorted(index for entry in entries for index in entry.examples)
        more = f"hits_shown_{run.info.name}_{step}_{by}_{text}"
        examples = found[: st.session_state.get(more, _EXAMPLES)]
        for left in range(0, len(examples), 3):
            for column, index in zip(
                st.columns(3, gap="small"), examples[left : left + 3], strict=False
            ):
                with column:
                    first = not number and index == examples[0]
                    _hit(run, text, index, number, shortcut="O" if first else None)
        if len(examples) < len(found):
            _offer_more(more, len(examples), len(found), number)


def _offer_more(key: str, shown: int, total: int, number: int) -> None:
    def show_more() -> None:
        st.session_state[key] = shown + _MORE_EXAMPLES

    words = f"Show {min(_MORE_EXAMPLES, total - shown)} more of {total - shown:,}"
    st.button(words, icon=":material/expand_more:", key=f"more_hits_{number}", on_click=show_more)


def _needs(by: str) -> str:
    if by in ("response", "prompt"):
        return f"Not recorded at this step: {by}."
    needs = _NOT_TOLD.get(by, "segments, chat-template markers or messages of this role")
    return f"Not recorded at this step: {needs}, which say who speaks."


def _hit(run: Run, text: str, index: int, number: int, *, shortcut: str | None) -> None:
    step, by = int(state.get("step")), str(state.get("speaker"))
    regex, tokenizer = bool(state.get("regex")), str(state.get("tokenizer"))
    hit = cache.hit(run, text, by, step, index, regex=regex, tokenizer=tokenizer)
    token = None if hit is None else hit.token
    at = "" if token is None else f", token {token}"
    pressed = st.button(
        plain(f"rollout {index}{at}"),
        key=f"hit_{number}_{index}",
        type="tertiary",
        icon=":material/gradient:",
        help="Opens the rollout there",
        shortcut=shortcut,
    )
    if pressed:
        state.go("rollouts", view="list", scope="step", step=step, index=index, token=token)
    if hit is not None:
        st.code(f"{hit.before}⟦{hit.after}", language=None, wrap_lines=True)
        if hit.unplaced:
            st.caption(plain(hit.unplaced))


def _presets(run: Run) -> None:
    """Before anything is chosen: what is often watched, at this step; a click chooses it."""
    step, by = int(state.get("step")), str(state.get("speaker"))
    found = cache.watched_step(run, tuple(_PRESETS.values()), by, step, regex=True)
    if not any(entry.rollouts for entries in found for entry in entries):
        st.info(_needs(by), icon=":material/speaker_notes_off:")
        return
    st.markdown(
        f"#### Common patterns :gray[at step {step} · click one to follow it through the run]"
    )
    rows = [
        {"what": name, "pattern": pattern, **_sums(entries)}
        for (name, pattern), entries in zip(_PRESETS.items(), found, strict=True)
    ]
    key = f"presets_{run.info.name}_{step}_{by}"
    shown = table_headings.written(table_headings.without_empty(pd.DataFrame(rows)), ("share",))
    picked = page_parts.picked_row(shown, _SUM_COLUMNS, key=key)
    if picked is not None:
        state.go("rollouts", view="words", words=[str(rows[picked]["pattern"])], regex=True)


def show(run: Run) -> None:
    """Draws the fields, the curves and the hits of a run's search for words."""
    patterns = _controls(run)
    if not patterns:
        trending_phrases.render(run, str(state.get("speaker")))
        if page_parts.has_step(run):
            _presets(run)
        return
    scans = _scans(run, patterns)
    _begin_small(run, scans)
    _buttons(scans)
    if any(scan.is_running for scan in scans.values()):
        _watch(run, patterns)
    else:
        _results(scans)
    if page_parts.has_step(run):
        _hits_here(run, patterns)
