"""Which planted faults are found, where, and what else is raised: the tables of docs/findings.md.

python benchmarks/planted_faults.py          prints the tables
python benchmarks/planted_faults.py --write  writes them into docs/findings.md
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]

# The path above is set while running; pyright does not know of it.
from faults.plant import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    FAULTS,
    Fault,
    clean,
)

from board.core.findings import RULES  # noqa: E402
from board.core.findings.finding import SEVERITIES, Finding  # noqa: E402
from board.store.discovery import discover  # noqa: E402
from board.store.findings import Diagnosis, default_thresholds, diagnose  # noqa: E402
from board.store.run import open_run  # noqa: E402

DOCUMENT: Final = PROJECT / "docs" / "findings.md"
CLEAN: Final = ("grpo_arithmetic", "ppo_critic", "resumed")
SAMPLES: Final = (*CLEAN, "grpo_reward_hack")


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    tables = {"rules": [*rules()], "faults": [*faults()], "runs": [*runs()]}
    for name, lines in tables.items():
        text = "\n".join(lines)
        print(f"\n{text}")
        if args.write:
            _write(name, text)


def _write(name: str, text: str) -> None:
    begin, end = f"<!-- {name}: benchmarks/planted_faults.py -->\n", f"<!-- end {name} -->"
    whole = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = whole.partition(begin)
    after = rest.partition(end)[2]
    DOCUMENT.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")


def rules() -> Iterator[str]:
    """Every rule with what it says of itself and its thresholds."""
    thresholds = default_thresholds()
    yield "| rule | what it looks for | thresholds |"
    yield "|---|---|---|"
    for rule in RULES:
        told = inspect.getdoc(rule.look) or ""
        what = told.split("\n\n")[0].replace("\n", " ")
        numbers = ", ".join(f"{name} {value:g}" for name, value in thresholds[rule.name].items())
        yield f"| `{rule.name}`{' *' if rule.needs_tokens else ''} | {what} | {numbers} |"


def faults() -> Iterator[str]:
    """Every planted fault, and what is found of it."""
    yield "| fault | planted | from step | found by | severity | first step | evidence | false alarms |"
    yield "|---|---|---|---|---|---|---|---|"
    for fault in FAULTS:
        log = clean()
        fault.plant(log)
        with tempfile.TemporaryDirectory() as folder:
            yield _row(fault, _diagnosed(log.write(Path(folder) / "run")))


def _row(fault: Fault, found: Diagnosis) -> str:
    own = next(
        (
            f
            for f in found.findings
            if f.rule == fault.rule
            and f.first_step is not None
            and fault.first - fault.early <= f.first_step <= fault.first + fault.late
        ),
        None,
    )
    false = sorted(
        {f.rule for f in found.findings if f.severity == "severe"} - {fault.rule, *fault.also}
    )
    cells = ("**not found**", "-", "-", "-") if own is None else _told(own)
    return (
        f"| {fault.name} | {fault.what} | {fault.first} | {' | '.join(cells)} | "
        f"{', '.join(false) or 'none'} |"
    )


def _told(found: Finding) -> tuple[str, str, str, str]:
    places = [
        f"{e.index}" if e.position is None else f"{e.index}:{e.position}" for e in found.evidence
    ]
    return f"`{found.rule}`", found.severity, f"{found.first_step}", ", ".join(places) or "-"


def runs() -> Iterator[str]:
    """The bundled runs as they are."""
    yield "| run | rollouts | severe | warning | lead |"
    yield "|---|---|---|---|---|"
    for name in SAMPLES:
        found = _diagnosed(PROJECT / "rollout_samples" / name)
        by = [_of(found, severity) for severity in SEVERITIES]
        yield f"| `{name}` | {found.rollouts_read} | {' | '.join(by)} |"


def _of(found: Diagnosis, severity: str) -> str:
    rules = [f.rule for f in found.findings if f.severity == severity]
    counts = {rule: rules.count(rule) for rule in dict.fromkeys(rules)}
    return ", ".join(f"{rule} x {n}" if n > 1 else rule for rule, n in counts.items()) or "none"


def _diagnosed(folder: Path) -> Diagnosis:
    (info,) = discover(folder).runs
    return diagnose(open_run(info))


if __name__ == "__main__":
    main()
