"""How logs are read: what a user can choose about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_PAD_MARKERS: Final = ("<pad>", "<PAD>", "[PAD]", "<|pad|>")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How texts and tokens are read; the same for every file of a run.

    pad_markers: response pieces that are padding. Runs of them at either end of a response are left
        out, with the values that belong to them; the number is in `Record.pad_tokens`.
    system_prompt_end: text that ends the system prompt; what comes before and including its first
        occurrence is left out of the prompt. Empty: nothing is left out.
    """

    pad_markers: tuple[str, ...] = DEFAULT_PAD_MARKERS
    system_prompt_end: str = ""
