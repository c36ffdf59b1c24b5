"""`verify` takes no false claim for true, and hardly any true one for false."""

from collections.abc import Iterable
from typing import Any

import human_reports
import pytest
from drawn_reports import draw_claims, write_run
from read_formats import run_at

from board.analysis.report_check import ReportCheck
from board.core.citations import citation_text, citations_in
from board.query.open_run import Run

COUNT = 400


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("reports")
    rows = write_run(folder)
    return run_at(folder), rows


def holds(check: ReportCheck, text: str) -> bool:
    results = [check.check(one) for one in citations_in(text).citations]
    return bool(results) and all(one.holds for one in results)


def judged(run: Run, pairs: Iterable[tuple[str, str]]) -> None:
    """Asserts that no false text holds, and that less than 2 % of the true ones do not."""
    check = ReportCheck(lambda name: run)
    results = [(holds(check, true), holds(check, false), true, false) for true, false in pairs]
    assert [false for _, accepted, _, false in results if accepted] == []
    refused = [true for holding, _, true, _ in results if not holding]
    assert len(refused) < 0.02 * len(results), refused[:20]


def test_no_tampered_claim_holds_and_hardly_any_true_one_is_refused(checked):
    run, rows = checked
    claims = draw_claims(rows, seed=1, count=COUNT)
    judged(run, ((claim.text, claim.tampered) for claim in claims))


def test_so_it_is_of_reports_as_people_of_several_languages_lay_them_out(tmp_path):
    rows = human_reports.write_run(tmp_path)
    reports = human_reports.draw_reports(rows, seed=1, count=COUNT)
    judged(run_at(tmp_path), ((report.true, report.false) for report in reports))


def test_a_claim_holds_among_others_as_it_does_alone(checked):
    run, rows = checked
    check = ReportCheck(lambda name: run)
    claims = draw_claims(rows, seed=2, count=60)
    for place in range(0, 60, 6):
        texts = [claim.text for claim in claims]
        texts[place] = claims[place].tampered
        results = [check.check(one) for one in citations_in("\n\n".join(texts)).citations]
        assert any(not one.holds for one in results)


def test_every_run_can_be_cited_whatever_it_is_called():
    for name in ("a b", 'a "b"', "a]b", "a\\b", 'x" step=1 rollout=2] "', "`a`", "a,b", "北 京"):
        (citation,) = citations_in(f"see {citation_text(name, step=1, rollout=2)}.").citations
        assert citation.keys == {"run": name, "step": "1", "rollout": "2"}
