"""How a run is read, and which part of it pages show: settings, keys, tokenizer, split, environments."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from board.analysis.tokenizers import load_vocabulary, named_tokenizer
from board.core.records import ReadOptions
from board.core.texts.conversation import THINK_TAGS
from board.errors import BoardError
from board.index.discovery import mapping_editor
from board.index.discovery.mapping_editor import FIELDS, MappingDraft
from board.query import splits
from board.query.open_run import OpenOptions, Run, reader_titles
from board.views.shared import (
    cache,
    known_findings,
    opened_runs,
    reward_choice,
    run_notes,
    state,
    step_choice,
)
from board.views.shared.choice_texts import LARGEST_COUNT
from board.views.shared.text import counted, distinct_options, one_line, plain, size

SET_RIGHT: Final = "Run settings can set what is right"
_MOST_SPLIT_BUTTONS: Final = 4
_SHOWN_CHARACTERS: Final = 50


def read_options() -> OpenOptions:
    """How logs are read, as chosen in the panel or by a link. Called before the page is drawn."""
    pads = tuple(part.strip() for part in str(state.get("pads")).split(",") if part.strip())
    read = ReadOptions(pads, str(state.get("sysend")))
    cap = max(int(state.get("cap") or 0), 0) or None
    grouping, reward = bool(state.get("grouping")), state.get("reward_sum")
    return OpenOptions(read, cap, grouping, reward, state.get("right_from"))


def settings_panel(run: Run) -> None:
    """A button for the settings of a run; of a home-made log, one for what its keys were read as."""
    look: dict[str, Any] = {"type": "tertiary", "on_change": "rerun"}
    with st.popover("Run settings", icon=":material/tune:", key="run_settings", **look) as panel:
        if run.reward is not None:
            reward_choice.fields(run.info.name, run.reward)
        if panel.open:  # what takes time is drawn only then
            run_notes.field(run.info, "panel")
        _reading_fields()
        if panel.open:
            _facts(run)
    if mapping_editor.is_generic(run.info):
        with st.popover("Keys", icon=":material/key:", key="mapping_panel", **look) as panel:
            if panel.open:
                _keys(run)


def _reading_fields() -> None:
    st.markdown("**Reading the log**")
    st.text_input(
        "Padding tokens",
        **state.bound("pads"),
        help="Tokens, separated by commas, that are removed from both ends of a response together with "
        "their values, so that they add neither length nor KL. Empty: nothing is removed.",
    )
    st.text_input(
        "End of the system prompt",
        **state.bound("sysend"),
        placeholder="the whole prompt is shown",
        help="The prompt is shown from after the first occurrence of this text.",
    )
    st.text_input(
        "Reasoning tags",
        **state.bound("think"),
        placeholder=", ".join(f"<{name}>" for name in THINK_TAGS),
        help="Names of tags, separated by commas: text between such a tag and its end folds in the "
        "reader. Empty: the usual ones.",
    )
    st.number_input(
        "Maximum rollouts per step",
        min_value=0,
        max_value=LARGEST_COUNT,
        **state.bound("cap"),
        help="Tables and curves use only the first rollouts of each step. 0: all.",
    )
    st.toggle(
        "Group equal prompts",
        **state.bound("grouping"),
        help="For logs without group_id: rollouts of a step with the same prompt form a group. Prompts "
        "with images are left out, because equal texts may have different images.",
    )
    st.number_input(
        "Right from a score of",
        **state.bound("right_from"),
        placeholder="found from the rewards",
        help="A rollout with this score or more is right, any other wrong. The score is the part of the "
        "reward that says what is right, else the reward. Empty: 1 of such a part; of rewards the higher "
        "of their two most frequent values is right and the lower wrong.",
    )
    st.number_input(
        "Shift the trainer's steps by",
        min_value=-LARGEST_COUNT,
        max_value=LARGEST_COUNT,
        step=1,
        **state.bound("metric_shift"),
        placeholder="found by a metric that both have",
        help="Added to the steps of the trainer's metrics, where it counts from another step than the "
        "rollouts.",
    )


def _facts(run: Run) -> None:
    st.markdown("**Run**")
    limits = known_findings.limits_of(run)
    facts = {
        "Name": run.info.name,
        "Format": reader_titles(run.info),
        "Size": f"{size(run.info.bytes)} in {counted(len(run.info.files), 'file')}",
        "Thresholds of findings": "built-in" if limits.path is None else str(limits.path),
    }
    st.markdown("  \n".join(f":gray[{name}:] {plain(fact, 300)}" for name, fact in facts.items()))
    st.code(one_line(run.info.path, 1000), language=None, wrap_lines=True)
    st.markdown("**Configuration**")
    if not run.settings:
        words = "Not recorded: they are read from run-*.json or metadata.json beside the log, which the "
        st.caption(f"{words}exporter writes of `run={{...}}`.")
    for name, content in run.settings.items():
        st.caption(plain(name))
        st.json(dict(content), expanded=1)


def _keys(run: Run) -> None:
    """What keys of the log were taken for; changed here, it is a mapping file."""
    is_saved = mapping_editor.is_saved(run.info)
    st.markdown(
        "**Fields from rollout-board.toml**" if is_saved else "**Fields guessed from key names**"
    )
    try:
        draft = mapping_editor.draft_of(run.info)
        changes = _choose_keys(draft)
        if changes:
            draft = mapping_editor.draft_of(run.info, changes)
    except (BoardError, OSError) as error:
        st.warning(plain(error, 300))
        return
    if st.button(
        "Save as mapping file",
        icon=":material/save:",
        disabled=not changes,
        help="Writes rollout-board.toml to the run's folder and reads the log again.",
    ):
        _save_keys(run, draft)
    _show_first_rollouts(draft)


def _choose_keys(known: MappingDraft) -> dict[str, str | None]:
    """The keys that were chosen for fields, where they are others than those it is read by."""
    changes: dict[str, str | None] = {}
    columns = st.columns(2, gap="small")
    for place, field in enumerate(FIELDS):
        now = known.keys.get(field, "")
        options = [*dict.fromkeys(("", *known.paths, now))]
        with columns[place % 2]:
            chosen = st.selectbox(
                field,
                options,
                index=options.index(now),
                format_func=distinct_options(options, lambda path: path or "none", 60),
                key=f"mapping_{field}",
            )
        if chosen != now:
            changes[field] = chosen or None
    others = [f"{field} from {path}" for field, path in known.keys.items() if field not in FIELDS]
    if others:
        st.text(f"Also taken by their names: {one_line(', '.join(others), 400)}")
    return changes


def _show_first_rollouts(draft: MappingDraft) -> None:
    for rollout in draft.preview:
        values = (rollout.get(name) for name in ("step", "reward", "prompt", "response"))
        step, reward, prompt, response = (
            "not recorded" if value is None else one_line(value, _SHOWN_CHARACTERS)
            for value in values
        )
        st.text(f"step {step}, reward {reward}\n{prompt}\n→ {response}")
    for name in ("response", "reward"):
        is_lost = all(rollout.get(name) is None for rollout in draft.preview)
        if is_lost and (name in draft.keys or name == "response"):
            st.warning(f"The first rollouts have no {name} with these keys.")


def _save_keys(run: Run, draft: MappingDraft) -> None:
    try:
        target = mapping_editor.save(run.info, draft.text)
    except BoardError as error:
        st.warning(plain(error, 300))
        return
    opened_runs.discovered.clear()
    st.toast(plain(f"Saved {target.name}. Reading the log again.", 200), icon=":material/save:")
    st.rerun()


def choose_tokenizer(run: Run) -> str:
    """Asks in the sidebar which tokenizer decodes the ids; the name that works, or empty for none. The
    hub is asked only on the button's click.
    """
    named = named_tokenizer(run)
    with st.sidebar:
        st.text_input(
            "Tokenizer",
            **state.bound("tokenizer"),
            placeholder=named or "a folder, or a name in the local cache",
            help="Decodes token ids. Found on this machine only, and no code of its is run.",
        )
        chosen = str(state.get("tokenizer")).strip()
        name = chosen or named or ""
        if not name:
            return ""
        try:
            cache.vocabulary(name)
            return name
        except BoardError as error:
            if chosen:
                st.warning(plain(error, 300))
            else:
                st.caption(plain(f"The run names {named}, which is not on this machine."))
        if st.button("Download it from the hub", icon=":material/download:"):
            try:
                with st.spinner("Downloading the tokenizer …"):
                    load_vocabulary(name, download=True)
                cache.vocabulary.clear()
                return name
            except BoardError as error:
                st.warning(plain(error, 300))
        return ""


def why_ids(run: Run) -> str:
    """Why ids are shown instead of texts, and what to do."""
    if error := run.sidecars.vocabulary_error:
        return f"Tokens are shown as ids: vocab.json {error}. Log health says more."
    return "Tokens are shown as ids: the run has no vocab.json. Name a tokenizer in Run settings."


def choose_split(run: Run) -> None:
    """Which rollouts numbers are of, where the log has those of several splits."""
    counts = cache.split_counts(run)
    names = [*counts]
    if state.get("split") in map(splits.written, names[:1]):
        state.put(split="")
    offered = ["", *map(splits.written, names[1:]), splits.ALL]
    chosen = state.ensure("split", offered, "")
    if len(names) < 2:
        return
    with_buttons = len(names) <= _MOST_SPLIT_BUTTONS

    def name_of(written: str) -> str:
        return (splits.meant(written) if written else names[0]) or "all splits"

    label = distinct_options(offered, name_of, 40)
    widget: Any = st.segmented_control if with_buttons else st.selectbox
    widget(
        "Split",
        offered,
        **state.bound("split"),
        # Buttons render Markdown, menus do not.
        format_func=(lambda written: plain(label(written))) if with_buttons else label,
        help="Curves, tables, groups and findings are of these rollouts alone; those that name no split "
        "are training's. Log health is of the whole log.",
        on_change=step_choice.first_rollout,
        **({"required": True} if with_buttons else {}),
    )
    if chosen == splits.ALL:
        st.caption(f":material/warning: numbers mix {plain(' and '.join(names), 80)} rollouts")
        return
    own = splits.meant(chosen) if chosen else names[0]
    others = {name: count for name, count in counts.items() if name != own}
    words = ", ".join(f"{count:,} {name}" for name, count in others.items())
    noun = "rollout" if sum(others.values()) == 1 else "rollouts"
    st.caption(f":material/visibility_off: not shown: {plain(words, 80)} {noun}; choose them above")


def choose_environments(run: Run) -> None:
    """The environments that means are of; offered where the log names several."""
    names = cache.environments_of(run)
    state.keep("env", names)
    if len(names) > 1:
        st.multiselect(
            "Environments",
            names,
            **state.bound("env"),
            placeholder="all",
            format_func=distinct_options(names),
            help="Curves, tables and tokens use these environments only; Findings, Log health and an "
            "open rollout use all of them.",
        )
