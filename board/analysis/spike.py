"""What a column's mean at a step is made of: tokens and kinds of tokens, by what they contribute."""

from __future__ import annotations

from dataclasses import dataclass

from board.analysis.step_records import Progress
from board.analysis.step_tokens import ReadTokens, read_step
from board.core.tokens.contributions import (
    TOKEN_SOURCES,
    Contributions,
    Headline,
    TypeShare,
    contributions,
    headline,
)
from board.core.tokens.vocabulary import Vocabulary
from board.query.open_run import Run


@dataclass(frozen=True, slots=True)
class Spike:
    """Tokens and kinds of tokens that contribute to a column's mean at a step, largest first."""

    contributions: Contributions
    headline: Headline | None
    kinds: list[TypeShare]


def spike_of(
    run: Run,
    step: int,
    column: str,
    vocabulary: Vocabulary | None = None,
    progress: Progress | None = None,
) -> Spike | None:
    """Reads the tokens of a step for a column of TOKEN_SOURCES; None where the log has no such metric.

    vocabulary: decodes ids where the run has none. Raises NotFoundError where the run has no such step.
    """
    metric, reduction = TOKEN_SOURCES[column]
    tokens = read_step(run, step, ReadTokens.of_metric(metric), vocabulary, progress)
    if metric not in tokens.metric_names:
        return None
    parts = contributions(tokens, metric, reduction)
    return Spike(parts, headline(parts), parts.by("kind"))
