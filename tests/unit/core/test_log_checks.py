from dataclasses import replace

import numpy as np
from made_tokens import step_tokens

from board.core.findings.digest import Digest, digest
from board.core.findings.finding import Evidence
from board.core.findings.log_checks import array_checks, pair_audits, shift_words


def digest_of(shift: int = 0, gap: bool = False, step: int = 5) -> Digest:
    dice = np.random.default_rng(step)
    sampler = -dice.exponential(size=200)
    trainer = np.roll(sampler, shift) + dice.normal(scale=0.01, size=200)
    if gap:
        trainer[3] = np.nan
    tokens = step_tokens([100, 100], {"logprobs": trainer, "sampling_logprobs": sampler})
    nothing = np.full(2, np.nan)
    return digest(replace(tokens, step=step), np.full(2, -1), nothing)


def test_a_shift_at_some_steps_is_told_with_the_numbers_of_the_first_of_them():
    (pair,) = pair_audits([digest_of(), digest_of(-1, step=6), digest_of(-1, step=7)])
    assert (pair.shift, pair.shifted, pair.steps) == (-1, (6, 7), 3) or pair.shift == 1
    assert pair.shifted == (6, 7)
    assert pair.correlations[pair.shift] > 0.9
    assert abs(pair.correlations[0]) < 0.5
    assert "2 of 3 steps" in shift_words(pair)


def test_arrays_that_line_up_have_a_best_shift_of_zero():
    (pair,) = pair_audits([digest_of()])
    assert (pair.shift, pair.shifted) == (0, ())


def test_arrays_without_a_gap_are_good_and_a_gap_names_its_token():
    assert [check.state for check in array_checks([digest_of()])] == ["good", "good"]
    _, gaps = array_checks([digest_of(), digest_of(gap=True, step=6)])
    assert gaps.state == "bad"
    assert (gaps.evidence.step, gaps.evidence.index, gaps.evidence.token) == (6, 0, 3)


def test_a_log_without_arrays_has_nothing_to_check():
    tokens = step_tokens([2], {})
    nothing = digest(tokens, np.full(1, -1), np.full(1, np.nan))
    assert [check.state for check in array_checks([nothing])] == ["not recorded"] * 2


def test_another_length_is_counted_by_array():
    lengths, _ = array_checks(
        [replace(digest_of(), faults={"ref_logprobs": (Evidence(1, 0), Evidence(1, 1))})]
    )
    assert lengths.state == "bad"
    assert "ref_logprobs in 2" in lengths.message
