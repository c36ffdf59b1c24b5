import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def loaded_by(statement: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after the statement."""
    code = f"{statement}\nimport sys; print(*sorted({{n.partition('.')[0] for n in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    return set(done.stdout.split())


def test_the_exporter_loads_nothing_of_the_dashboard_and_a_framework_only_when_asked():
    heavy = {"streamlit", "pandas", "plotly", "board", "torch", "transformers", "trl"}
    assert loaded_by("import exporters").isdisjoint(heavy)
    assert "torch" in loaded_by("from exporters import check_alignment")


def test_store_and_charts_load_neither_streamlit_nor_a_training_framework():
    loaded = loaded_by("import board.query.open_run, board.analysis.rollout, board.charts")
    assert loaded.isdisjoint({"streamlit", "torch", "transformers", "ray"})


def test_the_command_line_parses_without_the_dashboard_s_packages():
    loaded = loaded_by("import board.cli; board.cli.build_parser()")
    assert loaded.isdisjoint({"streamlit", "pandas", "plotly", "torch"})


def test_commands_that_print_data_do_without_streamlit():
    loaded = loaded_by("from board.cli.commands import analysis, discovery, index, query, serve")
    assert loaded.isdisjoint({"streamlit", "plotly", "torch", "ray"})


@pytest.mark.skipif(
    importlib.util.find_spec("importlinter") is None, reason="import-linter is not installed"
)
def test_imports_run_in_one_direction():
    program = "import sys; from importlinter.cli import lint_imports_command as run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"], capture_output=True, text=True, cwd=PROJECT
    )
    assert done.returncode == 0, done.stdout + done.stderr
