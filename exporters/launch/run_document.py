"""`run-{attempt}.json`: what is true of a launch as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporters.launch.vocabulary import describe_vocabulary
from exporters.record import SCHEMA_VERSION
from exporters.settings import Settings
from exporters.writing.files import write_run, write_vocabulary


def describe_run(
    settings: Settings, started: float, run: Mapping[str, Any], tokenizer: Any
) -> None:
    """Writes the document, and the vocabulary where there is a tokenizer. Raises OSError."""
    facts: dict[str, Any] = {
        "name": settings.store.name if settings.store else settings.folder.resolve().name,
        "created": started,
        "schema": SCHEMA_VERSION,
        **settings.header(started),
    }
    del facts["started"]
    if tokenizer is not None:
        vocabulary = describe_vocabulary(tokenizer)
        write_vocabulary(settings.folder, vocabulary)
        facts["tokenizer"] = {
            "vocab_size": len(vocabulary["pieces"]),
            "coding": vocabulary["coding"],
        }
    write_run(settings.folder, settings.attempt, {**facts, **run})
