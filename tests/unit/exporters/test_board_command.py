"""Who starts a training is told once how its rollouts are watched."""

import shlex
from pathlib import Path

import pytest

from exporters import RolloutExporter
from exporters.launch.board_command import _ELSEWHERE


@pytest.fixture(autouse=True)
def on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*_ELSEWHERE, "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


class Subclass(RolloutExporter):
    """As an integration may have one, with settings handed on."""

    def __init__(self, out_dir: Path, **settings: object) -> None:
        super().__init__(out_dir, **{"engine": "vllm", **settings})


@pytest.mark.parametrize("kind", [RolloutExporter, Subclass])
def test_rank_0_prints_a_command_that_a_shell_takes_once(kind, tmp_path, capsys):
    folder = tmp_path / "my run's"
    with kind(folder, open_board=True) as exporter:
        for step in (1, 2):
            exporter.log(step, response_ids=[[1]])
            exporter.end_step(step)
    (line,) = capsys.readouterr().out.splitlines()
    assert shlex.split(line.partition(": ")[2]) == ["rollout-board", str(folder)]


def test_other_ranks_and_those_that_do_not_ask_print_nothing(tmp_path, capsys):
    for settings in ({"rank": 1, "world_size": 2, "open_board": True}, {"enabled": False}, {}):
        RolloutExporter(tmp_path, attempt=f"a{len(settings)}", **settings).close()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", _ELSEWHERE)
def test_on_another_machine_the_way_there_is_printed_too(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(name, "1")
    RolloutExporter(tmp_path, open_board=True).close()
    command, tunnel = capsys.readouterr().out.splitlines()
    assert command.endswith(f"rollout-board {tmp_path} --no-browser --port 8501")
    assert "ssh -N -L 8501:127.0.0.1:8501 " in tunnel


def test_a_closed_output_does_not_end_the_training(tmp_path, monkeypatch):
    class Closed:
        def write(self, text: str) -> None:
            raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr("sys.stdout", Closed())
    with RolloutExporter(tmp_path, open_board=True) as exporter:
        exporter.log(1, response_ids=[[1]])
    assert exporter.counts["records"] == 1
