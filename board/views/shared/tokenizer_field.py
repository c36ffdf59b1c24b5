"""The sidebar's choice of a tokenizer, for runs whose logs hold ids and no text for them."""

from __future__ import annotations

import streamlit as st

from board.analysis.tokenizers import named_tokenizer
from board.core.tokens.vocabulary import Vocabulary
from board.errors import BoardError
from board.query.open_run import Run
from board.views.shared import cache, state
from board.views.shared.text import plain


def choose(run: Run) -> str:
    """Asks which tokenizer decodes the ids; the name that works, or empty for none.

    Looked for in a local folder and in the local cache. The hub is asked only on the button's click.
    """
    named = named_tokenizer(run)
    with st.sidebar:
        st.text_input(
            "Tokenizer",
            key="tokenizer",
            placeholder=named or "a folder, or a name in the local cache",
            help="Decodes token ids. Found on this machine only, and no code of its is run.",
            persist_state="session",
        )
        name = str(state.get("tokenizer")).strip() or named or ""
        if not name:
            return ""
        try:
            cache.vocabulary(name)
        except BoardError as error:
            if named and not state.get("tokenizer"):
                st.caption(plain(f"The run names {named}, which is not on this machine."))
            else:
                st.warning(plain(error, 300))
            return name if _offer_download(name) else ""
    return name


def _offer_download(name: str) -> bool:
    if not st.button("Download it from the hub", icon=":material/download:"):
        return False
    try:
        with st.spinner("Downloading the tokenizer …"):
            cache.download_vocabulary(name)
    except BoardError as error:
        st.warning(plain(error, 300))
        return False
    return True


def why_ids(run: Run) -> str:
    """Why ids stand in the place of texts, and what to do."""
    if run.vocabulary_error:
        return f"Tokens are shown as ids: vocab.json {run.vocabulary_error}. Log health says more."
    return "Tokens are shown as ids: the run has no vocab.json. Name a tokenizer in the sidebar."


def vocabulary(name: str) -> Vocabulary | None:
    """The vocabulary of the tokenizer that `choose` returned; None for none."""
    return cache.vocabulary(name) if name else None
