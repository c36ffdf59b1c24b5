"""The image: its file is checked everywhere, built and run where a Docker daemon answers."""

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from read_formats import SAMPLES

from board.cli import build_parser

ROOT = Path(__file__).parents[2]
LINES = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()
INSTRUCTIONS = [tuple(line.split(maxsplit=1)) for line in LINES if line and line[0] != "#"]
IMAGE = "rollout-board-test"


def given(name: str) -> list[str]:
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def copied() -> list[str]:
    """What is copied of the source, not of another stage."""
    words = (shlex.split(rest) for rest in given("COPY"))
    return [name for *names, _ in words if not names[0].startswith("--from") for name in names]


def docker(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    command = ["docker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def test_what_is_taken_from_elsewhere_is_pinned_and_fetched_by_nothing_but_pip():
    bases = [rest.split()[0] for rest in given("FROM")]
    assert all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases)
    assert given("ADD") == []
    assert not [rest for rest in given("RUN") if re.search(r"curl|wget|git |https?://", rest)]
    assert not given("ARG")


def test_the_server_is_not_root_and_has_no_shell_before_it():
    assert given("USER")[-1] not in ("0", "root")
    order = [instruction for instruction, _ in INSTRUCTIONS]
    assert order.index("USER") > max(i for i, name in enumerate(order) if name == "RUN")
    assert json.loads(given("ENTRYPOINT")[-1]) == ["rollout-board"]


def test_what_is_copied_exists_and_is_all_that_the_build_is_sent():
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and line[0] != "#"]
    assert patterns[0] == "*"
    assert {line[1:] for line in patterns if line[0] == "!"} == set(copied())
    assert [name for name in copied() if not (ROOT / name).exists()] == []
    assert any(fnmatch("board/core/__pycache__", line) for line in patterns[1:])


def test_the_command_is_one_that_exists_on_the_port_that_is_asked_for_health():
    args = build_parser().parse_args(json.loads(given("CMD")[-1]))
    assert (args.command, args.path, args.host, args.no_browser) == (
        "serve",
        given("WORKDIR")[-1],
        "0.0.0.0",
        True,
    )
    assert given("EXPOSE") == [str(args.port)]
    assert f"http://127.0.0.1:{args.port}/_stcore/health" in given("HEALTHCHECK")[0]
    assert f"ROLLOUT_BOARD_CACHE={given('VOLUME')[0]}" in given("ENV")


@pytest.fixture
def container() -> Iterator[str]:
    """A container that shows a bundled run, mounted read-only."""
    if shutil.which("docker") is None or docker("info").returncode:
        pytest.skip("no Docker daemon answers")
    built = docker("build", "-q", "-t", IMAGE, str(ROOT), timeout=1200)
    assert built.returncode == 0, built.stderr
    mount = f"{SAMPLES / 'grpo_calculator'}:/logs/run:ro"
    started = docker("run", "-d", "--rm", "--read-only", "--tmpfs", "/tmp", "-v", mount, IMAGE)
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip()
    docker("stop", started.stdout.strip())


@pytest.mark.timeout(1500)
def test_the_image_serves_a_log_as_a_user_that_is_not_root(container):
    health = ("inspect", "-f", "{{.State.Health.Status}}", container)
    until = time.monotonic() + 120
    while docker(*health).stdout.strip() != "healthy" and time.monotonic() < until:
        time.sleep(1)
    assert docker(*health).stdout.strip() == "healthy", docker("logs", container).stdout
    assert docker("exec", container, "id", "-u").stdout.strip() == "1000"
    steps = docker("exec", container, "rollout-board", "steps", "/logs/run", "--json").stdout
    assert json.loads(steps)["rows"]
