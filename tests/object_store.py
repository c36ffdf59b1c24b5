"""An object store on this machine, for tests: moto's S3 over loopback, and what was asked of it."""

import logging
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
from fsspec.config import conf

from board.formats.io import remote


@dataclass
class Asked:
    """Requests to the store: method, path and query, and the bytes that came back with each."""

    requests: list[tuple[str, str, int]] = field(default_factory=list)

    def of(self, method: str, part: str = "") -> list[tuple[str, str, int]]:
        return [r for r in self.requests if r[0] == method and part in r[1]]

    @property
    def bytes(self) -> int:
        return sum(
            size for method, path, size in self.requests if method == "GET" and "?" not in path
        )


class Store:
    """A bucket. url: where the store listens; asked: every request since `asked.requests` was cleared."""

    bucket = "bucket"

    def __init__(self, url: str, asked: Asked) -> None:
        self.url = url
        self.asked = asked

    @property
    def files(self) -> Any:
        return fsspec.filesystem("s3", **self.options)

    @property
    def options(self) -> dict[str, Any]:
        return {
            "endpoint_url": self.url,
            "key": "test",
            "secret": "test",
            "use_listings_cache": False,
        }

    def put(self, name: str, content: bytes) -> str:
        self.files.pipe_file(f"{self.bucket}/{name}", content)
        return f"s3://{self.bucket}/{name}"

    def put_folder(self, folder: Path, name: str) -> str:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"s3://{self.bucket}/{name}"

    def delete(self, name: str) -> None:
        self.files.rm_file(f"{self.bucket}/{name}")


@contextmanager
def running() -> Iterator[Store]:
    """A store in this process that the board finds without being told, through fsspec's settings."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    asked = Asked()
    app = DomainDispatcherApplication(create_backend_app)

    def counted(environ: dict[str, Any], start: Any) -> Any:
        query = environ.get("QUERY_STRING")
        path = environ["PATH_INFO"] + (f"?{query}" if query else "")
        body = b"".join(app(environ, start))
        asked.requests.append((environ["REQUEST_METHOD"], path, len(body)))
        return [body]

    server = make_server("127.0.0.1", 0, counted, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    # All stores of a process have one memory: what another test left goes.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(urllib.request.Request(f"{url}/moto-api/reset", method="POST")).close()
    store = Store(url, asked)
    before = conf.get("s3")
    conf["s3"] = store.options
    remote._filesystem.cache_clear()
    store.files.mkdir(Store.bucket)
    yield store
    remote._filesystem.cache_clear()
    conf.pop("s3")
    if before is not None:
        conf["s3"] = before
    server.shutdown()
    thread.join()
    server.server_close()
