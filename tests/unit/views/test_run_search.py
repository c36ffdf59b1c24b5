"""The search of the table of runs: what is on the screen can be typed, what means nothing is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.analysis.run_summary import ListedFinding, RunSummary
from board.components.run_table import RunRow
from board.core.expression_tree import text_literal
from board.core.metrics.definitions import rollout_metric
from board.views.runs.columns import choose_columns
from board.views.runs.filters import filter_groups, search
from board.views.runs.names import id_of, is_setting, path_of
from board.views.runs.rows import setting_cell

PATHS = (
    *("run", "name", "state", "steps", "note", "kl", "config.finding", "config.steps", "severity"),
    *(
        "lr",
        "config.lr",
        "loss",
        "a",
        "b",
        "x.a/b",
        "y.a - b",
        "in",
        "x.not b",
        "x.and more",
        "1st",
    ),
)
SETTINGS = st.dictionaries(
    st.sampled_from(PATHS), st.sampled_from([1, 2.5, 3e-6, "dapo", "none", "severe"])
)
FINDINGS = st.sampled_from(
    [None, *((kind, f"A {kind} spike") for kind in ("severe", "warning", "lead"))]
)
RUNS = st.lists(
    st.tuples(
        st.sampled_from(["live", "ended", "stale", "waiting", "reading", "error"]),
        st.sampled_from(["TRL", "Rollout Board", "generic: own keys"]),
        st.sampled_from(["", "a bug", "none"]),
        FINDINGS,
        SETTINGS,
    ),
    min_size=1,
    max_size=5,
)


def table_of(runs):
    """Rows, summaries and columns."""
    rows, summaries = [], []
    for place, (state, log_format, note, finding, settings) in enumerate(runs):
        findings = () if finding is None else (ListedFinding(*finding, "key"),)
        summary = RunSummary(3 + place, 8, findings=findings, settings=settings)
        cells = {"format": {"text": log_format}, "changed": {"at": 0.0}, "note": {"text": note}}
        cells["finding"] = {"text": finding[1] if finding else "none"}
        cells["steps"] = {"text": str(3 + place)}
        cells |= {id_of(path): setting_cell(settings, path) for path in settings}
        rows.append(RunRow(f"a/grpo_{place}", f"a/grpo_{place}", state, "", cells))
        summaries.append(summary)
    settings = [one.settings for one in summaries]
    wanted = [id_of(path) for path in PATHS]
    return rows, summaries, choose_columns(settings, {"f"}, wanted, "name", dark=False).by_id


@given(RUNS)
def test_every_head_and_filter_is_a_name_with_the_values_on_the_screen(runs):
    rows, summaries, columns = table_of(runs)

    def holding(name: str, value: str) -> list[int]:
        found = search(rows, summaries, f"{name} = {text_literal(value)}", columns)
        assert found.refused == "", (name, value)
        return found.places

    heads = [column.label for column in columns.values()]
    assert len({head.casefold() for head in heads}) == len(heads)
    usual = {column.label for column in columns.values() if not is_setting(column.name)}
    assert not [head for head in usual - {rollout_metric("k3_mean").label} if "," in head]
    for column in columns.values():
        texts = [
            row.name if column.name == "name" else row.cells.get(column.name, {}).get("text")
            for row in rows
        ]
        is_known = path_of(column.name) != column.name or column.name in (
            *("name", "format", "finding", "steps"),
        )
        for text in {*texts} - {None} if is_known else ():
            same = [n for n, own in enumerate(texts) if own == text]
            assert holding(column.label, text) == same, (column.label, text)
    for group in filter_groups(rows, summaries):
        for option in group.options:
            places = holding(group.title, option.label)
            assert len(places) == option.count
            assert holding(group.title.upper(), option.label.upper()) == places
    for place, row in enumerate(rows):
        assert place in holding("note", row.cells["note"]["text"])


ROWS = table_of(
    [
        ("live", "TRL", "this contains a bug", ("severe", "Reward hack"), {"lr": 1e-6, "run": "x"}),
        ("error", "TRL", "", ("warning", "KL spike"), {"lr": 3e-6, "run": "y"}),
        ("ended", "generic", "", None, {"loss": "dapo"}),
    ]
)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("finding = severe", [0]),
        ("finding != severe", [1, 2]),
        ("Finding = Severe", [0]),
        ("worst finding in (severe, none)", [0, 2]),
        ('finding in (warning, "Reward hack")', [0, 1]),
        ("finding contains spike", [1]),
        ("finding contains warning", [1]),
        ("not finding = none", [0, 1]),
        ("run contains grpo", [0, 1, 2]),
        ("name contains GRPO_1", [1]),
        ("run = a/grpo_0", [0]),
        ("settings.run = x", [0]),
        ('state = "can\'t be read"', [1]),
        ("state in (live, error)", [0, 1]),
        ("format = trl", [0, 1]),
        ("note contains bug", [0]),
        ("problems = none", [0, 1, 2]),
        ("contains a bug", [0]),  # words of a note
        ("this contains a", [0]),
        ("lr=1e-6", [0]),
        ("steps > 3 and run contains grpo", [1, 2]),
    ],
)
def test_names_on_the_screen_find_runs(text, places):
    found = search(ROWS[0], ROWS[1], text, ROWS[2])
    assert (found.places, found.refused) == (places, "")


@pytest.mark.parametrize(
    "text", ["speed = 1", "speed contains grpo", "speed=1", "not speed contains x", "1 = 1"]
)
def test_a_name_that_means_nothing_is_refused_with_those_there_are(text):
    found = search(ROWS[0], ROWS[1], text, ROWS[2])
    assert found.places == [0, 1, 2]
    assert "expected one of: name, state, format" in found.refused
