"""What a browser needs of Streamlit for a first page: named in the page's document, sent from memory.

Streamlit's document names the scripts of its shell. Those that draw a kind of element are asked for when
the first of that kind arrives, wave after wave, while the page waits; and each of the hundred files goes
through threads, three layers and the disk. Here the document names all that the pages of the board begin
with, so that the browser reads them beside the shell, and what it then asks for is at hand.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import file_util

_SCRIPTS: Final = "static/js"
_FONTS: Final = "static/media"
_DRAWN: Final = (
    *("BidiComponent", "Button", "ButtonGroup", "Checkbox", "Html", "Metric", "Multiselect"),
    *("NumberInput", "PageLink", "Selectbox", "Slider", "TextInput"),
)
"""Streamlit's names for the scripts of the elements that pages begin with."""
_SYMBOLS: Final = "MaterialSymbols-Rounded"
_STILL: Final = """<style>
[data-testid="stSkeleton"], [data-testid="stAppSkeleton"] * { animation: none !important }
</style>
"""
"""Streamlit's placeholders pulse. Without a graphics card that takes a processor's time, which the
scripts that are waited for need: a seventh of what a first page takes.
"""
_BACKEND: Final = """<script>
window.__streamlit = { ...window.__streamlit, BACKEND_BASE_URL: new URL("./", location.href).href };
</script>
"""
"""A page asks for its server at `/PAGE/_stcore/` first, which is answered with 404, and then beside the
page, where it is: Streamlit allows for apps below a path. The files of a page are beside it as well.
"""
_NAMED: Final = re.compile(r'\./(static/[\w./-]+\.(?:js|css|woff2))"')
_IMPORTED: Final = re.compile(r"""(?:from|import)\s*["'`]\./([\w.-]+\.js)["'`]""")
_KEPT: Final = b"public, immutable, max-age=31536000"
"""What Streamlit says of these files: their names tell their content."""
_END_OF_HEAD: Final = b"</head>"


class Front:
    """An ASGI application before Streamlit's: asks it for all but the files of a first page, and adds
    the names of those to its documents. Files that this version of Streamlit lacks are left out.
    """

    def __init__(self, app: ASGIApp, static: Path | None = None) -> None:
        self._app = app
        folder = static or _static_folder()
        named = _named(folder)
        later = [name for name in _needed(folder) if name not in named]
        self._head = _head(later)
        self._files = _read(folder, [*named, *later])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or has Streamlit answer it."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
        elif (file := self._files.get(scope["path"])) is not None and not _is_partial(scope):
            await _send_file(file, send)
        elif _is_document(scope["path"]):
            await self._app(_unpacked(scope), receive, _WithHead(send, self._head))
        else:
            await self._app(scope, receive, send)


class _WithHead:
    """Sends a document with more at the end of its head, and everything else as it is."""

    def __init__(self, send: Send, more: bytes) -> None:
        self._send, self._more = send, more
        self._start: Message | None = None
        self._parts: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        """Takes a part of the answer."""
        if message["type"] == "http.response.start" and _is_page(message):
            self._start = message
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        body = b"".join(self._parts).replace(_END_OF_HEAD, self._more + _END_OF_HEAD, 1)
        changed = (b"content-length", b"etag", b"last-modified")
        headers = [(name, value) for name, value in start["headers"] if name.lower() not in changed]
        headers.append((b"content-length", b"%d" % len(body)))
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _static_folder() -> Path:
    return Path(file_util.get_static_dir())


def _named(folder: Path) -> list[str]:
    """The files that the document names itself, in its order."""
    try:
        text = (folder / "index.html").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return []
    return list(dict.fromkeys(_NAMED.findall(text)))


def _needed(folder: Path) -> list[str]:
    """The scripts of the elements with all they import, and the font of the symbols."""
    waiting = [found for name in _DRAWN for found in _found(folder, f"{_SCRIPTS}/{name}.*.js")]
    needed: dict[str, None] = {}
    while waiting:
        name = waiting.pop()
        if name not in needed and (folder / name).is_file():
            needed[name] = None
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            waiting += [f"{_SCRIPTS}/{imported}" for imported in _IMPORTED.findall(text)]
    return [*_found(folder, f"{_FONTS}/{_SYMBOLS}.*.woff2"), *needed]


def _found(folder: Path, pattern: str) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in sorted(folder.glob(pattern)))


def _head(names: Sequence[str]) -> bytes:
    return (_STILL + _BACKEND + "".join(map(_link, names))).encode()


def _link(name: str) -> str:
    if name.endswith(".js"):
        return f'<link rel="modulepreload" crossorigin href="./{name}">\n'
    return f'<link rel="preload" as="font" type="font/woff2" crossorigin href="./{name}">\n'


def _read(folder: Path, names: Sequence[str]) -> Mapping[str, tuple[bytes, bytes]]:
    """Content and kind of each file, by the path it is asked for."""
    held: dict[str, tuple[bytes, bytes]] = {}
    for name in names:
        try:
            held[f"/{name}"] = (folder / name).read_bytes(), _kind(name)
        except OSError:
            continue
    return held


def _kind(name: str) -> bytes:
    # The system's own table may call scripts something that browsers refuse to run.
    if name.endswith(".js"):
        return b"text/javascript; charset=utf-8"
    return (mimetypes.guess_type(name)[0] or "application/octet-stream").encode()


def _is_document(path: str) -> bool:
    """Whether a page of the app may stand there: Streamlit's own answers stand in folders."""
    return path.count("/") == 1 and "." not in path


def _is_partial(scope: Scope) -> bool:
    return any(name == b"range" for name, _ in scope["headers"])


def _unpacked(scope: Scope) -> Scope:
    """A request for a document that is whole, and not packed."""
    left_out = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")
    headers = [(name, value) for name, value in scope["headers"] if name not in left_out]
    return {**scope, "headers": headers}


def _is_page(start: Message) -> bool:
    kinds = [value for name, value in start["headers"] if name.lower() == b"content-type"]
    return start["status"] == 200 and any(kind.startswith(b"text/html") for kind in kinds)


async def _send_file(file: tuple[bytes, bytes], send: Send) -> None:
    content, kind = file
    headers = [
        (b"content-type", kind),
        (b"content-length", b"%d" % len(content)),
        (b"cache-control", _KEPT),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
