"""Entries of a label file, what they leave, and the shares and agreement that follow."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.labels.entries import (
    Entry,
    RolloutKey,
    decode,
    encode,
    labelling_order,
    labels_of,
    last_of,
)
from board.core.labels.names import packaged_names, parse_names
from board.core.labels.shares import Stratum, agreement, draw, label_shares, strata_of
from board.errors import ChoiceError


def entry(number: int, author: str, kind: str, value: str = "", **others) -> Entry:
    own = Entry(id=str(number), time=float(number), author=author, kind=kind, value=value)
    return replace(own, **{"step": 3, "key": "k", **others})


def test_an_entry_is_read_as_it_was_written():
    one = entry(1, "ann", "span", "cheat", first=0, last=4)
    assert decode(encode(one)) == one
    assert decode(encode(replace(one, value='"\n\ud800', author="😀"))) is not None


@pytest.mark.parametrize(
    "line",
    [
        *("", "{", "[]", "null", '{"kind": "label"}', '{"id": "1", "author": "a", "time": "now"}'),
        '{"id": "1", "author": "a", "time": 1, "kind": "vote"}',
        '{"id": "1", "author": "a", "time": 1, "kind": "label", "step": "3"}',
        '{"id": "1", "author": "a", "time": true, "kind": "label"}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_entry_is_none(line):
    assert decode(line) is None


def test_the_last_label_of_each_author_counts_and_the_newest_is_the_rollouts():
    key = RolloutKey(3, "k")
    several = [
        entry(1, "ann", "label", "good"),
        entry(2, "ann", "label", "cheat"),
        entry(3, "bob", "label", "good"),
        entry(4, "ann", "note", "see line 3"),
    ]
    own = labels_of(several)[key]
    assert {name: one.label for name, one in own.authors.items()} == {"ann": "cheat", "bob": "good"}
    assert own.latest == ("good", "bob")
    assert own.notes == {"ann": "see line 3"}
    assert labels_of(reversed(several)) == labels_of(several)  # writers may end in any order


def test_undo_brings_back_what_was_before_and_can_be_repeated():
    several = [entry(1, "ann", "label", "good"), entry(2, "ann", "label", "cheat")]
    for left in ("good", ""):
        last = last_of(several, "ann")
        assert last is not None
        several.append(entry(len(several) + 1, "ann", "undo", undoes=last.id))
        labels = labels_of(several)
        assert (labels[RolloutKey(3, "k")].latest[0] if labels else "") == left
    assert last_of(several, "ann") is None


def test_a_span_is_labelled_once_per_author_and_cleared_by_an_empty_label():
    several = [
        entry(1, "ann", "span", "cheat", first=2, last=5),
        entry(2, "ann", "span", "good", first=2, last=5),
        entry(3, "ann", "span", "good", first=0, last=1),
    ]
    spans = labels_of(several)[RolloutKey(3, "k")].spans
    assert [(one.first, one.last, one.label) for one in spans] == [(0, 1, "good"), (2, 5, "good")]
    several.append(entry(4, "ann", "span", "", first=2, last=5))
    assert len(labels_of(several)[RolloutKey(3, "k")].spans) == 1


def test_names_keep_their_order_and_mistakes_are_said():
    names = parse_names('[labels]\nb = "x"\n"a c" = ""\n')
    assert [one.name for one in names] == ["b", "a c"]
    assert 1 <= len(packaged_names()) <= 9
    too_many = "".join(f"n{i} = ''\n" for i in range(10))
    for text in ("labels = 3", "x", "[labels]\n", "[labels]\na = 1\n", f"[labels]\n{too_many}"):
        with pytest.raises(ChoiceError, match=r"labels\.toml"):
            parse_names(text)


def test_a_share_weights_strata_by_their_size_not_by_what_was_drawn():
    strata = [Stratum(900, ["good"] * 10), Stratum(100, ["cheat"] * 10)]
    shares = {one.label: one for one in label_shares(strata)}
    assert shares["cheat"].share == pytest.approx(0.1)
    assert shares["good"].share == pytest.approx(0.9)
    assert shares["cheat"].count == 10
    assert shares["cheat"].n == 20


def test_a_label_that_no_labelled_rollout_has_is_no_certain_zero():
    (_, cheat) = label_shares([Stratum(100, ["good"] * 10)], names=["cheat"])
    assert (cheat.label, cheat.count, cheat.share, cheat.low) == ("cheat", 0, 0.0, 0.0)
    assert 0.2 < cheat.high < 0.35


def test_a_stratum_without_labels_is_left_out_and_said():
    (one,) = label_shares([Stratum(50, ["cheat"]), Stratum(70, [])])
    assert (one.population, one.all_rollouts) == (50, 120)


def test_where_every_rollout_is_labelled_the_share_is_exact():
    shares = label_shares([Stratum(3, ["a", "a", "b"]), Stratum(1, ["b"])])
    assert [(one.label, one.low, one.share, one.high) for one in shares] == [
        ("a", 0.5, 0.5, 0.5),
        ("b", 0.5, 0.5, 0.5),
    ]


def test_intervals_of_drawn_samples_cover_the_true_share():
    """2,000 samples of 60 of a run whose cheats grow with step and reward: 95 % within 2.5 %."""
    random = np.random.default_rng(5)
    steps = np.repeat(np.arange(100), 32)
    rewards = random.random(len(steps)).round(2)
    is_cheat = random.random(len(steps)) < np.clip(steps / 200 + rewards / 4, 0, 1)
    truth, covered, shares = is_cheat.mean(), 0, []
    strata, _ = strata_of(steps, rewards, 60)
    sizes = np.bincount(strata)
    for seed in range(2000):
        places = draw(strata, 60, seed)
        labels = [
            Stratum(
                int(size), ["cheat" if is_cheat[p] else "good" for p in places[strata[places] == n]]
            )
            for n, size in enumerate(sizes)
        ]
        one = next((s for s in label_shares(labels) if s.label == "cheat"), None)
        shares.append(one.share if one else 0.0)
        covered += one is not None and one.low <= truth <= one.high
    assert np.mean(shares) == pytest.approx(truth, abs=0.005)  # unbiased
    assert 0.925 <= covered / 2000 <= 0.99


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.0, 0.5, 1.0, math.nan])), min_size=1),
    st.integers(1, 50),
    st.integers(0, 5),
)
def test_a_draw_is_without_replacement_and_reaches_every_stratum(rows, size, seed):
    steps, rewards = (np.array(column) for column in zip(*rows, strict=True))
    strata, _ = strata_of(steps, rewards.astype(float), size)
    places = draw(strata, size, seed)
    assert len({*places.tolist()}) == len(places) >= min(size, len(rows))
    assert {*strata[places].tolist()} == {*strata.tolist()}
    assert np.array_equal(places, draw(strata, size, seed))


def test_kappa_is_one_for_equal_labels_zero_for_chance_and_undefined_for_one_label():
    assert agreement("a", "b", [("x", "x"), ("y", "y")]).kappa == 1
    by_chance = [("x", "x"), ("x", "y"), ("y", "x"), ("y", "y")]
    assert agreement("a", "b", by_chance).kappa == 0
    assert math.isnan(agreement("a", "b", [("x", "x")] * 3).kappa)
    # By hand: they agree on 0.7, by chance on 0.5; (0.7 - 0.5) / (1 - 0.5) = 0.4.
    pairs = [("x", "x")] * 35 + [("x", "y")] * 15 + [("y", "x")] * 15 + [("y", "y")] * 35
    one = agreement("a", "b", pairs)
    assert one.kappa == pytest.approx(0.4)
    assert (one.n, one.equal) == (100, 70)
    assert one.kappa_low == pytest.approx((one.low - 0.5) / 0.5)
    assert one.kappa_low < 0.4 < one.kappa_high
    few = agreement("a", "b", [("x", "x"), ("y", "y")])
    assert math.isnan(few.kappa_low)
    assert few.kappa_text == "1.00 (no interval: fewer than 10 rollouts)"


STRATA = st.dictionaries(
    st.builds(RolloutKey, st.integers(0, 50), st.text(max_size=8), st.integers(0, 3)),
    st.sampled_from("abc"),
)


@given(STRATA, st.randoms())
def test_a_sample_opens_in_one_order_which_goes_through_its_strata_in_rounds(strata, random):
    order = labelling_order(strata)
    assert {*order} == {*strata}
    shuffled = random.sample([*strata], len(strata))
    assert labelling_order({key: strata[key] for key in shuffled}) == order
    for n in range(len(order)):
        begun = Counter(strata[key] for key in order[:n])
        left = Counter(strata[key] for key in order[n:])
        assert all(begun[other] + 1 >= begun[one] for one in "abc" for other in left)


def test_any_beginning_of_a_sample_is_a_uniform_part_of_it():
    """The mean step of the first n of samples of 40 of 200 steps, in standard errors of such means."""
    random = np.random.default_rng(0)
    for n in (1, 5, 20):
        errors = []
        for run in range(300):
            steps = np.sort(random.integers(0, 200, 40))
            keys = [RolloutKey(int(step), f"{run}:{i}") for i, step in enumerate(steps)]
            mean = np.mean([key.step for key in labelling_order(dict.fromkeys(keys, ""))[:n]])
            error = steps.std(ddof=1) * np.sqrt(1 / n - 1 / 40)  # without replacement
            errors.append((mean - steps.mean()) / error)
        assert abs(np.mean(errors)) < 4 / np.sqrt(300)
        assert np.var(errors) == pytest.approx(1, abs=0.35)


@pytest.mark.parametrize("labelled", [10, 20, 40])
def test_a_part_of_a_sample_estimates_the_share_of_the_run(labelled):
    """Of a run in which a label comes up half way, and more often at high rewards."""
    random = np.random.default_rng(1)
    hits, errors = 0, []
    for run in range(300):
        steps, rewards = np.repeat(np.arange(100), 16), random.random(1600)
        is_cheat = random.random(1600) < 0.02 + 0.7 * (steps >= 50) + 0.2 * rewards
        strata, _ = strata_of(steps, rewards, 40)
        keys = {RolloutKey(int(steps[at]), f"{run}:{at}"): at for at in draw(strata, 40, run)}
        order = labelling_order({key: str(strata[at]) for key, at in keys.items()})
        by_stratum = {int(number): [] for number in np.unique(strata)}
        for at in (keys[key] for key in order[:labelled]):
            by_stratum[int(strata[at])].append("cheat" if is_cheat[at] else "good")
        shares = label_shares(
            [Stratum(int((strata == one).sum()), own) for one, own in by_stratum.items()], ["cheat"]
        )
        share = next(one for one in shares if one.label == "cheat")
        hits += share.low <= is_cheat.mean() <= share.high
        errors.append(share.share - is_cheat.mean())
    assert hits >= 0.91 * 300  # three standard errors below 0.95; in the order of steps 0.4 and 0.8
    assert abs(np.mean(errors)) < 3.5 * np.std(errors) / np.sqrt(300)
