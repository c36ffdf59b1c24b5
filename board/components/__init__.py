"""Parts of pages with scripts of their own: each a Python call with its JavaScript and CSS beside it.

Texts of models and logs travel as data, and go onto the page as text nodes only.
"""

from pathlib import Path


def read_files(folder: Path, *names: str) -> str:
    """A component's files in one text: scripts share a module scope, declarations first."""
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def only_rerun() -> None:
    """A state of a component exists only with a callback; the rerun itself is all we need."""
