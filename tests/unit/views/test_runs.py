import pytest

from board.core.run_state import run_state

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
