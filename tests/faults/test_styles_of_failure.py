"""Most styles of failure are told from the policy's own, in every format; benchmarks/failure_causes.py
draws whole runs of them.
"""

from collections import Counter
from statistics import mean

import pytest
from faults.cause_families import STYLES, told, told_together
from faults.rollout_logs import FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_honest_failures_are_not_called_infrastructure_and_most_of_infrastructure_is(
    name, tmp_path
):
    of_styles = told_together(name, 0, tmp_path / "run")
    wrong = [one.style.name for one in of_styles if not one.style.is_infrastructure]
    called = {one.style.name: one.infrastructure for one in of_styles if one.infrastructure}
    assert not called.keys() & {*wrong}
    for written, least in (("known", 0.8), ("later", 0.8)):
        own = [one for one in of_styles if one.style.written == written]
        assert mean(one.not_earned for one in own if one.style.is_infrastructure) >= least


@pytest.mark.parametrize("seed", range(3))
def test_a_sentence_that_nobody_knows_is_unclear_where_it_suddenly_ends_many_prompts(
    seed, tmp_path
):
    (style,) = (one for one in STYLES if one.name == "an odd sentence of a tool")
    runs = [told(style, "native", 10 * seed + n, tmp_path / f"{n}") for n in range(3)]
    classes = sum((one.classes for one in runs), Counter())
    assert classes["unclear"] > classes["policy"]
    assert not sum(one.others for one in runs)


def test_there_are_as_many_honest_styles_as_of_infrastructure_in_five_formats_or_more():
    counts = Counter(style.is_infrastructure for style in STYLES)
    assert min(counts.values()) >= 60
    assert len(FORMATS) >= 5
    assert len({style.name for style in STYLES}) == len(STYLES)
