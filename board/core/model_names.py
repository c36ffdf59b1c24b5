"""Names of models in logs: the keys that they stand under, and when two of them are of one model."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

MODEL_KEYS: Final = ("model", "model_name", "model_id", "model_path", "model_name_or_path")
"""Keys that name the model, the surest first."""
STEP_IN_NAME: Final = "(step|iter|iteration|epoch|checkpoint|ckpt|version|v)[_-]?[0-9]+"
"""A regular expression for the step at which a model was saved, in any case of letters."""
_STEP: Final = re.compile(STEP_IN_NAME, re.IGNORECASE)


def without_step(model: str) -> str:
    """The name of a model without the step of training at which it was saved."""
    return _STEP.sub(r"\1", model)


def without_digits(model: str) -> str:
    """The name of a model without any number."""
    return re.sub("[0-9]+", "", model)


def last_part(model: str) -> str:
    """The name of a model without who serves it."""
    return model.rpartition("/")[2]


def full_names(names: Collection[str]) -> dict[str, str]:
    """Each name by the one that also says who serves the model, where exactly one of them does:
    `openai/small` for `small`.
    """
    longer = {name: [other for other in names if other.endswith(f"/{name}")] for name in names}
    return {name: full[0] if len(full) == 1 else name for name, full in longer.items()}
