"""What a shell completes, asked of the shell itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from board import cli
from board.cli.parser import COMMANDS

ASK = """
source {script}
COMP_WORDS=({line} "{current}")
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_rollout_board
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(params=["bash", "fish"])
def completed(request, tmp_path, capsys):
    """Gives the words that a shell offers for the last word of a line."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    assert cli.main(["completion", request.param]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "my_log.jsonl").touch()

    def ask(line: str) -> set[str]:
        before, _, current = line.rpartition(" ")
        command = f"source {script}; complete -C '{line}'"
        if request.param == "bash":
            command = ASK.format(script=script, line=before, current=current)
        done = subprocess.run(
            [program, "-c", command], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stderr == ""
        return {answer.partition("\t")[0] for answer in done.stdout.split("\n")} - {""}

    return ask


def test_commands_options_and_choices_are_completed(completed):
    assert {*COMMANDS} <= completed("rollout-board ")
    assert completed("rollout-board fi") == {"findings"}
    assert completed("rollout-board steps runs/x --group") == {"--group-by-prompt"}
    assert completed("rollout-board steps runs/x --allow-any") == set()
    assert {"steps", "tokens", "time"} <= completed("rollout-board compare a b --match ")
    assert completed("rollout-board completion ba") == {"bash"}


def test_the_script_for_zsh_is_that_for_bash_by_way_of_its_own_loader(capsys, tmp_path):
    cli.main(["completion", "bash"])
    bash = capsys.readouterr().out
    cli.main(["completion", "zsh"])
    zsh = capsys.readouterr().out
    assert zsh.endswith(bash)
    program = shutil.which("zsh")
    if program is None:
        pytest.skip("zsh is not installed")
    script = tmp_path / "script"
    script.write_text(f"{zsh}\nwhence -w _rollout_board; print $_comps[rollout-board]")
    done = subprocess.run([program, "-f", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "_rollout_board: function"
    assert "_bash_complete" in done.stdout


def test_nothing_of_the_dashboard_is_needed_to_complete(tmp_path):
    code = "import sys; sys.modules.update(dict.fromkeys(['streamlit', 'pandas', 'pyarrow'])); "
    code += "from board.cli import main; sys.exit(main(['completion', 'bash']))"
    root = Path(cli.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
