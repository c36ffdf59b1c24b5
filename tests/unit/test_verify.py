"""The command `verify`: a report that says what the log says passes, and each change of it does not."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from written_logs import native_run, write_lines

from board import cli
from board.analysis.report_check import holds_quote
from board.core.citations import citations_in

PROJECT = Path(__file__).parents[2]
OTHER = [{"step": 1, "response": "r", "reward": reward} for reward in (None, 1.0)]
HOLDING = """\
---
run: run
---
The mean was 0.650 [metric=reward_mean step=0] over 8 [metric=reward_n step=0] rollouts, of which
one wrote "<think>x<y and  y>z</think>" [step=20 rollout=3], was cut off (`length` [step=20 rollout=3
text=finish_reason]) and got 0.5 [step=20 rollout=3 metric=reward]. Its second token is " think"
[step=20 rollout=3 token=1] with -0.54 [step=20 rollout=3 token=1 metric=logprobs]. It says
"You are terse. … is 2+3" [run=run step=20 rollout=3 text=prompt]; see [step=35 rollout=0].
Half of the rollouts, 50 % [metric=rewards.correct_mean step=0 run=run], were right; nobody counted 77.
"""
Verify = Callable[..., tuple[int, Any]]


@pytest.fixture
def verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    """`verify(text)` checks a report on a run; the exit code, and the document or stderr."""
    native_run(tmp_path / "runs" / "run")
    write_lines(tmp_path / "runs" / "other" / "a.jsonl", OTHER)

    def check(text: str) -> tuple[int, Any]:
        report = tmp_path / "report.md"
        report.write_text(text, encoding="utf-8")
        code = cli.main(["verify", str(report), "--root", str(tmp_path / "runs"), "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else err

    return check


def test_a_report_that_says_what_the_log_says_holds(verify):
    code, document = verify(HOLDING)
    assert [one for one in document["rows"] if not one["holds"]] == []
    assert (code, document["holding"], document["wrong"]) == (0, 10, 0)
    assert document["uncited"] == {"numbers": 1, "quotes": 0}


@pytest.mark.parametrize(
    ("old", "new", "log"),
    [
        ("0.650", "0.651", "0.65"),
        ("over 8", "over 7", "8"),
        ("y>z</think>", "y>Z</think>", "not in its prompt, response"),
        ("`length`", "`stop`", "not in its finish_reason"),
        ("got 0.5 ", "got 0.6 ", "0.5"),
        ('" think"', '" it"', "' think'"),
        ("-0.54", "-0.55", "-0.54"),
        ("… is 2+3", "… is 2+4", "not in its prompt"),
        ("step=35 rollout=0", "step=35 rollout=8", "rollouts 0 to 7"),
        ("step=35 rollout=0", "step=36 rollout=0", "step 36 is not in run"),
        ("50 %", "51 %", "0.5"),
        ("metric=logprobs", "metric=logprob", "did you mean logprobs"),
        ("metric=reward]", "metric=reword]", "did you mean reward"),
        ("token=1 metric", "token=8 metric", "tokens 0 to 7"),
        ("run=run step=20", "run=ruin step=20", "no run 'ruin'"),
    ],
)
def test_each_change_of_it_does_not(verify, old, new, log):
    assert old in HOLDING
    code, document = verify(HOLDING.replace(old, new, 1))
    (wrong,) = (one for one in document["rows"] if not one["holds"])
    assert (code, document["wrong"]) == (1, 1)
    assert log in wrong["log"]


@pytest.mark.parametrize(
    ("written", "value", "holds"),
    [
        ("93.8 % of the responses", 0.9375, True),
        ("93.6 % of the responses", 0.9375, False),
        ("1.029 nats per token", 1.0291, True),
        ("93.8 percent", 0.9375, True),
        (".938", 0.9375, True),
        ("30/32", 0.9375, True),
        ("29/32", 0.9375, False),
        ("60 000", 60000.0, True),
        ("60k", 60400.0, True),
        ("60k", 60600.0, False),
        ("6.6 × 10²", 659.0, True),
        ("6.6 × 10²", 666.0, False),
        (">600", 601.0, True),
        (">600", 599.0, False),
        (">600", 600.0, False),
        ("≥ 600", 600.0, True),
        ("at least 0.7", 0.7, True),
        ("no more than 600", 601.0, False),
        ("–0.5", -0.5, True),
        ("–0.5", 0.5, False),
        ("0.3–0.5", 0.5, True),
        ("10⁻³", 0.001, True),
        ("10⁻³", 10.0, False),
        (r"$6.6 \times 10^{-3}$", 0.0066, True),
        ("0,938", 0.9375, True),
        ("12,5", 12.5, True),
        ("1,029", 1029.0, True),
        ("1.234,5", 1234.5, True),
        ("1'234.5", 1234.5, True),
        ("12 345,5", 12345.5, True),
        ("30 of the 32", 0.9375, True),
        ("30 out of 31", 0.9375, False),
        ("938 ‰", 938.0, False),
        ("1,60,000", 60000.0, False),
        ("1,5", 5.0, False),
    ],
)
def test_a_number_is_read_as_people_write_it(written, value, holds):
    (citation,) = citations_in(f"It was {written} [step=1 rollout=0 metric=x].").citations
    agrees = not citation.error and citation.says.agrees(value)
    assert agrees is holds


def test_what_stands_after_plus_minus_is_an_error_of_the_mean(verify):
    text = "[run=run metric=reward_mean step=0]"
    assert verify(f"0.650 ± 0.7 {text}")[0] == 1
    document = verify(f"0.650 ± 9 {text}")[1]
    errors = re.findall(r"[\d.]+", document["rows"][0]["log"].partition("±")[2])
    for error in errors:
        assert verify(f"0.650 ± {float(error):.3f} {text}")[0] == 0


@pytest.mark.parametrize(
    "text",
    [
        'It wrote "I cheat" — in words that stand between [run=run step=20 rollout=3].',
        "It wrote «I cheat» [run=run step=20 rollout=3].",
        "It wrote ‘I cheat’ [run=run step=20 rollout=3].",
        'It got 0.5 [run=run step=20 rollout=3 metric=reward] and wrote "I cheat".',
        "It got 0.5 [run=run step=20 rollout=3 metric=reward split=eval].",
        "It got 0.5 [run=run step=20 rollout=3 metric=reward env=math].",
        'It wrote "I cheat [run=run step=20 rollout=3].',
        "It wrote ‘I cheat [run=run step=20 rollout=3].",
        "It wrote »I cheat« [run=run step=20 rollout=3].",
        "It wrote 「I cheat」 [run=run step=20 rollout=3].",
        "It wrote 'I can't' [run=run step=20 rollout=3].",
        "It wrote &quot;I cheat&quot; [run=run step=20 rollout=3].",
        "It wrote <q>I cheat</q> [run=run step=20 rollout=3].",
        "It wrote «I cheat».[^1]\n\n[^1]: [run=run step=20 rollout=3]",
    ],
)
def test_what_is_made_up_beside_a_citation_does_not_hold(verify, text):
    assert verify(text)[0] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Nothing is cited, not even 5.", "no citations"),
        ("See [run=run step=20 rollout=3].", "place alone: 1"),
        ("0.5 [run=run step=20 rollout=3 metric=reward] and 7.", "numbers without a citation: 1"),
        ('0.5 [run=run step=20 rollout=3 metric=reward]. "Yes".', "quotes without a citation: 1"),
    ],
)
def test_strict_refuses_what_rests_on_nothing(verify, tmp_path, capsys, text, words):
    assert verify(text)[0] == 0
    given = ["verify", str(tmp_path / "report.md"), "--root", str(tmp_path / "runs"), "--strict"]
    assert cli.main(given) == 1
    assert words in capsys.readouterr().out


def test_what_does_not_hold_is_printed_with_its_line_and_both_sides(verify, tmp_path, capsys):
    verify(HOLDING.replace("-0.54", "-0.55"))
    report = tmp_path / "report.md"
    assert cli.main(["verify", str(report), "--root", str(tmp_path / "runs")]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"{report}:7: [run=run step=20 rollout=3 token=1 metric=logprobs]")
    assert out[1].strip() == "the report says -0.55; the log: -0.54"
    assert out[2].startswith("9 of 10 citations hold; 1 name a place alone; uncited: 1 numbers")


def test_what_is_not_recorded_does_not_hold(verify):
    text = "0 [run=other step=1 rollout=0 metric=reward], 0 [run=other metric=k3_mean step=1]"
    code, document = verify(text)
    assert code == 1
    assert [one["holds"] for one in document["rows"]] == [False, False]
    absent, unknown = (one["log"] for one in document["rows"])
    assert absent == "not recorded"
    assert "no column 'k3_mean'" in unknown


def test_a_citation_without_a_run_needs_a_root_of_one_run(verify):
    code, document = verify('"x" [step=20 rollout=3]')
    assert code == 1
    assert "names no run" in document["rows"][0]["log"]


def test_a_report_that_can_not_be_read_exits_with_2(tmp_path, capsys):
    assert cli.main(["verify", str(tmp_path / "none.md"), "--root", str(tmp_path)]) == 2
    assert "can't be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "quote", "holds"),
    [
        ("a\n  b c", "a b", True),
        ("a b c", "A b", False),
        ("one two three", "one … three", True),
        ("one two three", "three … one", False),
        ("wait...what", "wait...what", True),
        ("one two", " … ", False),
        ("anything", "", False),
    ],
)
def test_a_quote_is_in_a_text_but_for_white_space_and_what_it_leaves_out(text, quote, holds):
    assert holds_quote(text, quote) is holds


@pytest.mark.parametrize("document", ["docs/verify.md", "docs/skill/SKILL.md"])
def test_the_examples_of_the_documents_hold(document, tmp_path, capsys):
    text = (PROJECT / document).read_text(encoding="utf-8")
    (example,) = re.findall(r"^```markdown\n(.*?)^```$", text, re.M | re.S)
    (tmp_path / "report.md").write_text(example, encoding="utf-8")
    samples = str(PROJECT / "rollout_samples")
    assert cli.main(["verify", str(tmp_path / "report.md"), "--root", samples]) == 0
    hold = re.match(r"(\d+) of \1 citations hold", capsys.readouterr().out)
    assert hold
    assert int(hold[1]) > 1


def test_a_mean_is_of_the_split_and_environment_that_are_named(tmp_path, capsys):
    rows = [
        {"step": 1, "split": split, "env": env, "response": "r", "reward": reward}
        for split, env, reward in (("train", "a", 1.0), ("train", "b", 2.0), ("eval", "a", 9.0))
    ]
    write_lines(tmp_path / "run" / "a.jsonl", rows)
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1, "loss": 0.25}\n')
    cited = {"1.5": "", "1": " env=a", "9": " split=eval", "5": " split=all env=a"}
    text = "\n".join(f"{mean} [step=1 metric=reward{keys}]" for mean, keys in cited.items())
    (tmp_path / "report.md").write_text(f"{text}\n0.25 [step=1 metric=trainer/loss]")
    given = ["verify", str(tmp_path / "report.md"), "--root", str(tmp_path / "run"), "--json"]
    assert cli.main(given) == 0
    assert json.loads(capsys.readouterr().out)["holding"] == 5
