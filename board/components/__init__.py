"""Parts of pages with scripts of their own: each a Python call with its JavaScript and CSS beside it.

Texts of models and logs travel as data, and go onto the page as text nodes only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from streamlit.components.v2 import component
from streamlit.components.v2.types import ComponentRenderer


def read_files(module: str, names: Iterable[str]) -> str:
    """The files beside a module in one text: scripts share a module scope, declarations first."""
    return "\n".join((Path(module).parent / name).read_text(encoding="utf-8") for name in names)


def declare(
    module: str,
    name: str,
    html: str,
    *,
    css: Iterable[str] | None = None,
    js: Iterable[str] | None = None,
) -> ComponentRenderer:
    """A component of markup, and of style sheets and scripts beside its module, by default those with its
    name. The key that it is called with holds letters, digits and hyphens: Streamlit takes nothing else
    for sure.
    """
    styles = read_files(module, [f"{name}.css"] if css is None else css)
    script = read_files(module, [f"{name}.js"] if js is None else js)
    return component(f"rollout_board_{name}", html=html, css=styles or None, js=script)


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """A document of JSON, also of texts that UTF-8 has no bytes for."""
    try:
        return orjson.dumps(value)
    except TypeError:  # half a surrogate pair, which Python writes as an escape
        return json.dumps(value).encode("ascii")


def reruns(*states: str) -> dict[str, Any]:
    """Callbacks that make these states of a component exist; the rerun itself is all we need."""
    return {f"on_{name}_change": lambda: None for name in states}
