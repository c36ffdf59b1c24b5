"""A run followed while another process writes to it ends as the run that is opened anew.

ROLLOUT_BOARD_SOAK=600 pytest -s tests/unit/index/test_soak.py    follows for ten minutes, not seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_following import opened_anew, same

from board.index.discovery.discovered_runs import discover
from board.index.discovery.run_info import AT_REST_SECONDS
from board.query.open_run import Follower

SECONDS = float(os.environ.get("ROLLOUT_BOARD_SOAK", "4"))
POLL = 2.0 if SECONDS > 60 else 0.2
WRITE = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from live_writer import LiveWriter
writer = LiveWriter(Path(sys.argv[1]), int(sys.argv[2]), edits_within=4096)
print("writes", flush=True)
end = time.monotonic() + float(sys.argv[4])
while time.monotonic() < end:
    try:
        writer.act()
    except FileNotFoundError:
        pass
    writer.random.random() < 0.9 or time.sleep(writer.random.random() * 0.3)
    len(list(writer.folder.iterdir())) < 40 or writer.delete(sorted(writer.folder.glob("*.jsonl"))[0])
print(writer.made, flush=True)
"""


def about_to_rest(folder: Path) -> bool:
    """Whether the end of a file may count as torn in the second of two looks and not in the first."""
    ages = (time.time() - file.stat().st_mtime for file in folder.glob("*.jsonl"))
    return any(AT_REST_SECONDS - 5 < age < AT_REST_SECONDS + 1 for age in ages)


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_a_run_written_by_another_process_is_followed_to_the_truth(tmp_path):
    folder = tmp_path / "run"
    tests = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", WRITE, str(folder), "3", tests, str(SECONDS)]
    follower = Follower(persist=True)
    polls = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writes\n"
        while writer.poll() is None:
            for info in discover(folder).runs:
                run = follower.run(info)
                assert run.rollout_count == len(run.rollouts)
                polls += 1
            time.sleep(POLL)
    while about_to_rest(folder):
        time.sleep(0.5)
    for info in discover(folder).runs:
        same(follower.run(info), opened_anew(folder))
        print(f"{polls} looks in {SECONDS:g} s; {info.bytes:,} bytes in {len(info.files)} files")
    assert polls > 2
