"""Links to pages that were merged into others."""

from __future__ import annotations

from typing import Any

import own_loop
import pytest
from starlette.applications import Starlette

from board.cli import old_addresses


def location_of(path: str, query: str) -> str:
    """Where a request for an old page is sent to."""
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
    }

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    own_loop.run(Starlette(routes=old_addresses.routes())(scope, receive, send))
    assert sent[0]["status"] == 307
    return dict(sent[0]["headers"])[b"location"].decode()


@pytest.mark.parametrize(
    ("path", "query", "location"),
    [
        ("/spike", "run=a&of=k3_mean", "./step?run=a&of=k3_mean"),
        ("/groups", "run=a&gid=g%201", "./step?run=a&gid=g+1&part=groups"),
        ("/health", "run=a&old=1", "./findings?run=a&old=1&health=1"),
        ("/health", "", "./findings?health=1"),
        ("/rollout", "run=a&step=3", "./rollouts?run=a&step=3&index=0"),
        ("/rollout", "index=5", "./rollouts?index=5"),
        ("/environments", "run=a", "./?run=a&by=env"),
        ("/words", "run=a&words=wait", "./rollouts?run=a&words=wait&view=words"),
    ],
)
def test_an_old_page_leads_to_its_new_place_with_its_query(
    path: str, query: str, location: str
) -> None:
    assert location_of(path, query) == location
