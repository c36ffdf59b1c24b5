"""A writer of rollout logs that does what writers do to them, and worse; for tests that follow it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path


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

    def act(self) -> str:
        """One change; its name."""
        actions: list[tuple[int, Callable[[Path], None]]] = [
            (30, self.append),
            (8, self.tear),
            (8, self.mend),
            (5, self.spoil),
            (4, self.end_without_newline),
            (4, self.restart),
            (3, self.new_file),
            (2, self.new_attempt),
            (2, self.rotate),
            (2, self.truncate),
            (2, self.rewrite),
            (2, self.replace),
            (1, self.delete),
            (1, self.touch),
            (1, self.edit_in_place),
            (2, self.come_to_rest),
        ]
        (action,) = self.random.choices([a for _, a in actions], [w for w, _ in actions])
        files = sorted(self.folder.glob("*.jsonl"))
        if not files:
            self.new_file(self.folder)
            return "new_file"
        action(self.random.choice(files))
        return action.__name__

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
        bad = [
            b"\n",
            b"{]\n",
            b"\xff\xfe\n",
            b"[1]\n",
            b'{"step": "x"}\n',
            b'{"type": "odd", "step": 1}\n',
        ]
        self._add(path, self.random.choice(bad))

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
        content = [
            json.dumps(header).encode() + b"\n",
            self.line(start),
            json.dumps(end).encode() + b"\n",
        ]
        (self.folder / f"native_{self.made}.jsonl").write_bytes(b"".join(content))

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
