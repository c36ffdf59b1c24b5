"""What a page shows in AppTest, in the words of the tests."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd
from sent_curves import unpacked
from streamlit.testing.v1 import AppTest

from board.views.shared import pages, state

ADDRESSES = {name: (page.name, query) for name, page, query in pages.addresses() if name != "runs"}
"""Every page and part that is of a run: its name -> the page, and the choice that opens it there."""
PART_CHOICES = [page.choice for page in pages.PAGES if page.parts]
PAGES = (*ADDRESSES, "rollout")
"""And a page with a rollout open."""
OpenApp = Callable[..., AppTest]


def go_to(app: AppTest, page: str) -> AppTest:
    """Another page or part by the navigation, which empties the URL as in a browser; every other page at
    its first part. "rollout" is Rollouts with the first rollout open, where none is.
    """
    app.query_params.clear()
    if page == "rollout":
        page = "rollouts"
        if choice(app, "index") is None:
            app.session_state["index"] = 0
    page, opened = with_part(page, {})
    for name in PART_CHOICES:
        app.session_state[name] = opened.get(name, state.CHOICES[name].default)
    return app.switch_page(f"{page}/{page}.py").run()


def with_part(name: str, query: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The page of a part, and its query with the choice that opens it; of a page its own name."""
    page, opens = ADDRESSES.get(name, (name, {}))
    return page, {**opens, **query}


def query(app: AppTest) -> dict[str, str]:
    """The URL's parameters, one value each."""
    result: dict[str, str] = {}
    for name, value in app.query_params.items():
        result[name] = value if isinstance(value, str) else value[-1]
    return result


def texts(app: AppTest) -> str:
    """All that stands on the page in words, the reader's title, facts and notes included."""
    own = [
        str(element.value)
        for kind in ("markdown", "caption", "text", "code", "error", "warning", "info", "success")
        for element in app.get(kind)
    ]
    for view in readers(app):
        facts = [f"{fact['label']} {fact['value']} {fact['after']}" for fact in view["facts"]]
        own += [view["title"], *facts, *view["notes"]]
    return "\n".join(own)


def components(app: AppTest, name: str = "") -> list[Any]:
    """What was sent to the page's components whose name ends so."""
    own = [one.proto for one in app.get("bidi_component")]
    return [one for one in own if one.component_name.endswith(name)]


def readers(app: AppTest) -> list[dict[str, Any]]:
    """What each reader of the page was sent beside its tables of tokens."""
    return [json.loads(one.mixed.json)["view"] for one in components(app, "_reader")]


def read_texts(app: AppTest) -> list[str]:
    """What the open rollout says, turn by turn: each block of text, in reading order."""
    return [
        block["text"]
        for view in readers(app)
        for turn in view["turns"] or ()
        for block in turn["blocks"]
    ]


def notices(app: AppTest) -> list[str]:
    """What is said about wrong choices, without the signs that escape Markdown."""
    return [str(toast.value).replace("\\", "") for toast in app.toast]


def table(app: AppTest) -> pd.DataFrame:
    """The list of rollouts, else the first table of the page."""
    sent = rollout_list(app)
    if sent is None:
        return app.dataframe[0].value
    names = [column["name"] for column in sent["page"]["columns"]]
    frame = pd.DataFrame(sent["page"]["values"], columns=names)
    places = pd.DataFrame(sent["page"]["addresses"], columns=["step", "index"])
    return frame.assign(index=places["index"])


def buttons(app: AppTest, label: str) -> Any:
    """The options side by side under a label."""
    (group,) = [group for group in app.button_group if group.label == label]
    return group


def rollout_list(app: AppTest) -> dict[str, Any] | None:
    """What the list of rollouts was sent; None on a page without one."""
    named = components(app, "rollout_list")
    return json.loads(named[0].json) if named else None


def filter_field(app: AppTest) -> dict[str, Any]:
    """What the filter field was sent."""
    (named,) = components(app, "filter_field")
    return json.loads(named.json)


def count(app: AppTest) -> str:
    """How many rollouts the list says it holds."""
    return filter_field(app)["count"]


def choice(app: AppTest, name: str) -> Any:
    """What is chosen."""
    if name in app.session_state:
        return app.session_state[name]
    return state.CHOICES[name].default


def cards(app: AppTest) -> list[dict[str, Any]]:
    """The charts of curves: key, title, chart, notes."""
    return [card for one in components(app, "curve_grid") for card in unpacked(one.bytes)[1]]


def grids(app: AppTest) -> list[dict[str, Any]]:
    """What the charts of each grid of curves have in common: the step, marks, whether one legend."""
    return [unpacked(one.bytes)[0] for one in components(app, "curve_grid")]


def tiles(app: AppTest) -> dict[str, dict[str, Any]]:
    """The tiles of the Overview by their label: value, change, note, tone."""
    rows = [json.loads(one.json)["tiles"] for one in components(app, "tiles")]
    return {tile["label"]: tile for row in rows for tile in row}


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
