"""Runs of one setup as one row, columns that say nothing, and heads of two lines: laws over made runs."""

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st

from board.analysis.run_summary import LastMean, RunSummary
from board.components.run_table import RunRow
from board.core.repeated_runs import setup_of, shared_name
from board.views.runs.folding import folded, means_over_runs, together
from board.views.runs.headings import LINES, MOST_SIGNS, cut_names, lines_of, signs_for
from board.views.runs.same_everywhere import equal_columns

means = st.none() | st.floats(-5, 5)
settings = st.fixed_dictionaries(
    {},
    optional={
        "lr": st.sampled_from([1e-6, 3e-6, "1e-6", True, 1, 1.0]),
        "seed": st.integers(0, 3),
        "output_dir": st.sampled_from(["a", "b"]),
        "kl.coef": st.sampled_from([0, None]),
    },
)
summaries = st.none() | st.builds(
    lambda own, mean: RunSummary(
        3,
        8,
        settings=own,
        setup=setup_of(own),
        reward=None if mean is None else LastMean(mean, 8),
    ),
    settings,
    means,
)


def row_of_nothing(n: int) -> RunRow:
    cells = {"format": {"text": "made"}, "changed": {"at": float(n)}, "finding": {"text": "none"}}
    return RunRow(f"run{n}", f"run{n}", "ended", "ended", cells)


def rows_of(runs):
    return [row_of_nothing(n) for n in range(len(runs))]


@given(st.lists(summaries, max_size=12), st.data())
def test_folding_keeps_every_run_exactly_once(runs, data):
    places = data.draw(st.lists(st.sampled_from(range(len(runs))), unique=True)) if runs else []
    rows = rows_of(runs)
    groups = folded(places, rows, runs, ["seed", "lr"])
    members = [place for group in groups for place in group.members]
    assert len(members) == len({*members})
    assert {*members} <= {*places}
    assert all(len(group.members) > 1 for group in groups)
    assert not {group.name for group in groups} & {row.name for row in rows}
    # Whoever is in no group has no other run of its setup.
    setups = {runs[place].setup for place in members}
    alone = [runs[place].setup for place in {*places} - {*members} if runs[place] is not None]
    known = [setup for setup in alone if setup]
    assert len(known) == len({*known})
    assert not {*known} & setups


@given(st.lists(summaries, min_size=2, max_size=12))
def test_the_mean_of_a_group_is_that_of_its_runs_with_a_value(runs):
    for group in folded(range(len(runs)), rows_of(runs), runs, []):
        recorded = [runs[place].reward for place in group.members]
        values = [one.mean for one in recorded if one is not None]
        mean = group.cells["reward"]["sort"]
        if not values:
            assert mean is None
            continue
        assert math.isclose(mean, statistics.fmean(values), rel_tol=1e-9, abs_tol=1e-9)
        assert ("n = " in group.cells["reward"].get("note", "")) == (len(values) < len(recorded))


@given(st.lists(means, max_size=8))
def test_a_single_seed_has_no_interval(values):
    (over, other), n = means_over_runs([values, [1.0]]), sum(one is not None for one in values)
    assert other == (1.0, 1, None)
    if over is None:
        assert n == 0
        return
    assert over.n == n
    assert (over.reach is not None) == (n >= 3)


@given(settings, settings)
def test_runs_are_of_one_setup_where_all_but_seeds_and_names_is_equal(one, other):
    def kept(own):
        return {
            path: (isinstance(value, bool), value)
            for path, value in own.items()
            if path not in ("seed", "output_dir")
        }

    assert (setup_of(one) == setup_of(other)) == (kept(one) == kept(other))


def test_runs_without_recorded_settings_are_never_one_setup():
    runs = [RunSummary(3, 8), RunSummary(3, 8)]
    assert together([0, 1], rows_of(runs), runs) == []


def test_a_model_and_its_data_are_of_the_setup_and_folders_of_outputs_are_not():
    setup = {"model_path": "a", "data": {"train_files": "b"}, "checkpoint_path": "c"}
    names = {"run_name": "x", "trainer": {"experiment_name": "x", "default_local_dir": "x"}}
    assert setup_of(setup | names) == setup_of(setup)
    for path in setup:
        assert setup_of(setup | {path: "other"}) != setup_of(setup)


def test_the_name_of_a_group_is_what_its_runs_share():
    assert shared_name(["a/grpo-seed1", "a/grpo-seed12"]) == "a/grpo-seed*"
    assert shared_name(["seed10_x", "seed11_x"]) == "seed*_x"
    assert shared_name(["one", "other"]) == "one and 1 more"


cells = st.none() | st.fixed_dictionaries(
    {"text": st.sampled_from("ab")}, optional={"sort": st.sampled_from([1, None])}
)


@given(st.lists(st.fixed_dictionaries({"x": cells, "y": cells}), max_size=5))
def test_no_column_with_two_values_is_dropped_and_missing_is_a_value(made):
    rows = [{name: cell for name, cell in row.items() if cell is not None} for row in made]
    dropped = equal_columns(["x", "y"], rows)
    for name in ("x", "y"):
        looks = [
            (row[name]["text"], row[name].get("sort")) if name in row else None for row in rows
        ]
        assert (name in dropped) == (len(rows) > 1 and len({*looks}) == 1)


names = st.text("abcdef_./", min_size=1, max_size=80)


@given(st.lists(names, max_size=8, unique=True))
def test_heads_of_settings_have_two_lines_at_most_and_differ(own):
    heads = cut_names({name: name for name in own})
    assert len({*heads.values()}) == len(own)
    for name, head in heads.items():
        signs = signs_for(head)
        assert signs <= MOST_SIGNS
        assert len(lines_of(head, signs)) <= LINES
        assert head == name or len(lines_of(name, MOST_SIGNS)) > LINES or head.startswith("1…")


@given(names, st.integers(1, 40))
def test_lines_hold_all_of_a_name(name, signs):
    lines = lines_of(name, signs)
    assert "".join(lines) == name
    assert all(len(line) <= signs for line in lines)
