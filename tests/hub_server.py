"""The hub on this machine, for tests: the few answers of its API that reading a data set needs."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from fsspec.config import conf

from board.formats.io import remote

NAME = "lab/rollouts"
"""The one data set; its files at a revision: `Hub.files[revision]`."""


class Hub:
    """files: by revision and path. asked: method, path and range of each request."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {"main": {}}
        self.asked: list[tuple[str, str, str]] = []
        self.url = ""

    def answer(self, path: str) -> bytes | dict | list | None:
        """What stands at a path of the API; None where nothing does."""
        parts = path.strip("/").split("/")
        if parts[:4] == ["api", "datasets", *NAME.split("/")]:
            kind, revision = parts[4:6] if len(parts) > 5 else ("revision", "main")
            if revision not in self.files:
                return None
            if kind == "revision":
                return {"id": NAME, "sha": "0" * 40, "private": False, "tags": []}
            return self._tree(revision, "/".join(parts[6:]))
        if parts[:4] == ["datasets", *NAME.split("/"), "resolve"]:
            return self.files.get(parts[4], {}).get("/".join(parts[5:]))
        return None

    def _tree(self, revision: str, below: str) -> list | None:
        """All files below a folder, and the folders."""
        prefix = f"{below}/" if below else ""
        entries: dict[str, dict] = {}
        for path, content in self.files[revision].items():
            if not path.startswith(prefix):
                continue
            *folders, _ = path.removeprefix(prefix).split("/")
            for depth in range(len(folders)):
                name = prefix + "/".join(folders[: depth + 1])
                entries[name] = {"type": "directory", "path": name, "oid": "f" * 40, "size": 0}
            digest = hashlib.sha1(content).hexdigest()
            entries[path] = {"type": "file", "path": path, "oid": digest, "size": len(content)}
        return [*entries.values()] or None


@contextmanager
def running() -> Iterator[Hub]:
    """A hub in this process that the board finds without being told, through fsspec's settings."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            target = urlsplit(self.path)
            path, asked = unquote(target.path), self.headers.get("range", "")
            hub.asked.append(("GET", path, asked))
            content = hub.answer(path)
            if isinstance(content, list) and "recursive=true" not in target.query:
                depth = path.rstrip("/").count("/") - 6
                content = [one for one in content if one["path"].count("/") <= depth]
            if content is None:
                is_known = path.startswith((f"/api/datasets/{NAME}", f"/datasets/{NAME}"))
                self._send(404, b"{}", "EntryNotFound" if is_known else "RepoNotFound")
            elif not isinstance(content, bytes):
                self._send(200, json.dumps(content).encode())
            elif asked:
                first, last = asked.removeprefix("bytes=").split("-")
                cut = content[int(first) : int(last) + 1]
                self._send(206 if cut else 416, cut)
            else:
                self._send(200, content)

        def _send(self, status: int, body: bytes, error: str = "") -> None:
            self.send_response(status)
            if error:
                self.send_header("X-Error-Code", error)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    conf["hf"] = {"endpoint": hub.url, "token": False}
    remote._filesystem.cache_clear()
    yield hub
    remote._filesystem.cache_clear()
    del conf["hf"]
    server.shutdown()
    server.server_close()
