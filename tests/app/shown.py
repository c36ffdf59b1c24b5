"""What a page shows in AppTest, in the words of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from sent_curves import unpacked
from streamlit.testing.v1 import AppTest

from board.views import _state

PAGES = (
    *("overview", "findings", "spike", "rollouts", "rollout", "health"),
    *("groups", "prompts", "environments", "mismatch", "words", "compare"),
)
OpenApp = Callable[..., AppTest]


def go_to(app: AppTest, page: str) -> AppTest:
    """Another page by the navigation, which empties the URL as in a browser."""
    app.query_params.clear()
    return app.switch_page(f"board/views/{page}.py").run()


def query(app: AppTest) -> dict[str, str]:
    """The URL's parameters, one value each."""
    found: dict[str, str] = {}
    for name, value in app.query_params.items():
        found[name] = value if isinstance(value, str) else value[-1]
    return found


def texts(app: AppTest) -> str:
    """All that stands on the page in words."""
    return "\n".join(
        str(element.value)
        for kind in ("markdown", "caption", "text", "code", "error", "warning", "info", "success")
        for element in app.get(kind)
    )


def notices(app: AppTest) -> list[str]:
    """What is said about wrong choices, without the signs that escape Markdown."""
    told = [w.value for w in app.warning if w.icon == ":material/info:"]
    return [str(text).replace("\\", "") for text in told]


def table(app: AppTest) -> pd.DataFrame:
    """The first table of the page."""
    return app.dataframe[0].value


def choice(app: AppTest, name: str) -> Any:
    """What is chosen."""
    if name in app.session_state:
        return app.session_state[name]
    return _state.CHOICES[name].default


def cards(app: AppTest) -> list[dict[str, Any]]:
    """The charts of curves: key, title, chart, notes."""
    grids = [one.proto.bytes for one in app.get("bidi_component") if one.proto.bytes]
    return [card for grid in grids for card in unpacked(grid)[1]]


def elements(app: AppTest) -> Iterator[Any]:
    """Every element of the page and of the sidebar, blocks included."""
    waiting = list(app._tree.children.values())
    while waiting:
        element = waiting.pop()
        yield element
        children = getattr(element, "children", None)
        waiting += list(children.values()) if children else []


def assert_sound(app: AppTest) -> None:
    """No traceback reached the page."""
    assert [f"{e.message}\n{''.join(e.stack_trace)}" for e in app.exception] == []
