"""Text from logs and file names, on its way to the screen.

Streamlit renders Markdown in labels, captions and messages: there such text must be escaped. st.text,
st.code, st.dataframe and components show it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from board.core.distinct_names import distinct_names
from board.core.metrics import shares
from board.export.display_text import number as number
from board.export.display_text import one_line as one_line

Option = TypeVar("Option")
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!$:~|<>&^=])")


def plain(text: object, limit: int = 200) -> str:
    """The text for a place that renders Markdown: on one line, cut, every special sign escaped."""
    return _SPECIAL.sub(r"\\\1", one_line(text, limit))


def distinct_options(
    options: Iterable[Option], words: Callable[[Option], str] = str, limit: int = 80
) -> Callable[[Option], str]:
    """What a widget shows for each of its options, as it is: Streamlit tells options apart by that.

    words: of an option, uncut. An option that is not among them is cut as `one_line` does.
    """
    known = [*dict.fromkeys(options)]
    texts = dict(zip(known, distinct_names([*map(words, known)], limit), strict=True))
    return lambda option: texts.get(option) or one_line(words(option), limit)


def size(n_bytes: float) -> str:
    """A number of bytes as people read it: 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


_VERBS: Final = {"is": "are", "was": "were", "repeats": "repeat"}


def counted(count: int, noun: str, verb: str = "") -> str:
    """A number of things in words, with what they do: 1 step, 2 steps, 1 line is, 2 lines are."""
    words = shares.counted(count, noun)
    return f"{words} {verb if count == 1 else _VERBS[verb]}" if verb else words


def ago(seconds: float) -> str:
    """A time span in words: 14 s, 3 min, 5 h, 2 days."""
    for unit, length in (("s", 60.0), ("min", 60.0), ("h", 48.0)):
        if seconds < length:
            return f"{seconds:.0f} {unit}"
        seconds /= 24.0 if unit == "h" else length
    return f"{seconds:.0f} days"


_SIGNS: Final = str.maketrans({"\n": "⏎", "\r": "␍", "\t": "⇥"})


def visible_token(text: str, limit: int = 80) -> str:
    """A token for a place that shows text as it is: line breaks and tabs as signs, cut."""
    return one_line(text.translate(_SIGNS), limit)


def where_they_differ(texts: Sequence[str], limit: int = 160) -> list[str]:
    """Texts of a list on one line each, without the lines that all of them begin with."""
    lines = [text.splitlines(keepends=True) for text in texts]
    most = min(map(len, lines)) - 1 if len(lines) > 1 else 0
    shared = next((i for i in range(most) if len({own[i] for own in lines}) > 1), max(most, 0))
    mark = "… " if shared else ""
    ends = [mark + "".join(own[shared:]).translate(_SIGNS) for own in lines]
    return distinct_names(ends, limit)
