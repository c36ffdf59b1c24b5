from __future__ import annotations

import pytest

from board.analysis.own_thresholds import default_thresholds
from board.core.findings import RULES
from board.core.findings.thresholds import changed, parse
from board.errors import ChoiceError


def test_every_rule_has_a_table_and_every_table_a_rule() -> None:
    assert {rule.name for rule in RULES} == set(default_thresholds())


def test_a_file_changes_what_it_names_and_nothing_else() -> None:
    defaults = default_thresholds()
    found = changed(defaults, parse("[truncation]\nwarning = 0.1\n[kl_spike]\nenabled = false"))
    assert found["truncation"] == {**defaults["truncation"], "warning": 0.1}
    assert found["kl_spike"]["enabled"] == 0.0
    assert found["mismatch"] == defaults["mismatch"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[truncatoin]\nwarning = 1", "did you mean truncation"),
        ("[truncation]\nwarnings = 1", "did you mean warning"),
        ("[truncation]\nwarning = 'a lot'", "expected a number"),
        ("truncation = 1", "is not a table"),
        ("[truncation", "not TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named(text: str, message: str) -> None:
    with pytest.raises(ChoiceError, match=message):
        changed(default_thresholds(), parse(text))
