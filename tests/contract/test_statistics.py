"""Every interval and test that is shown comes from a function whose coverage is in docs/statistics.md."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks import coverage

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "board"
DOCUMENT = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
ROOTS = {
    ("board.core.metrics.intervals", "Z"),
    ("board.core.metrics.intervals", "difference_of_estimates"),
    ("board.core.metrics.divergence", "divergence"),
    *(("board.core.metrics.distributions", n) for n in ("student_t_p", "student_t_bound")),
    *(("board.core.metrics.exact_test", n) for n in ("fisher_p", "is_fisher_below")),
    *(("board.core.groups.permutation", n) for n in ("presence_p", "number_p")),
    *(("board.core.metrics.paired", n) for n in ("sign_flip_p", "false_discovery_rates")),
    ("board.core.texts.phrases", "_beyond_chance"),
}
"""What intervals and p-values are made of."""
MEANS_ALONE = {"effect_of"}
"""Uses a function that makes intervals for its means."""
FINDINGS = "board.core.findings"
"""Its rules have thresholds, whose tables are those of benchmarks/planted_faults.py."""

METHODS = {
    *("autocorrelation", "divergence", "distributions", "exact_test", "intervals", "paired"),
    *("planned", "sample_size", "seeds", "skewed_means"),
}
"""Modules of board.core.metrics that statistics are made in: the law of ROOTS is for them."""
SPREAD = {
    *("std", "var", "nanstd", "nanvar", "cov", "corrcoef", "sqrt", "hypot", "NormalDist"),
    *("default_rng", "permutation", "permuted", "shuffle", "quantile", "percentile"),
}
SPREAD_IN_SQL = re.compile(
    r"stddev|var_(samp|pop)\(|regr_|corr\(|covar|sqrt\(|lgamma|quantile\w*\(|\bmad\("
)
BOUNDS = {1.28, 1.64, 1.645, 1.96, 2.33, 2.576, 2.58}
"""Of the normal distribution."""
HAS_A_SPREAD = {
    "analysis.report_check._StepValues": "accepts the errors that steps have, and 1.96 times them",
    "charts.curve_data._reach": "the band of mean and standard deviation, which is of rollouts",
    "charts.step_charts._bin_edges": "as many bins as the square root of the values",
    "core.failures.effect._std": "of the advantages that training has",
    "core.groups.contrasts._in_deviations": "z by which equal p are ordered",
    "core.groups.permutation.number_p": "a root",
    "core.labels.shares._quantile_bins": "strata of a sample",
    "core.labels.shares.draw": "a sample",
    "core.metrics.change_points": "the rule `change`: docs/findings_tested.md",
    "core.metrics.level_scan": "the same rule",
    "core.metrics.series_noise": "the same rule",
    "core.metrics.slopes": "the same rule",
    "core.metrics.step_means.interval_of_step_means": "listed",
    "core.metrics.trainer": "whether two means are one number, to digits; no chance in it",
    "core.texts.phrases._beyond_chance": "a root",
    "core.texts.traits": "relations and variances that the rule `change` takes as series",
    "query.advantages._advantage_fit": "how near advantages are to a formula; no chance in it",
    "query.advantages._compared": "advantages by formula",
    "query.causes.broken_answers.broken_answers": "a cause: docs/failures.md, failure_causes.py",
    "query.causes.early_ends.early_ends": "a cause: docs/failures.md, failure_causes.py",
    "query.checks._sums": "sums for the rule reward_length: docs/findings_tested.md",
    "query.compare.diverged._unpaired": "error of a step, for `divergence`",
    "query.compare.diverged._of_shared_prompts": "error of a step, for `divergence`",
    "query.compare.ends._of_rollouts": "reads a column",
    "query.compare.ends._estimate": "error of a sum of steps, for `interval_of_means`",
    "query.compare.sample_size": "variances, for `prompts_needed` and `share_of_gains`",
    "query.environments.environment_means": "error by groups, for interval_of_means and by_clusters",
    "query.facts.series._by_scope": "error of a step, for the rule `change`",
    "query.groups.group_table": "a column of a group",
    "query.predicate._FUNCTIONS": "a user's expression",
    "query.prompts.run_prompts": "volatility, which is of the steps that were seen",
    "query.sql.user_sql.create_views": "a column of a group",
    "query.steps": "columns of steps: standard deviation, quantiles, the error by groups",
    "query.tasks": "moments, for `share_interval` and `interval_by_moments`",
    "query.trainer": "whether two means are one number, to digits; no chance in it",
}
"""What has a spread in it and is no interval, or hands it to a function that is listed."""

Name = tuple[str, str]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.AST) -> dict[str, Name]:
    """By local name what a module, or a function, imports of the board."""
    names: dict[str, Name] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("board"):
            names |= {one.asname or one.name: (node.module or "", one.name) for one in node.names}
    return names


@cache
def used_by() -> dict[Name, set[Name]]:
    """What each top-level name of the board uses: names of its module, and imported ones."""
    uses: dict[Name, set[Name]] = {}
    for path in sorted(BOARD.rglob("*.py")):
        tree, module = ast.parse(path.read_text(encoding="utf-8")), module_name(path)
        names = imported(tree)
        tops: dict[str, ast.stmt] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                tops[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                tops |= {one.id: node for one in targets if isinstance(one, ast.Name)}
        known = {name: (module, name) for name in tops} | names
        for name, node in tops.items():
            found = uses.setdefault((module, name), set())
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and inner.id in known and inner.id != name:
                    found.add(known[inner.id])
                elif isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                    package, stem = names.get(inner.value.id, ("", ""))
                    found.add((f"{package}.{stem}", inner.attr))
    return uses


@cache
def makes_statistics(name: Name) -> bool:
    """Whether a name of board.core leads to an interval or a p-value."""
    seen, waiting = set[Name](), [name]
    while waiting:
        one = waiting.pop()
        if one in ROOTS:
            return True
        if one not in seen and one[0].startswith("board.core"):
            seen.add(one)
            waiting += used_by().get(one, ())
    return False


def shown() -> dict[Name, set[Name]]:
    """Names of board.core that lead to an interval or a p-value, and who uses them elsewhere."""
    users: dict[Name, set[Name]] = {}
    for user, names in used_by().items():
        if user[0].startswith(FINDINGS) or not user[0].startswith("board.core"):
            for name in names:
                in_core = name[0].startswith("board.core") and not name[0].startswith(FINDINGS)
                if in_core and makes_statistics(name):
                    users.setdefault(name, set()).add(user)
    return users


def listed() -> set[str]:
    return {name for names in coverage.MADE_BY.values() for name in names}


def test_every_function_that_makes_what_is_shown_is_listed_with_what_was_measured():
    missing = {
        f"{module}.{name}": sorted(".".join(user) for user in users)
        for (module, name), users in shown().items()
        if name not in listed() | MEANS_ALONE
        and not all(user[0].startswith(FINDINGS) for user in users)
        and not is_plain(module, name)
    }
    assert not missing


def is_plain(module: str, name: str) -> bool:
    """Whether a name is no function: a class or a constant of a result."""
    path = ROOT / Path(*module.split(".")).with_suffix(".py")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return name not in {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_no_page_makes_an_interval_of_its_own():
    primitives = {
        *("student_t", "student_t_p", "student_t_bound", "Z", "wilson_bounds", "incomplete_beta"),
        *("presence_p", "number_p", "sign_flip_p"),
    }
    of_pages = {
        (".".join(user), name)
        for user, names in used_by().items()
        if not user[0].startswith("board.core")
        for _, name in names
        if name in primitives
    }
    assert not of_pages


def spread_in(node: ast.AST) -> bool:
    """Whether code takes a spread, a root, a bound of the normal distribution, or random numbers."""
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(attr=name) | ast.Name(id=name):
                found = name in SPREAD
            case ast.Constant(value=str(text)):
                found = bool(SPREAD_IN_SQL.search(text))
            case ast.Constant(value=float(number)):
                found = number in BOUNDS
            case _:
                found = False
        if found:
            return True
    return False


def without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [
                statement
                for statement in body
                if not (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                )
            ]
    return tree


def test_who_takes_a_spread_hands_it_to_a_listed_function_or_says_why_not():
    left = set(HAS_A_SPREAD)
    unnamed: list[str] = []
    for path in sorted(BOARD.rglob("*.py")):
        module = module_name(path)
        stem = module.rpartition(".")[2]
        if module.startswith(FINDINGS) or (
            module.startswith("board.core.metrics") and stem in METHODS
        ):
            continue
        for node in without_docstrings(ast.parse(path.read_text(encoding="utf-8"))).body:
            if spread_in(node):
                name = getattr(node, "name", "") or re.split(r":| =", ast.unparse(node))[0]
                path_of_it = f"{module.removeprefix('board.')}.{name}"
                matches = [key for key in HAS_A_SPREAD if f"{path_of_it}.".startswith(f"{key}.")]
                left -= set(matches)
                unnamed += [] if matches else [path_of_it]
    assert not unnamed, (
        "list what is shown in docs/statistics.md, or say here why it is no statistic"
    )
    assert not left


@pytest.mark.parametrize(
    "code",
    [
        "def low(x): return x.mean() - 1.96 * x.std() / len(x) ** 0.5",
        "def p(x): return np.random.default_rng(0).permutation(x)",
        "def band(run): return run.table('SELECT stddev_samp(reward) FROM r')",
        "ends = np.quantile(draws, [0.025, 0.975])",
    ],
)
def test_an_interval_that_a_page_makes_is_seen(code):
    assert spread_in(ast.parse(code))


def test_what_is_listed_is_simulated_and_stands_in_the_table():
    simulated = {
        node.id
        for path in (ROOT / "benchmarks").glob("simulated*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name)
    }
    assert listed() <= simulated
    lines = [line for line in DOCUMENT.splitlines() if line.startswith("| ")]
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines}
    for what, names in coverage.MADE_BY.items():
        assert what in rows
        assert all(f"`{name}`" in rows[what] for name in names), what


def test_the_law_finds_an_interval_that_is_not_listed():
    """A check of the check: of what is shown now, something is found for each kind of root."""
    names = {name for _, name in shown()}
    assert {"paired_difference", "fisher_p", "contrasts", "divergence", "label_shares"} <= names
    assert not makes_statistics(("board.core.groups.right", "right_rule"))
