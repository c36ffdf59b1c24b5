import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.index.manifest import short_header
from board.index.reading.file_steps import StepCounts
from board.query.attempts import Written, attempts_of, resumed_in_order


def written_again(steps: np.ndarray) -> np.ndarray:
    """Which rollouts, one a line, a restart wrote again; bool [n]."""
    tally = StepCounts()
    lines = np.arange(len(steps))
    tally.add_rows(steps, lines)
    lost = np.zeros(len(steps), bool)
    for restart in tally.restarts():
        lost |= (lines < restart.line) & (steps >= restart.step)
    return lost


def superseded(*steps: int) -> list[int]:
    """Positions that were written again."""
    return np.flatnonzero(written_again(np.array(steps, np.int64))).tolist()


@pytest.mark.parametrize(
    ("steps", "lost"),
    [
        ((), []),
        ((1,), []),
        ((1, 1, 2, 2, 3), []),
        ((0, 10, 20, 35), []),
        ((1, 2, 3, 2, 3, 4), [1, 2]),
        ((1, 2, 3, 1, 2, 3), [0, 1, 2]),
        ((1, 1, 2, 2, 3, 2, 2, 3, 3), [2, 3, 4]),
        ((1, 2, 3, 3, 2, 3, 2, 3), [1, 2, 3, 4, 5]),
        ((1, 1, 2, 2, 1), [0, 1, 2, 3]),
        ((1, 2, 3, 0, 5), []),
    ],
)
def test_what_a_restart_writes_again_is_superseded(steps, lost):
    assert superseded(*steps) == lost


@pytest.mark.parametrize(
    "steps",
    [
        (1, 1, 1, 2, 1, 2, 2, 2),  # ranks that share a file, a little out of step
        (1, 1, 1, 1, 2, 2, 1, 2, 3, 3, 2, 3),
        np.random.default_rng(0).permutation(np.repeat(np.arange(20), 8)),
        range(20, 0, -1),
        (5, 5, 6, 5, 6, 5),  # rollouts that end when they do
        (1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 1),
        (1, 1, 2, 2, 3, 3, *[2] * 20, 4, 4, 5, 5),  # an evaluation of step 2 that took its time
    ],
    ids=["ranks", "more ranks", "no order", "downwards", "late", "last", "evaluation"],
)
def test_steps_out_of_order_are_no_restart(steps):
    assert superseded(*steps) == []


SIZES = st.integers(2, 12)


@settings(max_examples=300, deadline=None)
@given(SIZES, st.integers(3, 12), st.data())
def test_rollouts_out_of_order_within_a_step_s_reach_lose_none(size, count, data):
    steps = np.repeat(np.arange(count), size)
    delays = data.draw(
        st.lists(st.integers(0, size), min_size=len(steps), max_size=len(steps)), "delays"
    )
    order = np.argsort(np.arange(len(steps)) + np.array(delays), kind="stable")
    assert superseded(*steps[order]) == []


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(9, 11), min_size=40, max_size=40),
    st.integers(3, 12),
    st.integers(1, 12),
    st.integers(1, 8),
    st.integers(0, 5),
)
def test_a_resume_from_any_step_supersedes_what_it_writes_again(sizes, last, back, more, cut):
    resumed = max(last - back, 2)
    earlier = [step for step in range(1, last + 1) for _ in range(sizes[step])]
    earlier = earlier[: len(earlier) - cut]
    later = [s for s in range(resumed, last + more + 1) for _ in range(sizes[20 + s % 20])]
    expected = [place for place, step in enumerate(earlier) if step >= resumed]
    fall = resumed < earlier[-1]
    assert superseded(*earlier, *later) == (expected if fall else [])


def test_no_rows_but_the_written_again_are_superseded_by_several_restarts():
    runs = [np.repeat(np.arange(start, start + 6), 4) for start in (0, 3, 5)]
    lost = written_again(np.concatenate(runs))
    remaining = np.concatenate(runs)[~lost]
    assert np.unique(remaining, return_counts=True)[1].tolist() == [4] * 11
    assert (np.diff(remaining) >= 0).all()


def header(**fields):
    return short_header(fields)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "x", None, True, [1]])
def test_a_header_with_odd_values_is_read_as_saying_nothing(wrong):
    attempts, of_file = attempts_of(
        [header(attempt="a", started=wrong, start_step=wrong, world_size=wrong)]
    )
    assert of_file == ["a"]
    assert (attempts[0].started, attempts[0].start_step, attempts[0].world_size) == (0, None, None)


def test_attempts_are_ordered_by_when_they_started_and_not_by_name():
    files = [header(attempt="b", started=1), header(attempt="a", started=2), None]
    attempts, of_file = attempts_of(files)
    assert [attempt.name for attempt in attempts] == ["b", "a"]
    assert of_file == ["b", "a", None]


def ordered(*attempts: tuple[str, int | None, int, int, float]) -> list[str]:
    """Names of attempts, oldest first, of (name, start_step, first, last step, last written); in the
    order of their clocks.
    """
    headers = [
        header(attempt=name, started=n, start_step=a[0]) for n, (name, *a) in enumerate(attempts)
    ]
    written = {name: [Written(first, last, int(at))] for name, _, first, last, at in attempts}
    return [one.name for one in resumed_in_order(attempts_of(headers)[0], written)]


@pytest.mark.parametrize("start", [11, 21, None])
def test_a_resume_on_a_machine_whose_clock_is_late_is_the_newer_attempt(start):
    late = [("resumed", start, start or 15, 30, 200), ("first", 1, 1, 20, 100)]
    assert ordered(*late) == ["first", "resumed"]


def test_several_resumes_follow_each_other_whatever_their_clocks_say():
    late = [("third", 31, 31, 40, 300), ("second", 15, 15, 30, 200), ("first", 1, 1, 20, 100)]
    assert ordered(*late) == ["first", "second", "third"]


@pytest.mark.parametrize(
    "other",
    [
        ("anew", 1, 1, 30, 200),
        ("anew", None, 1, 5, 200),
        ("ahead", 40, 40, 50, 200),
        ("copied before", 11, 11, 30, 50),
    ],
    ids=lambda one: one[0],
)
def test_one_sign_alone_that_a_clock_was_wrong_is_not_believed(other):
    assert ordered(other, ("first", 1, 1, 20, 100)) == [other[0], "first"]


def test_a_training_begun_anew_in_the_folder_of_a_resumed_one_is_the_newest():
    names = [("first", 1, 1, 20, 100), ("resumed", 11, 11, 30, 200), ("anew", 1, 1, 40, 300)]
    assert ordered(*names) == ["first", "resumed", "anew"]


def test_very_many_attempts_stay_in_the_order_of_their_clocks():
    many = [(f"{n}", n + 1, n + 1, n + 2, 1000 - n) for n in range(300, 0, -1)]
    assert ordered(*many) == [name for name, *_ in many]
