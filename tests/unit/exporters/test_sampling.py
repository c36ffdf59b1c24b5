from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opened_logs import lines

from exporters import RolloutExporter
from exporters.writing.sampling import GroupSampler

GROUPS = [f"g{i}" for i in range(6) for _ in range(4)]


def kept_of(batches: list[list[str]], limit: int) -> frozenset[str]:
    sampler = GroupSampler(limit)
    for batch in batches:
        sampler.admit(1, batch)
    return sampler.groups(1)


@given(st.integers(1, 30), st.randoms(use_true_random=False))
def test_what_is_kept_does_not_depend_on_the_order_or_the_batches(limit, mixed):
    shuffled = mixed.sample(GROUPS, len(GROUPS))
    assert kept_of([GROUPS], limit) == kept_of([shuffled[:7], shuffled[7:]], limit)


@given(st.integers(1, 30))
def test_groups_are_kept_whole_within_the_limit_but_at_least_one(limit):
    sampled_groups = kept_of([GROUPS], limit)
    assert len(sampled_groups) == max(1, min(6, limit // 4))


@given(st.integers(4, 30))
def test_a_smaller_limit_keeps_a_part_of_what_a_larger_one_keeps(limit):
    assert kept_of([GROUPS], limit - 1) <= kept_of([GROUPS], limit)


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_only_whole_groups_are_written_and_what_was_left_out_is_counted(tmp_path, mode):
    with RolloutExporter(tmp_path, max_samples_per_step=8, mode=mode) as exporter:
        for start in (0, 6, 12, 18):
            groups = GROUPS[start : start + 6]
            exporter.log(1, prompt_ids=[[1]] * 6, response_ids=[[2]] * 6, meta={"group_id": groups})
        exporter.end_step(1)
    sizes = Counter(sample["group_id"] for sample in lines(exporter, "sample"))
    assert sorted(sizes.values()) == [4, 4]
    (end,) = lines(exporter, "step_end")
    assert (end["records"], end["sampled_out"], end["dropped"]) == (8, 16, 0)


def test_a_step_that_nobody_ends_is_written_at_close(tmp_path):
    with RolloutExporter(tmp_path, max_samples_per_step=8) as exporter:
        exporter.log(1, prompt_ids=[[1]] * 2, response_ids=[[2]] * 2)
    assert exporter.counts["records"] == 2
