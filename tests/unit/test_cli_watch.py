"""What `watch` tells of a run that is trained: each thing once, to whom was asked and to nobody else."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from written_logs import write_lines as write

from board import cli

# Apprise imports it before Python 3.13.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.fixture
def service():
    """A service that Apprise can send to: its URL, what arrived, and a switch to refuse."""
    arrived, refuses = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not refuses.is_set():
                arrived.append(json.loads(body))
            self.send_response(500 if refuses.is_set() else 200)
            self.end_headers()

        def log_message(self, format, *args):  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"json://127.0.0.1:{server.server_port}/secret-path", arrived, refuses
    server.shutdown()
    server.server_close()


def log_of(folder, failed_from=None, steps=12, size=20):
    """A log whose tools break in a quarter of the rollouts from a step on."""
    folder.mkdir(exist_ok=True)
    lines = []
    for step in range(1, steps + 1):
        for index in range(size):
            fails = failed_from is not None and step >= failed_from and index % 4 == 0
            line = {"step": step, "prompt": f"Q{index}", "reward": float(index % 2) * (not fails)}
            line |= {"error": "ConnectionResetError: peer"} if fails else {}
            lines.append(line | {"response": "" if fails else f"answer {step} {index}"})
    write(folder / "rollouts.jsonl", lines)
    return folder


def watch(*arguments):
    return cli.main(["watch", *map(str, arguments), "--once"])


def test_nothing_is_sent_where_no_service_is_named(tmp_path, service, capsys):
    run = log_of(tmp_path / "run", failed_from=4)
    assert watch(run, "--failures", "0.1") == 1
    assert "failed" in capsys.readouterr().out
    assert service[1] == []


def test_an_alert_is_sent_once_with_a_link_and_said_again_only_after_it_ended(
    tmp_path, service, capsys
):
    url, arrived, _ = service
    options = ("--failures", "0.1", "--notify", url, "--base", "http://board:8501")
    run = log_of(tmp_path / "run", failed_from=4)
    for _ in range(2):
        assert watch(run, *options) == 1
    said = capsys.readouterr()
    failures = [m for m in arrived if "more than 10 %" in m["title"]]
    assert len(failures) == 1
    assert failures[0]["title"].startswith("run: steps 3 to 12")
    assert "Infrastructure failed in" in failures[0]["message"]
    link = "http://board:8501/findings?run=run&findings_part=failures"
    assert link in failures[0]["message"]
    assert f"sends to json://127.0.0.1:{url.rpartition(':')[2].split('/')[0]}" in said.err
    (run / "rollouts.jsonl").unlink()
    log_of(run)  # mended, and broken once more
    assert watch(run, *options) == 0
    (run / "rollouts.jsonl").unlink()
    log_of(run, failed_from=3)
    assert watch(run, *options) == 1
    assert len([m for m in arrived if "more than 10 %" in m["title"]]) == 2


def test_an_alert_that_did_not_arrive_is_sent_again(tmp_path, service, capsys):
    url, arrived, refuses = service
    run = log_of(tmp_path / "run", failed_from=4)
    refuses.set()
    assert watch(run, "--failures", "0.1", "--notify", url) == 1
    assert "could not be sent" in capsys.readouterr().err
    refuses.clear()
    assert watch(run, "--failures", "0.1", "--notify", url) == 1
    assert any("more than 10 %" in m["title"] for m in arrived)


def test_silence_is_told_of_a_log_that_nobody_ended(tmp_path, capsys):
    run = log_of(tmp_path / "run")
    assert watch(run, "--silent", "5") == 0
    old = time.time() - 3600
    os.utime(run / "rollouts.jsonl", (old, old))
    assert watch(run, "--silent", "5") == 1
    assert "no rollout for more than 5 min" in capsys.readouterr().out


@pytest.mark.parametrize("url", ["nothing", "slack://", "unknown://host"])
def test_a_service_that_is_none_is_refused_without_its_secrets(tmp_path, url, capsys):
    run = log_of(tmp_path / "run")
    assert watch(run, "--notify", f"{url}?token=hidden" if "://" in url else url) == 2
    said = capsys.readouterr().err
    assert "--notify" in said
    assert "hidden" not in said
