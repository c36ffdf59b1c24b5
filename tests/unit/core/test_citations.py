"""Citations in a report: what is one, what it is of, and when a number is the one in the log."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.citations import Citation, Number, citation_text, citations_in


def only(markdown: str) -> Citation:
    (citation,) = citations_in(markdown).citations
    return citation


PLACE = "[run=a step=1 rollout=2]"


@pytest.mark.parametrize(
    ("markdown", "quote"),
    [
        (f'He said "x = 4" {PLACE}.', "x = 4"),
        (f"“a ‘b’ c” {PLACE}", "a ‘b’ c"),
        (f"it wrote `\\frac{{1}}{{2}}` {PLACE}", "\\frac{1}{2}"),
        (f"``a `b` c`` {PLACE}", "a `b` c"),
        (f'"say \\"hi\\" twice" {PLACE}', 'say "hi" twice'),
        (f'**"bold"** {PLACE}', "bold"),
        (f'"over\ntwo lines"\n{PLACE}', "over\ntwo lines"),
        (f'("in brackets" {PLACE})', "in brackets"),
        (f'It ended with "done". {PLACE}', "done"),
        (f'"with a link" {PLACE}(/rollouts?run=a)', "with a link"),
        (f'"as code" `{PLACE}`', "as code"),
    ],
)
def test_a_quote_before_a_citation_is_what_it_is_of(markdown, quote):
    assert only(markdown).says == quote
    assert not only(markdown).error


def test_every_quote_of_a_sentence_is_of_a_citation():
    said = citations_in(f'"a" but «b» {PLACE} and "c". "d" is alone.')
    assert [one.says for one in said.citations] == ["a", "b", "c"]
    assert said.quotes == 1


MEAN = "[run=a metric=reward_mean step=3]"


@pytest.mark.parametrize(
    ("text", "value", "digits"),
    [
        ("0.83", "0.83", 2),
        ("from 0.5 to -0.25", "-0.25", 2),
        ("−1.5", "-1.5", 1),
        ("12,345", "12345", 0),
        ("1.20e-3", "0.00120", 5),
        ("**7**", "7", 0),
        ("6.50 nats", "6.50", 2),
        ("83 %", "83", 0),
    ],
)
def test_a_number_before_a_citation_with_a_metric_is_what_it_is_of(text, value, digits):
    says = only(f"the reward was {text} {MEAN}").says
    assert isinstance(says, Number)
    assert (says.value, says.digits) == (Decimal(value), digits)


def test_a_number_without_a_metric_is_no_claim():
    assert only(f"see rollout 2 {PLACE}").says is None


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12),
    st.integers(0, 9),
)
def test_a_number_rounded_to_any_digits_agrees_and_one_digit_off_does_not(value, digits):
    number = only(f"{value:.{digits}f} {MEAN}").says
    assert isinstance(number, Number)
    assert number.agrees(value)
    off = 1.6 * 10.0**-digits
    if abs(value) * 1e-14 < off:
        assert not number.agrees(value + off)


def test_a_percentage_is_of_a_share():
    says = only(f"83.5 % {MEAN}").says
    assert isinstance(says, Number)
    assert says.agrees(0.8349)
    assert not says.agrees(0.83)


characters = st.characters(exclude_characters='"', exclude_categories=("C", "Zl", "Zp"))
names = st.text(characters, min_size=1)


@given(names)
def test_what_is_written_as_a_citation_is_read_as_it(name):
    text = citation_text(name, step=3, rollout=0, token=17, metric="k3")
    keys = only(f"0.5 {text}").keys
    assert keys == {"run": name, "step": "3", "rollout": "0", "token": "17", "metric": "k3"}


def test_fenced_code_and_other_brackets_are_no_citations():
    report = citations_in(f"[a link](b) [x] [note=1]\n```\n0.5 {MEAN}\n```\n~~~\n{PLACE}\n~~~\n")
    assert report.citations == ()


def test_the_front_matter_names_the_run_of_citations_that_name_none():
    report = citations_in(f"---\ntitle: t\nrun: own\n---\n\n1 [metric=k3 step=2]\n2 {MEAN}\n")
    assert [one.keys["run"] for one in report.citations] == ["own", "a"]
    assert [one.line for one in report.citations] == [6, 7]


def test_what_cites_nothing_is_counted():
    report = citations_in(f'A "quote" alone. Of 4 words 0.5 {MEAN}, "cited" {PLACE} and 7.')
    assert (report.numbers, report.quotes) == (2, 1)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("step=1 rollout=2 tokn=3", "tokn is no key"),
        ("step=1 rollout=x", "rollout=x is not a whole number"),
        ("run=a rollout=2", "names no step"),
        ("run=a step=2", "neither a rollout nor a metric"),
        ("step=2 token=3 metric=k3", "no rollout"),
        ("step=2 metric=k3 run=a", "no number"),
    ],
)
def test_a_citation_that_can_not_be_read_says_why(keys, words):
    text = "0.5:" if "token" in keys else "the text"
    assert words in only(f"{text} [{keys}]").error


@pytest.mark.parametrize("text", ['"a "b" c"', 'no begin"', "no begin”", f'"{"long " * 1000}"'])
def test_a_quote_whose_beginning_is_not_clear_is_an_error_and_no_shorter_quote(text):
    citation = only(f"He wrote {text} {PLACE}")
    assert citation.says is None
    assert "can't be read" in citation.error
