"""The command `export`: what each choice writes, and where."""

import json
import os
import zlib
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest
from written_logs import native_run

from board import cli
from board.cli import output

Export = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return native_run(tmp_path / "logs" / "run_a")


@pytest.fixture
def export(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Export:
    """`export("--step", 0)` in an empty folder; its exit code, stdout and stderr."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    # On a busy machine a line of progress would stand before an error.
    monkeypatch.setattr(output.ProgressLine, "_QUIET_SECONDS", 3600.0)

    def run(*arguments: object) -> tuple[int, str, str]:
        code = cli.main(["export", str(folder), *map(str, arguments)])
        return code, *capfd.readouterr()

    return run


CHOICES = {
    "--step 0 --index 1": ("run_a_step0_rollout1.html", "Step 0, rollout 1 of run_a"),
    "--step 10": ("run_a_step10.html", "Step 10 of run_a"),
    "--step 10 --limit 2": ("run_a_step10.html", "2 of 8 rollouts: the lowest and highest rewards"),
    "--compare 0:0 10:1": ("run_a_0-0_10-1.html", "Step 0, rollout 0 of run_a against step 10"),
    "--where reward>0.5 --limit 3": ("run_a_rollouts.html", "Rollouts with reward&gt;0.5 of run_a"),
    "--where reward>0.5 --step 35 --env math": ("run_a_rollouts.html", "reward&gt;0.5 at step 35"),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_has_its_page_and_its_name(export, choice):
    code, out, _ = export(*choice.split())
    name, words = CHOICES[choice]
    assert (code, out) == (0, f"{name}\n")
    assert [path.name for path in Path().iterdir()] == [name]
    assert words in Path(name).read_text(encoding="utf-8")


def test_a_group_of_several_steps_needs_its_step(export):
    code, _, err = export("--group", "group 1")
    assert code == 2
    assert "at 4 steps (0, 10, 20, 35); give --step" in err
    code, out, _ = export("--group", "group 1", "--step", 20)
    assert (code, out) == (0, "run_a_group_group_1.html\n")
    assert Path(out.strip()).read_bytes().count(b"<section") == 4


def test_a_finding_is_that_of_the_list_of_findings(export, folder, capfd):
    cli.main(["findings", str(folder), "--json"])
    listed = json.loads(capfd.readouterr().out)["rows"]
    assert listed
    for place, one in {1: listed[0], len(listed): listed[-1]}.items():
        code, _, _ = export("--finding", place, "-o", f"{place}.html")
        assert code == 0
        assert one["title"] in Path(f"{place}.html").read_text(encoding="utf-8")
    assert export("--finding", listed[0]["rule"])[0] == 0
    assert export("--finding", 99)[0] == 2


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "--index 1",
        "--limit 3",
        "--step 0 --index 0 --where reward>0",
        "--step 0 --finding 1",
        "--group a --compare 0:0 0:1",
        "--step 0 --index 0 --limit 2",
        "--compare 0 1",
        "--step 99",
        "--step 0 --index 99",
        "--group none",
        "--where reward>99",
        "--where rewart>0",
        "--step 0 --metric entropi",
        "--step 0 --redact (",
        "--step 0 -o no/such/folder.html",
    ],
)
def test_a_choice_that_says_nothing_is_refused_in_a_line_and_writes_nothing(export, wrong):
    code, out, err = export(*wrong.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("rollout-board: ")
    assert not [*Path().iterdir()]


def test_stdout_holds_the_page_alone(export):
    code, out, err = export("--step", 0, "--redact", "group|math", "-o", "-")
    assert code == 0
    assert out.startswith("<!DOCTYPE html>")
    assert out.endswith("</html>\n")
    assert "matches redacted" in err
    assert not [*Path().iterdir()]


def test_a_file_that_was_there_stays_where_the_page_cannot_be_made(export):
    Path("a.html").write_text("before")
    assert export("--step", 99, "-o", "a.html")[0] == 2
    assert Path("a.html").read_text() == "before"
    assert export("--step", 0, "-o", "a.html")[0] == 0
    assert Path("a.html").read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in Path().iterdir()] == ["a.html"]


def test_interactive_pages_have_the_rollouts_of_the_choice(export):
    cut = "left out: 6 of 8 rollouts, beyond --limit\n"
    choices = {"--step 10": (8, ""), "--step 10 --limit 2": (2, cut), "--compare 0:0 10:1": (2, "")}
    for choice, (count, said) in choices.items():
        code, out, err = export(*choice.split(), "--interactive", "-o", "page.html")
        assert (code, out, err) == (0, "page.html\n", said)
        page = Path("page.html").read_text(encoding="utf-8")
        assert "script-src 'sha256-" in page
        contents = page.partition('id="contents">')[2].partition("<")[0]
        assert len(json.loads(zlib.decompress(b64decode(contents)))) == count


@pytest.mark.parametrize(
    "options",
    [
        "--step 10 --interactive --redact x",
        "--step 10 --as csv --interactive -o x.csv",
        "--step 10 --as csv",
        "--step 10 --margin 1",
        "--as dpo --redact x -o x.jsonl",
    ],
)
def test_options_of_pages_and_of_data_sets_do_not_go_together(export, options):
    code, out, err = export(*options.split())
    assert (code, out) == (2, "")
    assert err.startswith("rollout-board: ")
    assert not [*Path().iterdir()]


@pytest.mark.parametrize("kind", [["--step", "0"], ["--as", "csv", "--overwrite"]])
def test_what_is_no_file_is_not_replaced(export, kind):
    os.mkfifo("pipe")
    assert export(*kind, "-o", "pipe")[0] == 2
    assert Path("pipe").is_fifo()
    assert [*Path().iterdir()] == [Path("pipe")]


def test_a_page_does_not_take_the_place_of_a_data_set(export):
    assert export("--as", "hf", "-o", "set")[0] == 0
    code, _, said = export("--step", "0", "-o", "set")
    assert (code, Path("set/README.md").is_file()) == (2, True)
    assert "set is a folder" in said
