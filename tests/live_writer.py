"""A writer of rollout logs that does what writers do to them, and worse; for tests that follow it."""

import json
import os
import random
from pathlib import Path

WEIGHTS = {
    "append": 30,
    "tear": 8,
    "mend": 8,
    "spoil": 5,
    "end_without_newline": 4,
    "restart": 4,
    "new_file": 3,
    "new_attempt": 2,
    "rotate": 2,
    "truncate": 2,
    "rewrite": 2,
    "replace": 2,
    "delete": 1,
    "touch": 1,
    "edit_in_place": 1,
    "come_to_rest": 2,
}
"""How often a writer does what."""


class LiveWriter:
    """Changes one file of a run's folder at a time, at random.

    edits_within: the bytes at a file's beginning in which it is edited in place; None: anywhere, which a
    follower only sees if it looks again before the file has grown.
    """

    def __init__(self, folder: Path, seed: int, edits_within: int | None = None) -> None:
        self.edits_within = edits_within
        self.folder = folder
        self.random = random.Random(seed)
        self.step = 0
        self.made = 0
        folder.mkdir(parents=True, exist_ok=True)

    def fill(self, ranks: int, steps: int, each: int, end: bytes = b"") -> Path:
        """Writes a file for each rank, with as many rollouts of every step, and `end`."""
        for rank in range(ranks):
            lines = [self.line(step) for step in range(steps) for _ in range(each)]
            (self.folder / f"rank_{rank}.jsonl").write_bytes(b"".join(lines) + end)
        return self.folder

    def act(self) -> str:
        """One change; its name."""
        (action,) = self.random.choices([*WEIGHTS], [*WEIGHTS.values()])
        files = sorted(self.folder.glob("*.jsonl"))
        if not files:
            action, files = "new_file", [self.folder]
        getattr(self, action)(self.random.choice(files))
        return action

    def line(self, step: int) -> bytes:
        """A rollout as one line, sometimes with odd keys."""
        choose = self.random
        count = choose.randint(1, 5)
        row: dict[str, object] = {
            "step": step,
            "prompt": f"p{choose.randint(0, 9)}",
            "response": "r" * choose.randint(0, 300),
            "group_id": f"g{choose.randint(0, 3)}",
            "reward": choose.choice([0.0, 0.5, 1.0, None, "bad", 2]),
            "logprobs": [round(-choose.random(), 3) for _ in range(count)],
            "ref_logprobs": [
                choose.choice([None, round(-choose.random(), 3)]) for _ in range(count)
            ],
        }
        if choose.random() < 0.3:
            row["rank"] = choose.randint(0, 2)
        if choose.random() < 0.2:
            row[f"extra{choose.randint(0, 4)}"] = choose.choice([1, 2.5, "0.25", "word", True])
        if choose.random() < 0.1:
            row["ref_reward"] = 0.25
        return json.dumps(row).encode() + b"\n"

    def lines(self) -> bytes:
        """Some rollouts of this step and perhaps the next."""
        if self.random.random() < 0.4:
            self.step += 1
        return b"".join(self.line(self.step) for _ in range(self.random.randint(1, 12)))

    def _add(self, path: Path, content: bytes) -> None:
        with path.open("ab") as file:
            file.write(content)

    def append(self, path: Path) -> None:
        self._add(path, self.lines())

    def tear(self, path: Path) -> None:
        line = self.line(self.step)
        self._add(path, line[: self.random.randint(1, len(line) - 1)])

    def mend(self, path: Path) -> None:
        self._add(path, self.random.choice([b"\n", b'"}\n', b"rubbish\n", self.lines()]))

    def spoil(self, path: Path) -> None:
        bad = (b"", b"{]", b"\xff\xfe", b"[1]", b'{"step": "x"}', b'{"type": "odd", "step": 1}')
        self._add(path, self.random.choice(bad) + b"\n")

    def end_without_newline(self, path: Path) -> None:
        self._add(path, self.lines().rstrip(b"\n"))

    def restart(self, path: Path) -> None:
        first = max(self.step - self.random.randint(1, 3), 0)
        for step in range(first, self.step + 1):
            self._add(path, b"".join(self.line(step) for _ in range(4)))

    def new_file(self, path: Path) -> None:
        self.made += 1
        (self.folder / f"rank_{self.made}.jsonl").write_bytes(self.lines())

    def new_attempt(self, path: Path) -> None:
        self.made += 1
        start = max(self.step - 2, 0)
        about = {"attempt": f"a{self.made}", "started": self.made, "start_step": start}
        header = {"type": "header", "schema": 1, "rank": 0, "world_size": 2, **about}
        end = {"type": "step_end", "step": start, "dropped": 1}
        first, last = (json.dumps(line).encode() + b"\n" for line in (header, end))
        path = self.folder / f"native_{self.made}.jsonl"
        path.write_bytes(first + self.line(start) + last)

    def rotate(self, path: Path) -> None:
        self.made += 1
        path.rename(path.with_name(f"old_{self.made}.jsonl"))
        path.write_bytes(self.lines())

    def truncate(self, path: Path) -> None:
        os.truncate(path, self.random.randint(0, path.stat().st_size))

    def rewrite(self, path: Path) -> None:
        path.write_bytes(self.lines() + (path.read_bytes() if self.random.random() < 0.5 else b""))

    def replace(self, path: Path) -> None:
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(path.read_bytes()[: self.random.randint(0, 4000)] + self.lines())
        temporary.replace(path)

    def delete(self, path: Path) -> None:
        path.unlink()

    def touch(self, path: Path) -> None:
        path.touch()

    def edit_in_place(self, path: Path) -> None:
        content = path.read_bytes()[: self.edits_within].replace(b'"p1"', b'"p2"', 1)
        with path.open("r+b") as file:
            file.write(content)

    def come_to_rest(self, path: Path) -> None:
        stat = path.stat()
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - 120 * 10**9))
