"""What an exporter opens: its folder, the run's document, and the way from a call to the file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exporters.launch.run_document import describe_run
from exporters.settings import Settings
from exporters.writing.counters import Counters
from exporters.writing.files import VOCABULARY, default_attempt
from exporters.writing.intake import Intake
from exporters.writing.journal import Journal
from exporters.writing.redaction import Redaction
from exporters.writing.sampling import GroupSampler
from exporters.writing.sealing import Sealer


def named(settings: Settings, started: float) -> Settings:
    """The settings with a name for this launch. Raises ValueError where ranks have none in common."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
    attempt = settings.attempt or default_attempt(settings.world_size, now)
    return replace(settings, attempt=attempt)


def open_files(
    settings: Settings,
    started: float,
    run: Mapping[str, Any],
    tokenizer: Any,
    redaction: Redaction | None,
    counters: Counters,
    *,
    strict: bool,
) -> tuple[Journal, Intake]:
    """Opens the rank's first file; rank 0 describes the run. Raises OSError, with what to do."""
    limit = settings.max_samples_per_step
    sampler = None if limit is None else GroupSampler(limit)
    pieces = tokenizer if settings.dialect == "rllb" else None
    try:
        if settings.store is not None:
            waiting = tempfile.mkdtemp(prefix=f"rollouts-{settings.attempt}-")
            settings = replace(settings, folder=Path(waiting))
        settings.folder.mkdir(parents=True, exist_ok=True)
        if settings.rank == 0:
            facts = run if redaction is None else redaction.value(run)
            describe_run(settings, started, facts, tokenizer)
        sealer = None
        if settings.compress or settings.store is not None:
            sealer = Sealer(counters, compresses=bool(settings.compress), store=settings.store)
        journal = Journal(settings, started, counters, sampler, pieces, redaction, sealer)
    except OSError as error:
        error.add_note(
            f"Rollouts cannot be written to {settings.folder}: pass an out_dir that this process "
            "may make and write to, or enabled=False."
        )
        raise
    if sealer is not None:
        for path in settings.folder.glob("*.json"):
            sealer.send(path, replaces=path.name != VOCABULARY)
    return journal, Intake(settings, journal, counters, sampler, strict=strict)
