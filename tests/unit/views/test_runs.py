"""What the page of all runs is made of: states of runs, names of settings, and their summaries."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_logs import native_run, native_sample, write_lines

from board.analysis.run_summary import RunSummary
from board.core.run_differences import flat_settings
from board.errors import UnreadableError
from board.index.discovery.discovered_runs import discover
from board.index.summary_cache import SummaryCache
from board.query.open_run import OpenOptions
from board.views.runs import summaries
from board.views.runs.columns import differing, short_names, visible_by_default
from board.views.runs.rows import run_state
from board.views.runs.same_everywhere import shared_settings
from board.views.runs.summaries import MADE_BY, RunSummaries

HOUR = 3600.0


@pytest.mark.parametrize(
    ("age", "has_ended", "pace", "state"),
    [
        (5, False, None, "live"),
        (5, None, None, "live"),
        (5, True, None, "ended"),  # the log says so, however young it is
        (2 * HOUR, True, None, "ended"),
        (2 * HOUR, False, None, "stale"),
        (2 * HOUR, None, None, "unchanged"),  # it never says: no more is claimed than that
        (2 * HOUR, False, HOUR, "live"),  # a step an hour: two of them are no silence
        (4 * HOUR, False, HOUR, "stale"),
        (30, False, 1.0, "live"),
    ],
)
def test_a_state_claims_no_more_than_the_log_and_the_clock_say(age, has_ended, pace, state):
    assert run_state(age, has_ended=has_ended, seconds_per_step=pace) == state


def test_a_setting_is_called_by_the_end_of_its_path_unless_two_end_alike():
    paths = ["config.lr", "actor.seed", "critic.seed", "name"]
    names = ["lr", "actor.seed", "critic.seed", "settings.name"]
    assert short_names(paths) == dict(zip(paths, names, strict=True))


def test_naming_settings_takes_time_in_proportion_to_their_number():
    class Counting(str):
        compared = 0

        def __eq__(self, other):
            Counting.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

        def rpartition(self, sep):
            return *str.rpartition(self, sep)[:2], Counting(str.rpartition(self, sep)[2])

    short_names([Counting(f"a.k{n}") for n in range(2000)])
    assert Counting.compared < 20_000


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(summaries, "_SOON_SECONDS", 0.0)
    monkeypatch.setattr(summaries, "_BUSY_SHARE", 0.0)
    return RunSummaries(OpenOptions(), None, SummaryCache(MADE_BY, tmp_path / "cache.sqlite3"))


@pytest.fixture
def infos(tmp_path):
    native_run(tmp_path / "runs" / "a")
    return discover(tmp_path / "runs").runs


def followed(store, infos, is_done):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        store.follow(infos)
        if is_done():
            return
        time.sleep(0.02)
    raise AssertionError("never read")


def test_a_run_that_failed_is_tried_again_after_a_while(store, infos, monkeypatch):
    real, failures = summaries.summarised, [UnreadableError("the file is busy")]

    def summarised(*args):
        if failures:
            raise failures.pop()
        return real(*args)

    monkeypatch.setattr(summaries, "summarised", summarised)
    followed(store, infos, lambda: store.known(infos[0]))
    assert store.known(infos[0]).error == "the file is busy"
    store.follow(infos)
    time.sleep(0.1)
    assert store.known(infos[0]).summary is None  # its files are the same, and it is too soon
    monkeypatch.setattr(summaries, "_RETRY_SECONDS", 0.0)
    followed(store, infos, lambda: store.known(infos[0]).summary)
    assert not store.known(infos[0]).error


def test_a_run_that_failed_is_tried_again_once_its_files_change(store, infos, monkeypatch):
    real = summaries.summarised
    monkeypatch.setattr(summaries, "summarised", lambda *_: 1 / 0)
    followed(store, infos, lambda: store.known(infos[0]))
    monkeypatch.setattr(summaries, "summarised", real)
    (infos[0].path / "run-1.json").write_text("{}")
    followed(store, [*infos], lambda: store.known(infos[0]).summary)


def test_runs_that_are_listed_anew_meanwhile_stop_nobody_who_reads(store, infos, monkeypatch):
    real, newer = RunSummaries._next, [()]

    def found_and_gone(self):
        found = real(self)
        if newer and threading.current_thread() is not threading.main_thread():
            self.follow(newer.pop())
        return found

    monkeypatch.setattr(RunSummaries, "_next", found_and_gone)
    store.follow(infos)
    store._task.finish()
    assert store.known(infos[0]).summary is not None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": 1.0, "config": {"temperature": 1}}, ["temperature 1"]),
        (
            {"temperature": 1.0, "config": {"temperature": 0.5}},
            ["temperature 1", "config.temperature 0.5"],
        ),
        ({"args": {"lr": 1.0}, "config": {"args": {"lr": 1.0}}}, ["lr 1"]),
    ],
)
def test_a_setting_that_all_runs_share_is_said_once(settings, said):
    flat = dict(flat_settings(settings))
    summary = RunSummary(1, 1, settings=flat)
    assert {*shared_settings([summary, summary])} == {*said}


def test_columns_of_their_own_accord_are_each_another_setting_and_name_no_run():
    runs = [
        {"lr": n, "config.lr": n, "config.output_dir": f"out/{n}", "config.beta": n} for n in (1, 2)
    ]
    assert visible_by_default(differing(runs), runs) == ["lr", "config.beta"]


@given(st.floats(0, 1e4))
def test_a_run_that_grows_is_read_again_within_a_bound_and_without_haste(took):
    pause = summaries.pause_after(took)
    assert 5 <= pause <= summaries.MOST_BEHIND_SECONDS
    assert pause >= min(10 * took, summaries.MOST_BEHIND_SECONDS)


def test_the_table_knows_how_far_a_live_run_is_behind(store, infos, monkeypatch):
    followed(store, infos, lambda: store.known(infos[0]))
    assert store.behind(infos) == 0
    write_lines(infos[0].path / "more.jsonl", [native_sample(99, 0, n) for n in range(4)])
    monkeypatch.setattr(summaries, "_SOON_SECONDS", 60.0)
    monkeypatch.setattr(summaries, "MOST_BEHIND_SECONDS", 60.0)
    grown = discover(infos[0].path.parent).runs
    store.follow(grown)
    time.sleep(0.05)
    assert store.behind(grown) >= 0.05
    monkeypatch.setattr(summaries, "_SOON_SECONDS", 0.0)
    followed(store, grown, lambda: not store.is_old(grown[0]))
    assert store.behind(grown) == 0
