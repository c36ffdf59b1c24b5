"""What a user's metrics.toml says of metrics of their own: words, unit, aggregates, and what is zero."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from read_formats import run_at
from test_own_tokens import values_of

from board import cli
from board.core.metrics import own_metrics
from board.core.metrics.definitions import rollout_metric, token_metric
from board.core.metrics.headings import meanings
from board.errors import BoardError
from exporters import RolloutExporter

NAME = "grad_norm_of_token"
SAYS = """
[grad_norm_of_token]
label = "Gradient norm"
unit = "1e-3"
aggregate = ["sum", "min"]
diverging = true

[latency]
label = "Latency"
unit = "s"
"""
ARRAY = np.arange(8.0).reshape(2, 4) - 3

Say = Callable[[str], None]


@pytest.fixture
def say(tmp_path, monkeypatch) -> Iterator[Say]:
    monkeypatch.setenv("ROLLOUT_BOARD_CONFIG", str(tmp_path))

    def write(text: str) -> None:
        (tmp_path / "metrics.toml").write_text(text)
        own_metrics.own_metrics.cache_clear()

    yield write
    own_metrics.own_metrics.cache_clear()


@pytest.fixture
def folder(tmp_path):
    with RolloutExporter(tmp_path / "run") as exporter:
        meta = {"latency": [0.5, 1.5]}
        exporter.log(1, response_ids=np.ones((2, 4), int), meta=meta, **{NAME: ARRAY})
    return tmp_path / "run"


def test_an_array_has_the_aggregates_that_its_user_names_and_its_words(say, folder):
    say(SAYS)
    run = run_at(folder)
    assert {f"{NAME}_min", f"{NAME}_sum"} == {name for name in run.metrics if NAME in name}
    assert values_of(run, f"{NAME}_sum").tolist() == ARRAY.sum(1).tolist()
    assert values_of(run, f"{NAME}_min").tolist() == ARRAY.min(1).tolist()
    summed, smallest = rollout_metric(f"{NAME}_sum"), rollout_metric(f"{NAME}_min")
    assert (summed.label, summed.unit) == ("Gradient norm, sum over tokens", "1e-3")
    assert (smallest.label, smallest.kind) == ("Gradient norm, smallest token", "diverging")
    assert (token_metric(NAME).label, token_metric(NAME).kind) == ("Gradient norm", "diverging")
    latency = rollout_metric("latency")
    assert (latency.label_with_unit, latency.kind) == ("Latency, s", "sequential")
    assert meanings(tuple(run.columns))["latency, s"] == ("latency",)


def test_an_index_is_made_again_where_other_aggregates_are_wanted(say, folder):
    for says, ends in (("", {"mean", "max"}), (SAYS, {"min", "sum"}), ("", {"mean", "max"})):
        say(says)
        run = run_at(folder, persist=True)
        assert {name.rpartition("_")[2] for name in run.metrics if NAME in name} == ends


def test_the_boards_words_for_what_it_knows_stay(say):
    before = rollout_metric("entropy_mean"), token_metric("entropy")
    say('[entropy]\nlabel = "Mine"\naggregate = ["mean"]')
    assert (rollout_metric("entropy_mean"), token_metric("entropy")) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("label = 1", "label: expected a table"),
        ("[x]\nunit = 's'", r"\[x\] label: expected a text"),
        ("[x]\nlabel = 1", r"\[x\] label: expected a text"),
        (
            "[x]\nlabel = 'a'\naggregate = ['median']",
            r"\[x\] aggregate: expected a list of mean, max",
        ),
        ("[x]\nlabel = 'a'\naggregate = []", r"\[x\] aggregate: expected a list"),
        ("[x]\nlabel = 'a'\naggregate = 3", r"\[x\] aggregate: expected a list"),
        ("[x]\nlabel = 'a'\naggregate = [[1]]", r"\[x\] aggregate: expected a list"),
        ("[x]\nlabel = 'a'\ndiverging = 1", r"\[x\] diverging: expected true or false"),
        ("[x]\nlabel = 'a'\ncolour = 'red'", r"\[x\] colour: unknown; expected label, unit"),
        ("[x", "is not TOML"),
        ("a = " + "[" * 5000, "is not TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_by_file_metric_and_key(
    say, folder, text, reason, capsys
):
    say(text)
    with pytest.raises(BoardError, match=rf"metrics\.toml: {reason}"):
        own_metrics.own_metrics()
    assert cli.main(["steps", str(folder)]) == 2
    assert "metrics.toml" in capsys.readouterr().err


def test_without_a_file_nothing_is_said(tmp_path, monkeypatch):
    for home in (tmp_path / "none", tmp_path / "file"):
        (tmp_path / "file").touch()
        monkeypatch.setenv("ROLLOUT_BOARD_CONFIG", str(home))
        own_metrics.own_metrics.cache_clear()
        assert own_metrics.own_metrics() == {}
        assert own_metrics.index_key() == ""
