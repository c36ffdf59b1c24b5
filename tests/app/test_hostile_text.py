"""Text from a log is shown as text: nothing of it reaches a place that renders Markdown unescaped."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_elements import PAGES, assert_sound, elements, readers
from streamlit.testing.v1 import AppTest
from written_logs import HOSTILE, hostile_run, hostile_texts, native_run

from board.core.csv_rows import harmless_cell
from board.views.shared.text import number

# Elements that show their content as it is. Their titles and help are Markdown all the same.
_CODE = ("html_content", "css_content", "js_content")
_LITERAL = {
    "text": ("body", "help"),
    "code": ("code_text",),
    "json": ("body",),
    "dataframe": ("data", "arrow_data", "columns"),
    "arrow_data_frame": ("data", "arrow_data", "columns"),
    "page_link": ("query_string",),
    "plotly_chart": ("spec",),
    "bidi_component": ("mixed", "json", "bytes", "arrow_data", *_CODE),
}
# Values and options of fields are shown as they are; a browser test watches over that.
_PLAIN_FIELDS = frozenset(
    {"id", "options", "default", "value", "placeholder", "raw_value", "raw_values", "set_value"}
)
_ESCAPED = re.compile(r"\\.", re.DOTALL)
# Signs that begin something in Markdown. Words between them stand in the traps and nowhere else.
_TRAPS = re.compile(
    r"<script|<img|<iframe|<think|<b>|!\[x|\]\(|:smile:|:red\[|:material/skull|\$5|\$6|\$\$x|2\*3"
    r"|\*\*bold|__init__|~~gone|`code|#### 69|x<y|y>z|https?://127|\[boo|\[link|javascript:"
)


# What is typed or stands in the URL is cut where it is shown, but not as soon as after two of them.
PAIRS = [" ".join(pair) for pair in zip(HOSTILE[::2], HOSTILE[1::2], strict=True)]


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("traps")
    hostile_run(root)
    return root


def markdown_of(message: Any, skipped: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every text in a protobuf message but the fields that are shown as they are."""
    for field, value in message.ListFields():
        if field.name in _PLAIN_FIELDS or field.name in skipped:
            continue
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
        for part in value if repeated else [value]:
            if field.type == field.TYPE_STRING:
                yield part
            elif field.type == field.TYPE_MESSAGE and hasattr(part, "ListFields"):
                yield from markdown_of(part, skipped)


def column_help(proto: Any) -> Iterator[str]:
    """What explains a table's columns; their titles are drawn on a canvas, as they are."""
    columns = getattr(proto, "columns", "")
    settings = json.loads(columns) if isinstance(columns, str) and columns else {}
    yield from (column["help"] for column in settings.values() if column and column.get("help"))


def unescaped(app: AppTest) -> list[str]:
    result: list[str] = []
    for element in elements(app):
        proto = getattr(element, "proto", None)
        if proto is None or not hasattr(proto, "ListFields"):
            continue
        skipped = frozenset(_LITERAL.get(element.type, ()))
        parts = [*markdown_of(proto, skipped), *column_help(proto)]
        result += [
            f"{element.type}: {text[:200]}"
            for text in parts
            if _TRAPS.search(_ESCAPED.sub("", text))
        ]
    return result


_FIELDS = frozenset({"number_input", "text_input", "text_area", "selectbox", "multiselect"})


@pytest.mark.parametrize("page", [*PAGES, "words"])
def test_no_label_of_a_field_has_signs_that_only_markdown_reads(open_app, tmp_path, page):
    """Browsers give it to those who hear the page as it is written."""
    for name in ("lr=1e-5_*a*", "lr=1e-6_*b*"):
        native_run(tmp_path / name)
    app = open_app(tmp_path, page)
    labels = [one.proto.label for one in elements(app) if one.type in _FIELDS]
    assert labels
    assert [label for label in labels if _ESCAPED.search(label)] == []


def test_the_search_for_traps_finds_each_of_them():
    assert all(_TRAPS.search(trap) for trap in HOSTILE)


@pytest.mark.parametrize("page", [*PAGES, "words"])
def test_no_page_renders_text_of_a_log(open_app, traps, page):
    app = open_app(
        traps,
        page,
        reader_record="1",
        rollouts_columns="env,group_id,rewards.#### 69",
        rollouts_scope="run",
    )
    assert not app.error
    assert unescaped(app) == []


def test_no_notice_renders_what_stands_in_the_url(open_app, traps):
    for trap in PAIRS:
        link = dict.fromkeys(
            ("step", "sort", "range", "env", "rollouts_columns", "reader_metric", "run", "q"), trap
        )
        app = open_app(traps, "rollouts", **link)
        assert app.toast
        assert unescaped(app) == []


def test_no_message_renders_the_folder_that_was_typed(open_app, traps):
    for trap in PAIRS:
        assert unescaped(open_app(traps, "rollouts", root=trap)) == []


def test_names_of_files_that_are_no_logs_are_not_rendered(open_app, tmp_path):
    for trap in HOSTILE:
        (tmp_path / f"{trap.replace('/', '_')[:60]}.jsonl").write_text('{"a": 1}\n')
    app = open_app(tmp_path)
    assert len(app.dataframe[0].value) == len(HOSTILE)
    assert unescaped(app) == []


def test_every_text_stands_on_the_page_as_it_was_written(open_app, traps):
    app = open_app(traps, "rollout", reader_as="text")
    (view,) = readers(app)
    sides = {detail["title"]: detail.get("text") for detail in view["details"]}
    assert sides["Reference response"] == hostile_texts("ref_response")
    assert sides["Ground truth"] == hostile_texts("ground_truth")
    given, answer = view["turns"]
    assert [block["text"] for block in given["blocks"]] == [hostile_texts("prompt")]
    assert [block["kind"] for block in answer["blocks"]] == ["text", "reasoning", "text"]
    messages = "\n".join(block["text"] for block in answer["blocks"])
    assert messages == hostile_texts("response").replace("<think>", "").replace("</think>", "")


def test_what_is_nested_too_deep_to_be_shown_is_said(open_app, tmp_path):
    deep = "[" * 1000 + "]" * 1000
    line = f'{{"step": 1, "response": "r", "reward": 1, "odd": {deep}}}\n'
    (tmp_path / "x.jsonl").write_text(line)
    assert_sound(open_app(tmp_path, "rollout"))
    app = open_app(tmp_path, "rollout", reader_record="1")
    (view,) = readers(app)
    assert [one["text"] for one in view["details"] if one["title"] == "Raw record"] == [
        "The record is nested too deep to be shown."
    ]


def test_no_cell_of_a_download_is_a_formula():
    for sign in "=+-@\t\r\n＝＋－＠":
        assert harmless_cell(f"{sign}cmd|' /C calc'!A0") == f"'{sign}cmd|' /C calc'!A0"
    assert [harmless_cell(cell) for cell in (-1.5, None, "a=b", "")] == [-1.5, None, "a=b", ""]


def test_no_number_takes_more_than_a_line():
    assert [number(x) for x in (1e308, -1e15, 1234567.0)] == ["1e+308", "−1e+15", "1,234,567"]
