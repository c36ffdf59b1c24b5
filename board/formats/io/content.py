"""What a file is by its first bytes, in words, where it is no log."""

from __future__ import annotations

import csv
import re
from pathlib import PurePath
from typing import Final

from board.formats.io.remote import RemoteLocation

_BEGINNINGS: Final = (
    (b"PAR1", "a Parquet table"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"ARROW1", "an Arrow table"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"\x80\x05", "a pickle"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"\x1e", "a sequence of JSON texts, each behind a record separator"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_HTML: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body)\b", re.IGNORECASE
)
_XML: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\b")
_LEAST_COLUMNS: Final = 2


def kind_by_content(path: PurePath | RemoteLocation, head: bytes) -> str:
    """What a file that begins so is, such as `it is an HTML page`; empty where that is not known."""
    kind = next((kind for begin, kind in _BEGINNINGS if head.startswith(begin)), "")
    if _HTML.match(head):
        kind = "an HTML page"
    elif _XML.match(head):
        kind = "an XML document"
    elif not kind and head and not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        kind = _kind_of_text(path.name.lower(), head)
    return f"it is {kind}" if kind else ""


def _kind_of_text(name: str, head: bytes) -> str:
    if b"\0" in head:
        return "binary data"
    first, _, others = head.decode("utf-8", "replace").partition("\n")
    second = others.partition("\n")[0]
    for delimiter, kind in ((",", "a CSV table"), ("\t", "a TSV table")):
        counts = [len(row) for row in csv.reader([first, second], delimiter=delimiter)]
        is_named = name.endswith(".tsv" if delimiter == "\t" else ".csv")
        if is_named or (counts[:1] == counts[1:] and counts[0] > _LEAST_COLUMNS):
            return kind
    return "plain text"
