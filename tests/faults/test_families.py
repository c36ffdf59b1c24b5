"""A few runs of the families: how many of each are found is measured by benchmarks/planted_faults.py."""

import pytest
from faults.family_results import families, result_of
from faults.simulated import simulated


@pytest.mark.parametrize(
    "name", ["sampler and trainer part", "a field of the harness changes", "rewards are multiplied"]
)
def test_a_fault_that_nobody_can_miss_is_found_where_it_begins(name, tmp_path):
    (family,) = [one for one in families() if one.name == name]
    result = result_of(family, 0, tmp_path / "run")
    assert result.is_found, result.findings


@pytest.mark.parametrize(
    "name", ["nothing happens", "a curriculum whose level is logged", "groups of two"]
)
def test_an_honest_run_has_nothing_severe(name, tmp_path):
    (family,) = [one for one in families() if one.name == name]
    assert {f.severity for f in result_of(family, 0, tmp_path / "run").findings} <= {"lead"}


def test_a_run_of_a_family_is_the_same_whenever_it_is_drawn():
    for family in families():
        assert simulated(family, 3).rows == simulated(family, 3).rows, family.name
