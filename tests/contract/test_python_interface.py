"""What scripts rely on: public names, their signatures, and that type checkers see them."""

import inspect
from dataclasses import fields
from pathlib import Path

import board
from board.api import OpenRun, Rollout

FUNCTIONS = {
    "list_runs": "(path: 'str | os.PathLike[str]') -> 'pd.DataFrame'",
    "open_run": "(path: 'str | os.PathLike[str]', source: 'str | None' = None, *, "
    "right_from: 'float | None' = None) -> 'OpenRun'",
}
METHODS = {
    "findings": "(self, *, tokens: 'bool' = True) -> 'pd.DataFrame'",
    "failures": "(self, by: \"Literal['step', 'evidence']\" = 'step') -> 'pd.DataFrame'",
    "groups": "(self, step: 'int | None' = None) -> 'pd.DataFrame'",
    "metrics": "(self) -> 'pd.DataFrame'",
    "prompts": "(self) -> 'pd.DataFrame'",
    "rollout": "(self, step: 'int', index: 'int') -> 'Rollout'",
    "rollouts": "(self, where: 'str' = '', *, columns: 'Sequence[str] | None' = None, "
    "sort: 'str' = '', descending: 'bool' = False, limit: 'int | None' = None, "
    "whole_texts: 'bool' = False) -> 'pd.DataFrame'",
    "sql": "(self, statement: 'str', timeout: 'float' = 60.0) -> 'pd.DataFrame'",
    "where": "(self, expression: 'str' = '', *, split: 'str | None' = None, "
    "envs: 'Sequence[str]' = (), steps: 'tuple[int, int] | None' = None) -> 'OpenRun'",
}
PROPERTIES = {"name": "str", "steps": "pd.DataFrame"}
ROLLOUT = {
    "step": "int",
    "index": "int",
    "file": "str",
    "line": "int",
    "facts": "Mapping[str, Any]",
    "texts": "Mapping[str, str]",
    "messages": "tuple[Mapping[str, Any], ...]",
    "tokens": "pd.DataFrame",
    "extras": "Mapping[str, Any]",
    "remarks": "tuple[str, ...]",
}
DOCUMENT = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_package_has_these_functions_and_no_others():
    own = {name for name in board.__all__ if not name.startswith("__")}
    assert own == {*FUNCTIONS, "errors"}
    assert {*dir(board)} == {*board.__all__}
    for name, signature in FUNCTIONS.items():
        assert str(inspect.signature(getattr(board, name))) == signature, name


def test_an_open_run_has_these_methods_and_no_others():
    public = {name: one for name, one in vars(OpenRun).items() if not name.startswith("_")}
    methods = {n: str(inspect.signature(m)) for n, m in public.items() if inspect.isfunction(m)}
    assert methods == METHODS
    properties = {n: one for n, one in public.items() if isinstance(one, property)}
    assert {n: one.fget.__annotations__["return"] for n, one in properties.items()} == PROPERTIES


def test_a_rollout_has_these_fields():
    assert {field.name: field.type for field in fields(Rollout)} == ROLLOUT


def test_each_name_is_documented():
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in (*FUNCTIONS, *METHODS, *PROPERTIES, *ROLLOUT):
        assert f"`{name}" in text or f".{name}" in text, name


def test_type_checkers_see_the_package():
    assert (Path(board.__file__).parent / "py.typed").is_file()
