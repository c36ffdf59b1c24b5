"""The reward of a run whose log has its parts alone: how it was got, and the fields that choose it."""

from __future__ import annotations

import streamlit as st

from board.core.metrics.reward_sum import RewardSum
from board.query.columns import RewardSource
from board.views.shared import state
from board.views.shared.text import plain

_HELP = (
    "The reward is the sum of the parts that have a weight here, each times its weight; an empty field "
    "leaves the part out. A part that is not recorded of a rollout adds nothing."
)


def badge(source: RewardSource) -> None:
    """Beside the run's name: that the reward is a sum, or is to be chosen; on hover how it was got."""
    words = "reward to be chosen" if source.total is None else "reward: a sum of parts"
    color = "orange" if source.total is None else "gray"
    st.badge(words, icon=":material/functions:", color=color, help=plain(source.summary, 600))


def fields(run_name: str, source: RewardSource) -> None:
    """A field for the weight of each part, and what undoes the choice."""
    st.markdown("**Reward**", help=_HELP)
    st.caption(plain(f"{source.summary[:1].upper()}{source.summary[1:]}.", 600))
    weights = {} if source.total is None else dict(source.total.parts)
    # Another run, or a choice that came from elsewhere, has other fields: they begin with its weights.
    keys = {
        part: f"reward_of_{run_name}_{place}_{state.pulls()}"
        for place, part in enumerate(source.parts)
    }

    def choose() -> None:
        chosen = {part: st.session_state.get(key) for part, key in keys.items()}
        parts = tuple((part, float(one)) for part, one in chosen.items() if one is not None)
        state.put(reward_sum=RewardSum(parts) if parts else None)

    columns = st.columns(2, gap="small")
    for place, (part, key) in enumerate(keys.items()):
        columns[place % 2].number_input(
            f"Weight of {plain(part, 60)}",
            value=weights.get(part),
            step=0.1,
            format="%g",
            placeholder="left out",
            key=key,
            on_change=choose,
        )
    with st.container(horizontal=True):
        if source.total is None and len(source.parts) > 1:
            every = RewardSum(tuple((part, 1.0) for part in source.parts))
            st.button("Sum of all parts", icon=":material/functions:", on_click=_put, args=(every,))
        if state.get("reward_sum") is not None:
            st.button("As the log says", icon=":material/undo:", on_click=_put, args=(None,))


def _put(chosen: RewardSum | None) -> None:
    state.forget("reward_sum")  # renews the fields
    state.put(reward_sum=chosen)
