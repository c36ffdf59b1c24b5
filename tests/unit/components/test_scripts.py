"""Scripts of all components: none can turn text into markup, and each is loaded."""

import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

import board.components

FOLDER = Path(board.components.__file__).parent
SCRIPTS = sorted(FOLDER.rglob("*.js"))
MARKUP_SINKS = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc")
OWN_MARKUP = "element.innerHTML = MENU_HTML; // our own words: no text of a log is in it"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_script_has_no_way_to_turn_text_into_markup(script):
    source = script.read_text(encoding="utf-8").replace(OWN_MARKUP, "")
    assert [sink for sink in MARKUP_SINKS if sink in source] == []


COMPONENTS = ("reader", "curve_grid", "comparison", "filter_field", "rollout_list", "run_table")


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_script_part_is_loaded(component):
    module = import_module(f"board.components.{component}")
    loaded = {*module._SCRIPTS, *getattr(module, "_BAR_SCRIPTS", ())}
    assert {path.stem for path in (FOLDER / component / "js").glob("*.js")} <= loaded


@pytest.mark.parametrize("component", [*COMPONENTS, "small_charts", "page_frame"])
def test_no_function_is_declared_twice_in_one_module(component, monkeypatch):
    modules: list[str] = []
    monkeypatch.setattr(board.components, "component", lambda *_, js, **__: modules.append(js))
    runpy.run_path(str(FOLDER / component / "__init__.py"))
    assert modules
    for module in modules:
        names = re.findall(r"^(?:async )?function (\w+)", module, re.MULTILINE)
        assert len(names) == len({*names})
