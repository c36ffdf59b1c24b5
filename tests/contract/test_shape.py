"""Code stays readable: bounds of files (400 lines), functions (60) and folders (26 files), and no private
names of other modules.
"""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE_LINES = 400
FUNCTION_LINES = 60
FOLDER_FILES = 26
PACKAGES = ("board", "exporters", "rollout_board")
FILES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
TEXTS = {file: file.read_text(encoding="utf-8") for file in FILES}
TREES = {file: ast.parse(text) for file, text in TEXTS.items()}


def test_files_and_their_functions_fit_their_bounds():
    for file, text in TEXTS.items():
        assert len(text.splitlines()) <= FILE_LINES, file
        for node in ast.walk(TREES[file]):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert lines_of(node) <= FUNCTION_LINES, (file, node.name)


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines a function has without its docstring."""
    first = function.body[0]
    text = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0
    return (function.end_lineno or 0) - function.lineno + 1 - text


def test_no_module_takes_what_another_keeps_to_itself():
    private = {
        (file.relative_to(ROOT), name.name)
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if re.match("_[^_]", name.name)
    }
    assert not private


def test_a_folder_is_a_subject_of_few_files():
    counts = Counter(file.parent.relative_to(ROOT).as_posix() for file in TEXTS)
    assert {name: count for name, count in counts.items() if count > FOLDER_FILES} == {}


PRIVATE_WORDS = frozenset(
    ("told", "kept", "held", "taken", "found", "picked", "spread", "shown", "looks")
)


def test_no_name_is_a_word_that_nobody_searches_for():
    used = {
        (name, file.name)
        for file, text in TEXTS.items()
        if re.search(rf"\b({'|'.join(PRIVATE_WORDS)})\b", text)
        for node in ast.walk(TREES[file])
        for field in ("id", "name", "arg", "attr")
        if (name := getattr(node, field, None)) in PRIVATE_WORDS
    }
    assert not used
