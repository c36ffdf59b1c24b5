"""Which planted faults are found, where, and what else is raised: the tables of the findings' documents.

python benchmarks/planted_faults.py                     prints the tables
python benchmarks/planted_faults.py --write             writes them into these documents

--families N: N runs of each family of faults and of honest runs besides, which takes some minutes.
--held-out RUN ...: plants the faults in runs of your own besides, folders of the native format with 30
steps or more. --logs FOLDER ...: looks over logs of any format besides.
"""

from __future__ import annotations

import argparse
import inspect
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]

import fault_families  # noqa: E402

# The path above is set while running; pyright does not know of it.
from faults.judge import Verdict, opened, verdict_on  # noqa: E402  # pyright: ignore[reportMissingImports]
from faults.plant import FAULTS, Fault  # noqa: E402  # pyright: ignore[reportMissingImports]
from faults.scene import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    LATER,
    SAMPLES,
    TUNED,
    Scene,
    clean,
)

from board.analysis.findings import (  # noqa: E402
    Diagnosis,
    default_thresholds,
    diagnose,
)
from board.core.findings.finding import SEVERITIES, Finding  # noqa: E402
from board.core.findings.rules import RULES  # noqa: E402
from board.index.discovery.discovered_runs import discover  # noqa: E402
from board.query.open_run import open_run  # noqa: E402

DOCUMENTS: Final = (
    PROJECT / "docs" / "findings.md",
    PROJECT / "docs" / "findings_tested.md",
    PROJECT / "benchmarks" / "FINDINGS.md",
)
RUNS: Final = ("grpo_arithmetic", "ppo_critic", "resumed", "grpo_reward_hack")
HELD_OUT: Final = (
    LATER,
    Scene(first=60, last=99, at=83, seed=2, size=0.7),
    Scene(first=111, last=150, at=130, seed=3, size=1.5),
    Scene(run=SAMPLES / "ppo_critic", first=5, last=50, at=31, seed=4),
)
"""Other steps, seeds and sizes than those that thresholds were chosen on."""
FORMATS: Final = PROJECT / "tests" / "formats" / "data"


HEADINGS: Final = ("planted", "found", "at the right step", "right evidence")


@dataclass(frozen=True)
class Totals:
    """What is found of one fault in the held-out scenes: how often at all, at the right step, with the
    right rollouts and tokens; where not; severe findings of other rules.
    """

    fault: Fault
    planted: int
    result: int
    at_step: int
    named: int
    message: Sequence[str]
    others: Sequence[str]


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--families", type=int, default=0, metavar="N")
    parser.add_argument("--held-out", nargs="*", type=Path, default=[], metavar="RUN")
    parser.add_argument("--logs", nargs="*", type=Path, default=[], metavar="FOLDER")
    parser.add_argument("--tables", nargs="*", help="those alone, by the names in the document")
    args = parser.parse_args()
    scenes = (*HELD_OUT, *(_of_run(run, seed) for seed, run in enumerate(args.held_out, 5)))
    tables = {
        "rules": rules(),
        "faults": faults(),
        "held_out": held_out(scenes),
        "runs": runs(),
        "held_out_runs": held_out_runs(args.held_out),
        "formats": formats([FORMATS, *args.logs]),
    }
    if args.families:
        found = fault_families.results(args.families)
        tables |= {
            "sizes": fault_families.by_size(found),
            "families": fault_families.by_family(found),
            "honest": fault_families.false_alarms(found),
        }
    for name in args.tables or tables:
        text = "\n".join(tables[name])
        print(f"\n{text}")
        if args.write:
            _write(name, text)


def _of_run(run: Path, seed: int) -> Scene:
    """The whole of a run, with the fault a little after its middle."""
    steps = opened(run).steps["step"]
    first, last = int(steps.min()), int(steps.max())
    return Scene(run=run, first=first, last=last, at=first + (last - first) * 5 // 8, seed=seed)


def _write(name: str, text: str) -> None:
    begin, end = f"<!-- {name}: benchmarks/planted_faults.py -->\n", f"<!-- end {name} -->"
    document = next(path for path in DOCUMENTS if begin in path.read_text(encoding="utf-8"))
    whole = document.read_text(encoding="utf-8")
    before, _, remainder = whole.partition(begin)
    after = remainder.partition(end)[2]
    document.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")


def rules() -> Iterator[str]:
    """Every rule with the first sentence of its docstring and its thresholds."""
    thresholds = default_thresholds()
    yield "| rule | what it looks for | thresholds |"
    yield "|---|---|---|"
    for rule in RULES:
        summary = (inspect.getdoc(rule.check) or "").split("\n\n")[0].replace("\n", " ")
        what = summary.split(". ")[0].removesuffix(".") + "."
        numbers = ", ".join(f"{name} {value:g}" for name, value in thresholds[rule.name].items())
        yield f"| `{rule.name}`{' *' if rule.needs_tokens else ''} | {what} | {numbers} |"


def faults() -> Iterator[str]:
    """Every fault, planted in the run that thresholds were chosen on, and what is found of it."""
    yield (
        "| fault | planted | right step | found by | severity | first step | right evidence | evidence | "
        "false alarms |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for fault in FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            verdict = verdict_on(fault, Path(folder), TUNED, tokens=True)
        step = f"{verdict.planted.step}{' (grows)' if fault.is_gradual else ''}"
        yield (
            f"| {fault.name} | {fault.what} | {step} | {' | '.join(_answer_cells(verdict))} | "
            f"{', '.join(sorted(verdict.others)) or 'none'} |"
        )


def _answer_cells(verdict: Verdict) -> tuple[str, ...]:
    own = verdict.own
    if own is None:
        return ("**not found**", "-", "-", "-", "-")
    visible = ", ".join(_place(own, i) for i in range(len(own.evidence))) or "-"
    return (
        f"`{own.rule}`",
        own.severity,
        f"{own.first_step}",
        "yes" if verdict.named else "**no**",
        visible,
    )


def _place(result: Finding, i: int) -> str:
    """Step/rollout:token; the step only where it is not the finding's worst one."""
    one = result.evidence[i]
    step = "" if one.step == result.step else f"{one.step}/"
    token = "" if one.token is None else f":{one.token}"
    return f"{step}{one.index}{token}"


def held_out(scenes: Sequence[Scene]) -> Iterator[str]:
    """Every fault in every scene that thresholds were not chosen on."""
    yield f"| fault | {' | '.join(HEADINGS)} | where not | false alarms |"
    yield "|---|---|---|---|---|---|---|"
    tallies = [_tally(fault, scenes) for fault in FAULTS]
    for one in tallies:
        yield (
            f"| {one.fault.name} | {one.planted} | {one.result} | {one.at_step} | {one.named} | "
            f"{'; '.join(one.message) or '-'} | {'; '.join(one.others) or 'none'} |"
        )
    sums = [sum(getattr(t, n) for t in tallies) for n in ("planted", "result", "at_step", "named")]
    alarms = sum(len(one.others) for one in tallies)
    yield f"| **all** | {' | '.join(f'**{n}**' for n in sums)} | | **{alarms}** |"


def _tally(fault: Fault, scenes: Sequence[Scene]) -> Totals:
    message: list[str] = []
    others: list[str] = []
    all_hits: list[tuple[bool, bool, bool, bool]] = []
    for scene in scenes:
        if not fault.fits(clean(scene)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            verdict = verdict_on(fault, Path(folder), scene, tokens=True)
        all_hits.append((True, verdict.own is not None, verdict.is_at, verdict.named))
        where = f"{scene.run.name} {scene.first}-{scene.last}"
        if verdict.own is None:
            message.append(f"{where}: not found")
        elif not verdict.is_at:
            message.append(f"{where}: {verdict.own.first_step} for {verdict.planted.step}")
        others += [f"{rule} in {where}" for rule in sorted(verdict.others)]
    planted, result, at_step, named = (
        sum(hits[i] for hits in all_hits) for i in range(len(HEADINGS))
    )
    return Totals(fault, planted, result, at_step, named, message, others)


def runs() -> Iterator[str]:
    """The bundled runs as they are."""
    yield from _runs([SAMPLES / name for name in RUNS])


def held_out_runs(others: Sequence[Path]) -> Iterator[str]:
    """Runs, and parts of runs, that thresholds were not chosen on, as they are."""
    yield "| run | rollouts | severe | warning | lead |"
    yield "|---|---|---|---|---|"
    for scene in (s for s in HELD_OUT if s.run.name == "grpo_arithmetic"):
        with tempfile.TemporaryDirectory() as folder:
            result = _diagnosed(clean(scene).write(Path(folder) / "run"))
        yield _row(f"`{scene.run.name}`, steps {scene.first} to {scene.last} alone", result)
    for run in others:
        yield _row(f"`{run.name}`", _diagnosed(run))


def _runs(folders: Sequence[Path]) -> Iterator[str]:
    yield "| run | rollouts | severe | warning | lead |"
    yield "|---|---|---|---|---|"
    for folder in folders:
        yield _row(f"`{folder.name}`", _diagnosed(folder))


def _row(name: str, result: Diagnosis) -> str:
    by = [_of(result, severity) for severity in SEVERITIES]
    return f"| {name} | {result.rollouts_read} | {' | '.join(by)} |"


def _of(result: Diagnosis, severity: str) -> str:
    rules = [f.rule for f in result.findings if f.severity == severity]
    counts = {rule: rules.count(rule) for rule in dict.fromkeys(rules)}
    return ", ".join(f"{rule} x {n}" if n > 1 else rule for rule, n in counts.items()) or "none"


def formats(folders: Sequence[Path]) -> Iterator[str]:
    """What is found in logs of other frameworks: how many have a finding, then which findings."""
    by_finding: list[str] = []
    yield "| logs | rollouts | with a severe finding | with a warning |"
    yield "|---|---|---|---|"
    for folder in folders:
        is_ours = folder.is_relative_to(PROJECT)
        name = folder.relative_to(PROJECT).as_posix() if is_ours else folder.name
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(folder, Path(copy) / "logs")
            result = [diagnose(open_run(info)) for info in discover(Path(copy) / "logs").runs]
        counts = [sum(_of(one, severity) != "none" for one in result) for severity in SEVERITIES]
        rollouts = sum(one.rollouts_read for one in result)
        yield f"| `{name}`: {len(result)} | {rollouts} | {counts[0]} | {counts[1]} |"
        rules = [{(f.severity, f.rule) for f in one.findings} for one in result]
        for (severity, rule), logs in sorted(Counter(chain.from_iterable(rules)).items()):
            if severity != "lead":
                by_finding.append(f"| `{name}` | {severity} | `{rule}` | {logs} |")
    yield from ("", "| logs | severity | finding | in how many |", "|---|---|---|---|", *by_finding)


def _diagnosed(folder: Path) -> Diagnosis:
    return diagnose(opened(folder))


if __name__ == "__main__":
    main()
