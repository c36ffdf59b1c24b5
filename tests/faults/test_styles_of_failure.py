"""Most styles of failure are told from the policy's own, in every format; benchmarks/failure_causes.py
draws whole runs of them.
"""

from collections import Counter
from statistics import mean

import pytest
from faults.cause_families import STYLES, told_together
from faults.rollout_logs import FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_honest_failures_are_not_called_infrastructure_and_most_of_infrastructure_is(
    name, tmp_path
):
    of_styles = told_together(name, 0, tmp_path / "run")
    wrong = [one.style.name for one in of_styles if not one.style.is_infrastructure]
    called = {one.style.name: one.infrastructure for one in of_styles if one.infrastructure}
    assert not called.keys() & {*wrong}
    for written in ("known", "later"):
        own = [one for one in of_styles if one.style.written == written]
        assert mean(one.not_earned for one in own if one.style.is_infrastructure) >= 0.9


def test_there_are_as_many_honest_styles_as_of_infrastructure_in_five_formats_or_more():
    counts = Counter(style.is_infrastructure for style in STYLES)
    assert min(counts.values()) >= 60
    assert len(FORMATS) >= 5
    assert len({style.name for style in STYLES}) == len(STYLES)
