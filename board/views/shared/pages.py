"""Every page with its parts: what is said of them stands here alone, and all lists are made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Keys = tuple[tuple[str, str], ...]
"""Pairs of keys, separated by spaces, and what they do."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page. It is chosen by `name` in the URL; the first part of a page opens with it.

    needs: columns of rollouts without which there is nothing to see.
    """

    name: str
    title: str
    needs: Sequence[str] = ()
    keys: Keys = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page, whose script is `views/NAME/NAME.py`. parts: of a page with several, which `choice` of the
    URL tells apart. needs: as of a part. keys: of the whole page, by heading.
    """

    name: str
    parts: Sequence[Part] = ()
    choice: str = ""
    needs: Sequence[str] = ()
    keys: Mapping[str, Keys] | None = None

    @property
    def title(self) -> str:
        """What links to the page say."""
        return self.name.capitalize()

    @property
    def part_names(self) -> tuple[str, ...]:
        """What the choice of the URL can be, first what it is when nothing was chosen."""
        return tuple(part.name for part in self.parts)


def _list(what: str, opened: str = "") -> Keys:
    """J and K through the list of a page, and O or Enter for what `opened` says."""
    moves = (("j k", f"next or previous {what}"),)
    return (*moves, ("o Enter", f"open {opened}")) if opened else moves


_EVERYWHERE: Final = (("← →", "previous or next step"), ("?", "this help"))
_READER: Final = (
    ("[ ]", "previous or next turn"),
    ("n p", "next or previous match of the search, else peak of the metric"),
    ("/", "find in the rollout"),
    ("t", "fold tool output"),
    ("h", "fold thinking"),
    ("w", "wrap lines"),
    ("Shift+w", "monospace or prose"),
    ("1 … 9", "label the rollout, or the selected tokens; again: remove the label"),
    ("Shift+1 … 9", "label the pinned token"),
    ("m", "write a note"),
    ("l u", "show the labels, undo the last one"),
    ("i", "scores, ground truth and the record"),
    ("a", "list all rollouts with the selected text"),
    ("c", "compare with another rollout or text"),
    ("d Shift+d", "next or previous difference of a comparison"),
    ("e", "fold the equal text of a comparison"),
    ("f", "full screen"),
    ("← → ↑ ↓", "move the pinned token"),
    ("Esc", "clear the search, unpin, leave full screen, close the rollout"),
)
_RUNS: Final = (
    *_list("run", "the run"),
    ("→ ←", "unfold or fold runs that differ in the seed alone; O does both"),
    ("x Space", "tick the run, or all runs of a folded row, to compare them with others"),
    ("/", "search"),
    ("Esc", "clear the search, or the ticks"),
)
_ROLLOUT_LIST: Final = (
    *_list("rollout", "the selected rollout"),
    ("/", "filter, while no rollout is open"),
)
_ENVIRONMENTS: Final = _list("environment, alone", "the step's rollouts of what is chosen")
_SEARCH: Final = (("s", "search the whole run, or stop"), ("o Enter", "open the first hit"))
_GROUPS: Final = ("group_id", "reward")

PAGES: Final = (
    Page("runs", keys={"Runs": _RUNS}),
    Page(
        "overview",
        (
            Part("", "All"),
            Part("env", "By environment", ("env",), keys=_ENVIRONMENTS),
        ),
        "overview_by",
    ),
    Page(
        "findings",
        (
            Part("findings", "Findings", keys=_list("finding", "its evidence")),
            Part(
                "failures",
                "Failures",
                ("cause",),
            ),
            Part("health", "Log health"),
        ),
        "findings_part",
    ),
    Page(
        "step",
        (
            Part(
                "contributions",
                "Contributions",
                keys=_list("metric", "the token that contributes most"),
            ),
            Part("groups", "Groups", _GROUPS, _list("group", "the rollout with the best reward")),
            Part("mismatch", "Mismatch", ("mismatch_kl_mean",), _list("breakdown")),
        ),
        "step_part",
        ("reward",),
    ),
    Page(
        "rollouts",
        (
            Part("list", "List", keys=_ROLLOUT_LIST),
            Part("words", "Words", keys=_SEARCH),
            Part("winners", "Winners", _GROUPS),
            Part("labels", "Labels"),
        ),
        "rollouts_view",
        keys={"Reader": _READER},
    ),
    Page(
        "prompts",
        needs=("prompt", "reward"),
        keys={"Prompts": _list("prompt", "its best response at its last step")},
    ),
    Page("compare", keys={"Shared prompts": _list("prompt")}),
)

_BY_NAME: Final = {page.name: page for page in PAGES}
_BY_TITLE: Final[Mapping[str, Page | Part]] = {
    one.title: one for page in PAGES for one in (*page.parts, page)
}


def page_of(name: str) -> Page:
    """The page of a name, as addresses have it."""
    return _BY_NAME[name]


def titled(title: str) -> Page | Part:
    """The page or part of a title; where both have it, the page."""
    return _BY_TITLE[title]


def keys_of(page: Page) -> dict[str, Keys]:
    """The keys that work on a page, by heading."""
    of_parts = {part.title: part.keys for part in page.parts if part.keys}
    return {"Everywhere": _EVERYWHERE, **of_parts, **(page.keys or {})}


def addresses() -> Iterator[tuple[str, Page, dict[str, str]]]:
    """Everything that can be opened: its name, its page, and the choice that opens it there."""
    for page in PAGES:
        yield page.name, page, {}
        for part in page.parts[1:]:
            yield part.name, page, {page.choice: part.name}
