from streamlit.testing.v1 import AppTest


def page(metric: str | None, pinned: int | None) -> None:
    import numpy as np
    import streamlit as st

    from board.components.reader import Chosen, reader
    from board.components.reader.frame import Frame
    from board.components.token_data import TokenContent

    content = TokenContent(
        ["a", "b"], {"k1": np.zeros(2), "new_column": np.ones(2), "values": None}
    )
    wish = Chosen(metric, pinned)
    visible = reader(content, Frame(), key="tokens", signature="a", chosen=wish, step_spans=dict)
    st.text(f"{visible.metric} {visible.pinned}")


def visible(metric: str | None, pinned: int | None) -> str:
    app = AppTest.from_function(page, args=(metric, pinned)).run()
    assert not app.exception
    return app.text[0].value


def test_the_caller_s_metric_and_token_are_shown():
    assert visible("values", 1) == "values 1"


def test_a_metric_or_token_that_does_not_exist_falls_back():
    assert visible("nope", 7) == "k1 None"
    assert visible(None, -1) == "k1 None"
