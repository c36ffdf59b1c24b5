"""What the documents name exists: commands, options, environment variables, files, links and anchors."""

import argparse
import re
import shlex
import tomllib
from itertools import takewhile
from pathlib import Path

import pytest
import yaml

from board.analysis.findings import default_thresholds
from board.cli import build_parser
from board.views.shared.pages import keys_of, page_of

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *GUIDES,
    *sorted((ROOT / "benchmarks").glob("*.md")),
    ROOT / "rollout_samples" / "README.md",
]
MOST_LINES_OF_A_GUIDE = 100
MOST_WORDS_OF_A_CELL = 25
FOREIGN = ("AWS_", "AZURE_", "FSSPEC_")
"""Beginnings of environment variables that libraries read, not this project."""
VARIABLE = re.compile(r"\b(?:ROLLOUT_|RAY_|HF_|AWS_|AZURE_|FSSPEC_|XDG_|STREAMLIT_)[A-Z0-9_]+\b")


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    actions = build_parser()._actions
    return next(a.choices for a in actions if isinstance(a, argparse._SubParsersAction))


def command_lines(text: str) -> list[str]:
    """Lines of code blocks, and inline code, that call rollout-board."""
    blocks = re.findall(r"^(?: {4}|\$ )?(rollout-board [^\n]*)$", text, re.M)
    return [*blocks, *re.findall(r"`(rollout-board [^`\n]+)`", text)]


def words(line: str) -> list[str]:
    """The arguments of a command line, without its comment and what follows a pipe."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>;&")
    lexer.whitespace_split = True
    return [*takewhile(lambda word: not set(word) <= set("|>;&"), lexer)][1:]


def headings(document: Path) -> set[str]:
    """Anchors of a document, as GitHub makes them."""
    lines = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.M)
    plain = (re.sub(r"[^\w\- ]", "", line.replace("`", "").lower()) for line in lines)
    return {line.strip().replace(" ", "-") for line in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_and_option_in_a_document_exists(document):
    known = commands()
    for line in command_lines(document.read_text(encoding="utf-8")):
        given = words(line)
        name = given[0] if given and given[0] in known else "serve"
        options = {option for action in known[name]._actions for option in action.option_strings}
        options |= {"--version"}
        for word in given:
            if word.startswith("-") and len(word) > 1:
                assert word.partition("=")[0] in options, f"{document.name}: {line}"


def test_every_environment_variable_in_a_document_is_read_by_the_code():
    named = {n for d in DOCUMENTS for n in VARIABLE.findall(d.read_text(encoding="utf-8"))}
    own = {name for name in named if not name.startswith(FOREIGN)}
    folders = ("board", "exporters", "tests", ".ci")
    sources = [p for f in folders for p in (ROOT / f).rglob("*") if p.suffix in (".py", "")]
    code = "\n".join(p.read_text(encoding="utf-8") for p in sources if p.is_file())
    assert own <= set(VARIABLE.findall(code)) | {"RAY_AUTH_TOKEN"}  # Ray itself reads this one


def test_every_environment_variable_that_the_board_reads_is_documented():
    code = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "board").rglob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[)"(ROLLOUT_\w+)"', code))
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    assert read <= set(VARIABLE.findall(text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document):
    text = document.read_text(encoding="utf-8")
    pattern = r"`((?:board|exporters|tests|benchmarks|rollout_samples)/[\w./-]+\.\w+)[`:]"
    for name in re.findall(pattern, text):
        if "NAME" not in name:
            assert (ROOT / name).exists(), f"{document.name}: {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_in_a_document_leads_somewhere(document):
    for target, anchor in re.findall(
        r"\]\(([^)#\s]*)(?:#([\w-]+))?\)", document.read_text(encoding="utf-8")
    ):
        if "://" in target:
            continue
        file = document.parent / target if target else document
        assert file.exists(), f"{document.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in headings(file), f"{document.name}: {target}#{anchor}"


def table_cells(text: str) -> list[str]:
    """Cells of all tables outside of code blocks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    rows = re.findall(r"^ *\|(.*)\|$", prose, re.M)
    return [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)]


@pytest.mark.parametrize("document", [ROOT / "README.md", *GUIDES], ids=lambda path: path.name)
def test_table_cells_are_phrases(document):
    cells = table_cells(document.read_text(encoding="utf-8"))
    assert not [cell for cell in cells if len(cell.split()) > MOST_WORDS_OF_A_CELL]


@pytest.mark.parametrize("document", GUIDES, ids=lambda path: path.name)
def test_a_guide_is_about_one_screen(document):
    assert len(document.read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_A_GUIDE


def code_of(text: str) -> list[str]:
    """Lines of code blocks and inline code, without comments: what no translation changes."""
    code = re.findall(r"^(?: {4}\S.*|```[^`]*?^```)$", text, re.M) + re.findall(r"`[^`\n]+`", text)
    lines = (re.sub(r"\s+# .*", "", line).strip() for block in code for line in block.splitlines())
    return [line for line in lines if line]


def test_the_chinese_readme_has_the_commands_of_the_english_until_the_tests():
    english = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Tests")[0]
    chinese = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
    blocks = [line for line in code_of(english) if not line.startswith("`") or line == "```python"]
    assert [line for line in code_of(chinese) if line in blocks] == blocks
    assert set(code_of(chinese)) <= set(code_of(english))
    assert set(re.findall(r"\]\((docs/[^)]+\.md)\)", chinese)) <= set(
        re.findall(r"\]\((docs/[^)]+\.md)\)", english)
    )


def test_every_guide_is_linked_from_another_document():
    linked = {
        (document.parent / target).resolve()
        for document in DOCUMENTS
        for target in re.findall(r"\]\(([^)#\s]+\.md)", document.read_text(encoding="utf-8"))
    }
    assert not [guide.name for guide in GUIDES if guide not in linked]


def test_the_rules_are_documented_with_their_thresholds():
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(\w+)`(?: \*)? \| .* \| (.+) \|$", text, re.M))
    assert documented == {
        rule: ", ".join(f"{name} {value:g}" for name, value in values.items())
        for rule, values in default_thresholds().items()
    }


def test_every_key_of_the_reader_is_documented():
    guides = (ROOT / "docs" / name for name in ("reader.md", "labels.md"))
    rows = re.findall(r"^\|(.+?)\|", "".join(guide.read_text() for guide in guides), re.M)
    documented = {key.lower() for row in rows for key in re.findall("`([^`]+)`", row)}
    listed = " ".join(keys for keys, _ in keys_of(page_of("rollouts"))["Reader"]).lower()
    assert not {*listed.split()} - {"…"} - documented


def test_the_changelog_is_short():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 40
    assert max(len(line.removeprefix("- ").split()) for line in lines) <= 25


def test_the_hooks_before_a_commit_are_commands_of_ci():
    """So that nobody's commit is refused by another version than the one that CI has."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    run = (ROOT / ".ci" / "run").read_text()
    assert hooks
    for hook in hooks:
        assert hook["language"] == "system"
        assert hook["entry"].split()[0] in run


def test_ci_on_every_change_runs_what_a_developer_runs():
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = flow["jobs"]["everything"]["steps"]
    assert any("bash .ci/run" in step.get("run", "") for step in steps)


def test_the_version_is_the_same_wherever_it_stands():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text()
