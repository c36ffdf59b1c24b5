from __future__ import annotations

import pytest

from board.charts.finding_charts import findings_chart
from board.charts.share_charts import Share, shares_chart
from board.core.findings.finding import Finding, Target


def test_types_beyond_seven_are_drawn_as_one_and_nothing_is_lost() -> None:
    shares = [Share(f"kind {i}", 0.1, 0.1) for i in range(10)]
    bars = shares_chart(shares, "k3", "kl", dark=True).data[0]
    assert len(bars.x) == 7
    assert sum(bars.x) == pytest.approx(100)
    assert bars.y[-1] == "4 others"


def test_a_name_of_a_type_is_not_interpreted() -> None:
    figure = shares_chart([Share("<b>x", 1.0, 1.0)], "k3", "kl", dark=False)
    assert figure.data[0].y[0] == "&lt;b&gt;x"


def finding(title: str, first: int | None, last: int | None) -> Finding:
    target = Target("health")
    return Finding("rule", "severe", title, "", first, first, last, 1.0, 0.5, "", target)


def test_a_finding_is_drawn_over_its_steps() -> None:
    figure = findings_chart([finding("<b>cut", 10, 30)], 0, 100, dark=True)
    assert figure is not None
    bar = next(trace for trace in figure.data if len(trace.x))
    assert bar.base[0] <= 10
    assert bar.base[0] + bar.x[0] >= 30
    assert bar.y[0] == "&lt;b&gt;cut"


def test_findings_of_no_step_make_no_chart() -> None:
    assert findings_chart([finding("x", None, None)], 0, 100, dark=True) is None
    assert findings_chart([], 0, 100, dark=True) is None
