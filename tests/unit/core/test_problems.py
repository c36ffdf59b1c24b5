import pytest

from board.core.problems import Problem, ProblemLog, count_of


def test_problems_of_one_kind_fold_into_one_with_its_first_line_and_a_count():
    log = ProblemLog(Problem("a", line, "step", "step is missing") for line in (7, 3, 9))
    assert log.as_tuple() == (Problem("a", 3, "step", "step is missing", count=3),)
    assert log.as_tuple()[0].lines == (3, 7, 9)


def test_of_very_many_lines_the_first_thousand_are_named():
    log = ProblemLog(Problem("a", line, None, "x") for line in range(5000, 0, -1))
    (result,) = log.as_tuple()
    assert (result.count, result.line, result.lines) == (5000, 1, tuple(range(1, 1001)))


def test_problems_of_other_files_fields_or_reasons_stay_apart():
    kinds = (("a", "step", "x"), ("b", "step", "x"), ("a", None, "x"), ("a", "step", "y"))
    assert len(ProblemLog(Problem(path, 1, field, reason) for path, field, reason in kinds)) == 4


@pytest.mark.parametrize(
    ("places", "where", "count"),
    [([(None, 1), (None, 1)], "a", 2), ([(4, 5), (2, 2)], "a:2", 7)],
    ids=["of a whole file", "folded before"],
)
def test_counts_add_up_at_the_first_line_if_there_is_one(places, where, count):
    log = ProblemLog(Problem("a", line, None, "x", count=n) for line, n in places)
    assert [(p.where, p.count) for p in log] == [(where, count)]


def test_the_worst_problems_come_first():
    log = ProblemLog(
        [
            Problem("a", 1, None, "n", severity="note"),
            Problem("a", 9, None, "p", severity="partial"),
            Problem("b", 1, None, "l"),
        ]
    )
    assert [p.reason for p in log] == ["l", "p", "n"]


def test_count_of_counts_lines_of_one_severity():
    problems = [Problem("a", 1, None, "x", count=3), Problem("a", 1, None, "y", severity="note")]
    assert count_of(problems, "lost") == 3
    assert count_of(problems, "partial") == 0
