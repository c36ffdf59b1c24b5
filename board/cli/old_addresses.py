"""Addresses that pages had before they were merged: a link to one leads to its new place."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

# Old page -> new page, and what the query says in addition.
_MOVED: Final = {
    "overview": ("", {}),
    "spike": ("step", {}),
    "groups": ("step", {"part": "groups"}),
    "health": ("findings", {"health": "1"}),
    "rollout": ("rollouts", {"index": "0"}),
    "environments": ("", {"by": "env"}),
    "words": ("rollouts", {"view": "words"}),
}


def routes() -> list[Route]:
    """A redirect for each old page. It keeps the query, and adds no entry to the browser's history."""
    return [Route(f"/{page}", _redirect, methods=["GET"]) for page in _MOVED]


def _redirect(request: Request) -> RedirectResponse:
    page, more = _MOVED[request.url.path.rpartition("/")[2]]
    query = request.query_params
    target = request.url.include_query_params(**{k: v for k, v in more.items() if k not in query})
    # Relative, so that it holds behind a proxy that serves the board below a path of its own.
    return RedirectResponse(f"./{page}?{target.query}" if target.query else f"./{page}")
