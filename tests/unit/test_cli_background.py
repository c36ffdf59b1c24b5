"""`open --background` returns with the address of a dashboard that answers, or with why there is none."""

import json
import os
import signal
import time
import urllib.request

import pytest
from written_logs import write_lines as write

from board import cli

# That is what it is for.
pytestmark = pytest.mark.filterwarnings(
    "ignore:subprocess .* is still running:ResourceWarning",
    "ignore:.*Popen.__del__.*:pytest.PytestUnraisableExceptionWarning",
)


def is_alive(process):
    """Whether it runs; one that ended is taken note of, as it is a child of this process here."""
    return os.waitpid(process, os.WNOHANG) == (0, 0)


def test_it_returns_once_the_dashboard_answers_which_goes_on_until_it_is_stopped(tmp_path, capfd):
    write(tmp_path / "run" / "rollouts.jsonl", [{"step": 1, "response": "a", "reward": 1.0}])
    assert cli.main(["open", str(tmp_path), "--background", "--json", "--no-browser"]) == 0
    (answer,) = json.loads(capfd.readouterr().out)["rows"]
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{answer['url']}/_stcore/health", timeout=20) as health:
            assert health.status == 200
        assert answer["root"] == str(tmp_path)
        assert is_alive(answer["pid"])
    finally:
        os.kill(answer["pid"], signal.SIGTERM)
    deadline = time.monotonic() + 60
    while is_alive(answer["pid"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_why_the_dashboard_did_not_start_is_said_and_nothing_is_left_behind(tmp_path, capsys):
    thresholds = tmp_path / "thresholds.toml"
    thresholds.write_text("no = [toml")
    (tmp_path / "run").mkdir()
    arguments = ["open", str(tmp_path), "--background", f"--thresholds={thresholds}"]
    assert cli.main(arguments) == 2
    assert "thresholds.toml" in capsys.readouterr().err
