"""What the trainer's metrics cost: reading 100 MB of each kind of file, and the Overview with 200 curves.

    python benchmarks/trainer_metrics.py [--metrics 200] [--steps 10000] [--repeats 5]

Writes a run of that many steps with 8 short rollouts each, and the same with `metrics.jsonl` of so many
metrics, opens the Overview of both in turns without a browser (AppTest), and prints the median of the
script runs after the first, and the ratio. Then reads JSON lines, CSV and event files of about 100 MB.
Needs the extra `test`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import tempfile
import time
from importlib import import_module
from pathlib import Path

from streamlit.testing.v1 import AppTest

from board.formats.metrics import metric_sources
from board.views.shared import trainer

DASHBOARD = Path(__file__).parents[1] / "board" / "views" / "dashboard.py"
MEGABYTE = 1_000_000


def write_run(folder: Path, steps: int) -> None:
    folder.mkdir(parents=True)
    with (folder / "log.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            for index in range(8):
                reward = (step * 7 + index) % 11 / 10
                line = {"step": step, "prompt": f"p{step}", "response": "r", "reward": reward}
                file.write(json.dumps(line) + "\n")


def record(step: int, metrics: int) -> dict[str, float]:
    return {f"group{n % 10}/metric{n}": (step * (n + 1) % 997) / 997 for n in range(metrics)}


def write_lines(path: Path, steps: int, metrics: int) -> None:
    with path.open("w") as file:
        for step in range(1, steps + 1):
            file.write(json.dumps({"step": step, **record(step, metrics)}) + "\n")


def write_csv(path: Path, steps: int, metrics: int) -> None:
    with path.open("w") as file:
        file.write(f"step,{','.join(record(0, metrics))}\n")
        for step in range(1, steps + 1):
            file.write(f"{step},{','.join(map(str, record(step, metrics).values()))}\n")


def write_events(path: Path, steps: int, metrics: int) -> None:
    event_class = import_module("tensorboard.compat.proto.event_pb2").Event
    with path.open("wb") as file:
        for step in range(1, steps + 1):
            for name, value in record(step, metrics).items():
                event = event_class(wall_time=1e9, step=step)
                event.summary.value.add(tag=name, simple_value=value)
                content = event.SerializeToString()
                file.write(struct.pack("<QI", len(content), 0) + content + bytes(4))


def overview(root: Path, name: str, repeats: int) -> list[float]:
    """Seconds of the script runs of the Overview after the first one."""
    os.environ["ROLLOUT_BOARD_ROOT"] = str(root)
    app = AppTest.from_file(str(DASHBOARD), default_timeout=600)
    app.query_params["run"] = name
    app.run()
    assert not app.exception
    assert app.subheader[0].value == name
    seconds: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        app.run()
        seconds.append(time.perf_counter() - began)
    return seconds


def main() -> None:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--metrics", type=int, default=200)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    trainer._WAIT_SECONDS = 600.0  # the first run of the script reads, and is not counted
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary, "runs")
        for name in ("without", "with"):
            write_run(root / name, args.steps)
        write_lines(root / "with" / "metrics.jsonl", args.steps, args.metrics)
        times: dict[str, list[float]] = {"without": [], "with": []}
        for name in ("without", "with", "without", "with"):
            times[name] += overview(root, name, args.repeats)
        middle = {name: statistics.median(seconds) for name, seconds in times.items()}
        more = middle["with"] - middle["without"]
        print(
            f"Overview, s: {middle['without']:.3f}; with {args.metrics} metrics {middle['with']:.3f}"
        )
        print(f"{more:+.3f} s, {middle['with'] / middle['without']:.2f} times")
        del os.environ["ROLLOUT_BOARD_ROOT"]  # nothing outside of it is read
        for write, name in (
            (write_lines, "m.jsonl"),
            (write_csv, "progress.csv"),
            (write_events, "events.out.tfevents.1"),
        ):
            path = Path(temporary, name)
            write(path, 200, args.metrics)
            steps = int(200 * 100 * MEGABYTE / path.stat().st_size)
            write(path, steps, args.metrics)
            (source,) = metric_sources([path], path.parent)
            began = time.perf_counter()
            source.update()
            seconds = time.perf_counter() - began
            size = path.stat().st_size / MEGABYTE
            print(
                f"{source.title}: {size:.0f} MB, {source.points.count:,} points in {seconds:.1f} s"
            )


if __name__ == "__main__":
    main()
