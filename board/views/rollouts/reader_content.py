"""What the reader asks of the page: a name for its content, and the colour scale of a whole step."""

from __future__ import annotations

from dataclasses import replace

from board.analysis.rollout import OpenRollout
from board.core.tokens.scales import Span
from board.query.open_run import Run
from board.views.shared import cache, state
from board.views.shared.background import show_progress


def signature_of(run: Run, opened: OpenRollout) -> str:
    """Differs between any two contents of the reader."""
    place = f"{run.info.name}/{run.info.mtime}/{opened.step}/{opened.index}"
    chosen = "/".join(str(state.get(name)) for name in ("tokenizer", "think", "reader_as"))
    return f"{place}/{run.options.read}/{chosen}"


def step_spans(run: Run, step: int) -> dict[str, Span]:
    """The range of each token metric over the rollouts of a step, for the colour scale."""
    spans = show_progress(
        cache.step_spans(run, step),
        f"Reading step {step}",
        describe=lambda done, total: f"{done:,} of {total:,} rollouts",
    )
    assert spans is not None, "nobody can stop it"
    # Short: the legend has room for the number of values beyond it, too.
    part = "" if spans.read == spans.total else f" ({spans.read:,} of {spans.total:,} rollouts)"
    over = f"of the step{part}"
    return {name: replace(span, over=over) for name, span in spans.spans.items()}
