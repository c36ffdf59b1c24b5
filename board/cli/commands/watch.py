"""The command `watch`: says once of each thing that goes wrong in a run while it is trained."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from board.cli import output
from board.cli.commands.analysis import diagnosed
from board.cli.terminal import one_line
from board.core.findings.finding import Finding
from board.core.metrics.shares import percent
from board.errors import BoardError, ChoiceError
from board.index.summary_cache import SummaryCache
from board.mcp_server.links import Links
from board.query.failures import cause_counts, has_causes, headline
from board.query.run import Run

_ALWAYS_TOLD: Final = frozenset(("stopped_rank",))
"""Rules that are told whatever their severity: a rank that writes no more trains no more."""
_RECENT_STEPS: Final = 10
_MOST_TEXT: Final = 600
"""Characters of a message's text; services cut longer ones each in their way."""
_FAILURES: Final = "failures"
_SILENCE: Final = "silence"
_STATES: Final = frozenset((_FAILURES, _SILENCE))
"""Alerts that may end and come again, and are told again then."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to tell. key: what it is about, told once. page: the part of the board that shows it,
    with what is chosen there.
    """

    key: str
    title: str
    text: str
    page: str
    choices: tuple[tuple[str, Any], ...] = ()


def watch(args: argparse.Namespace) -> int:
    """Looks at a run again and again, and tells what is wrong with it; with --once a single time, 1 when
    anything is.
    """
    services = _services(args.notify or ())
    links = Links(args.base)
    while True:
        try:
            run, diagnosis = diagnosed(args)
            alerts = [
                *_of_findings(diagnosis.findings),
                *_of_failures(run, args.failures),
                *_of_silence(run, args.silent, time.time()),
            ]
            _tell(run, alerts, links, services)
        except BoardError as error:
            # A log is written while it is read: what can't be read now may be in a minute.
            if args.once:
                raise
            output.say(f"not looked at: {error}; again in {args.every:g} s")
        else:
            if args.once:
                return 1 if alerts else 0
        time.sleep(args.every)


def _of_findings(findings: Sequence[Finding]) -> Iterator[Alert]:
    for finding in findings:
        if finding.severity == "severe" or finding.rule in _ALWAYS_TOLD:
            steps = f"{finding.steps_text}: " if finding.steps_text else ""
            page = "step" if finding.step is not None else "findings"
            choices = () if finding.step is None else (("step", finding.step),)
            key = f"{finding.rule} {finding.subject}"
            yield Alert(key, f"{steps}{finding.title}", finding.text, page, choices)


def _of_failures(run: Run, share: float | None) -> Iterator[Alert]:
    """Rollouts of the last steps that failed outside of the policy, if they are more than the share."""
    if share is None or not has_causes(run):
        return
    counts = cause_counts(run)
    last = sorted({int(step) for step in counts["step"]})[-_RECENT_STEPS:]
    head = headline(counts[counts["step"].isin(last)])
    if head.rollouts and head.not_earned / head.rollouts > share:
        title = f"steps {last[0]} to {last[-1]}: more than {percent(share)} of the rollouts failed"
        choices = (("findings_part", "failures"),)
        yield Alert(_FAILURES, title, f"{head.sentence}.", "findings", choices)


def _of_silence(run: Run, minutes: float | None, now: float) -> Iterator[Alert]:
    """A log to which nothing was written for some minutes, and that its writer did not end."""
    silent = (now - run.info.mtime) / 60
    if minutes is not None and silent > minutes and not run.rows.files.has_ended:
        since = time.strftime("%H:%M", time.localtime(run.info.mtime))
        text = f"Its newest file was last written {silent:.0f} min ago, at {since}."
        yield Alert(_SILENCE, f"no rollout for more than {minutes:g} min", text, "")


def _tell(run: Run, alerts: Sequence[Alert], links: Links, services: Any) -> None:
    """Print the alerts that were not told yet, send them, and remember those that arrived."""
    sent = ToldAlerts(run)
    known = sent.keys()
    now = {alert.key for alert in alerts}
    keys = [key for key in known if key in now or key not in _STATES]
    for alert in alerts:
        if alert.key in known:
            continue
        title = one_line(f"{run.info.name}: {alert.title}")
        link = links.page(alert.page, run, **dict(alert.choices)) if links.base else ""
        text = one_line(alert.text)[:_MOST_TEXT]
        output.print_lines([title, f"    {text}", *([f"    {link}"] if link else [])])
        sys.stdout.flush()
        if services is None or services.notify(
            title=title, body="\n".join(filter(None, (text, link)))
        ):
            keys.append(alert.key)
        else:
            output.say("it could not be sent to every --notify; it is tried again")
    sent.keep(keys)


class ToldAlerts:
    """The alerts of a run that were told, in the user's cache, so that a restart does not repeat them."""

    def __init__(self, run: Run) -> None:
        self._cache = SummaryCache("alerts 1")
        self._run = f"{run.info.path} {run.info.name}"

    def keys(self) -> list[str]:
        """Return the keys of those told."""
        _, document = self._cache.read([self._run]).get(self._run, ("", b"[]"))
        return json.loads(document)

    def keep(self, keys: Sequence[str]) -> None:
        """Remember these keys, in place of those before."""
        self._cache.write(self._run, "", json.dumps([*keys]).encode())


def _services(urls: Sequence[str]) -> Any:
    """Apprise with the services of the URLs, None without any; says what will be sent where."""
    if not urls:
        return None
    try:
        import apprise  # the extra `notify`
    except ModuleNotFoundError as error:
        raise BoardError(
            f"--notify needs {error.name}, which is not installed: "
            'pip install "rollout-board[board,notify]"'
        ) from error
    services = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Rollout Board"))
    for url in urls:
        if not services.add(url):
            scheme = url.partition("://")[0]
            raise ChoiceError(
                f"--notify: {scheme}:// is not a complete URL of a service that Apprise knows"
            )
    targets = ", ".join(service.url(privacy=True).partition("?")[0] for service in services)
    output.say(
        f"sends to {targets}: the run's name, the sentence of what was found and, with --base, a link; "
        "a sentence may quote a token or an error of a rollout"
    )
    return services
