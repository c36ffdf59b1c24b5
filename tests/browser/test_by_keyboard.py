"""An agent's log, as text (verl) and as messages (native): all that is done with it by keyboard alone."""

import json
import re
from pathlib import Path

import pytest
from board_steps import Message, ServeCommand, agent_turns, board_on, settled
from playwright.sync_api import Locator, Page, expect
from written_logs import write_lines

pytestmark = pytest.mark.browser

TRAP = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> **b** [l](http://x)"
TURNS = 12
OUTPUT = "\n".join(f"line {i} of the output" for i in range(40)) + TRAP
ANSWERS = ("<b>five</b> is right.", "<b>six</b> is right.")
# Rollouts are alike but for the command of this turn and the answer.
OTHER_TURN = 3


def command(turn: int, answer: str) -> str:
    return f"pytest {turn}" if turn != OTHER_TURN else f"pytest --only {answer[3:6]}"


def conversation(answer: str) -> list[Message]:
    thoughts = [f"idea {turn} {TRAP}" for turn in range(TURNS)]
    return [
        {"role": "system", "content": f"You are an agent. {TRAP}"},
        {"role": "user", "content": f"Fix it. {TRAP}"},
        *agent_turns(thoughts, [command(turn, answer) for turn in range(TURNS)], OUTPUT),
        {"role": "assistant", "content": answer},
    ]


def spoken(turn: int, answer: str) -> str:
    """A turn of an agent as the chat template of a model writes it."""
    call = json.dumps({"name": "bash", "arguments": {"command": command(turn, answer)}})
    return (
        f"<think>idea {turn} {TRAP}</think>I run test {turn}.\n<tool_call>\n{call}\n</tool_call>\n"
        f"user\n<tool_response>\n{OUTPUT}\n</tool_response>\nassistant\n"
    )


def native(folder: Path) -> None:
    about = {"type": "sample", "step": 1, "group_id": "g", "reward": 0.5}
    rows = [{**about, "messages": conversation(answer)} for answer in ANSWERS]
    write_lines(folder / "20260101T000000Z-rank00000-00000000.jsonl", rows)


def verl(folder: Path) -> None:
    asked = f"system\nYou are an agent. {TRAP}\nuser\nFix it. {TRAP}\nassistant\n"
    about = {"input": asked, "gts": "5", "score": 0.5, "step": 1}
    turns = ["".join(spoken(turn, answer) for turn in range(TURNS)) for answer in ANSWERS]
    rows = [{**about, "output": t + answer} for t, answer in zip(turns, ANSWERS, strict=True)]
    write_lines(folder / "1.jsonl", rows)


FORMATS = {"verl": verl, "native": native}


@pytest.fixture(scope="module")
def board(serve: ServeCommand, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("logs")
    for name, write in FORMATS.items():
        write(root / name)
    return board_on(serve, root)


def opened_by_keyboard(page: Page, board: str, run: str) -> Locator:
    """The second rollout of the list, reached from the list without one."""
    page.goto(f"{board}/rollouts?run={run}")
    expect(page.locator(".st-key-title h3")).to_have_text(run)
    expect(page.locator(".list .row")).to_have_count(len(ANSWERS))
    settled(page)
    page.keyboard.press("j")
    page.keyboard.press("o")
    title = page.locator(".reader .fact-line")
    expect(title).to_contain_text("Rollout 0")
    settled(page)
    page.keyboard.press("j")
    expect(title).to_contain_text("Rollout 1")
    settled(page)
    return page.locator(".reader")


def fold_and_unfold(page: Page, reader: Locator) -> None:
    output, thinking = reader.locator(".result .pre").first, reader.locator(".thinking .say").first
    expect(output).to_be_visible()
    page.keyboard.press("t")
    expect(output).to_be_hidden()
    page.keyboard.press("t")  # the browser remembers it for the next rollout
    expect(output).to_be_visible()
    expect(thinking).to_be_hidden()
    page.keyboard.press("h")
    expect(thinking).to_be_visible()
    page.keyboard.press("h")
    expect(thinking).to_be_hidden()


def go_through_turns(page: Page, reader: Locator) -> None:
    rows = reader.locator(".outline-row")
    expect(rows).to_have_count(2 + TURNS + 1)
    for _ in range(4):
        page.keyboard.press("]")
    expect(rows.nth(4)).to_have_class(re.compile("current"))
    page.keyboard.press("[")
    expect(rows.nth(3)).to_have_class(re.compile("current"))


def find_by_pattern(page: Page, reader: Locator) -> None:
    page.keyboard.press("/")
    page.keyboard.type("idea 1[01]")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # the pattern is a regular expression
    count = reader.locator(".find-count")
    expect(count).to_have_text("2")
    for key, place in (("n", 1), ("n", 2), ("p", 1)):
        page.keyboard.press(key)
        expect(count).to_have_text(f"{place} of 2")
        result = reader.locator(".thinking .say:visible", has_text=f"idea 1{place - 1}")
        expect(result).to_be_in_viewport()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(reader.locator("input.find")).to_have_value("")


def compare_by_keyboard(page: Page) -> None:
    page.keyboard.press("c")
    entries = page.locator(".compare-menu .entry")
    expect(entries.filter(has_text="#0")).to_be_visible()
    page.keyboard.type("0.5")  # its reward
    expect(entries).to_have_count(1)
    page.keyboard.press("Enter")
    view = page.locator(".comparison")
    expect(view.locator(".count")).to_have_text(re.compile("^2 differences"))
    expect(page).to_have_url(re.compile(r"[?&]reader_vs=0(&|$)"))
    settled(page)
    for key, place in (("d", 1), ("d", 2), ("Shift+D", 1)):
        page.keyboard.press(key)
        expect(view.locator(".count")).to_have_text(f"difference {place} of 2")
        expect(view.locator("del.current")).to_be_in_viewport()
        expect(view.locator("ins.current")).to_be_in_viewport()
    find_in_comparison(page, view)
    fold = view.locator(".fold").last
    expect(fold).to_have_text(re.compile(r"^… [\d,]+ equal lines$"))
    page.keyboard.press("e")
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(view.locator("ins.current")).to_be_in_viewport()
    assert view.locator("b b, script, img").count() == 0


def find_in_comparison(page: Page, view: Locator) -> None:
    """In text that both have, which is folded; it counts once."""
    page.keyboard.press("/")
    page.keyboard.type("idea 1 <")
    page.keyboard.press("Enter")
    expect(view.locator(".find-count")).to_have_text("1 of 1")
    expect(view.locator(".cell", has_text="idea 1 <").first).to_be_in_viewport()
    page.keyboard.press("Escape")
    row = view.locator(".row").first
    columns = "row => row.children.length"
    page.keyboard.press("w")  # lines that are not wrapped have the whole width
    assert row.evaluate(columns) == 1
    page.keyboard.press("w")
    assert row.evaluate(columns) == 2


@pytest.mark.parametrize("run", FORMATS)
def test_a_log_is_read_folded_searched_and_compared_by_keyboard(page, board, run):
    reader = opened_by_keyboard(page, board, run)
    fold_and_unfold(page, reader)
    go_through_turns(page, reader)
    find_by_pattern(page, reader)
    assert reader.locator("script, img, iframe, a, .flow b").count() == 0
    expect(reader.locator(".flow")).to_contain_text("<script>window.hacked=1</script>")
    compare_by_keyboard(page)
    assert page.evaluate("window.hacked") is None
    page.go_back()
    expect(reader.locator(".fact-line")).to_contain_text("Rollout 1")
    page.go_forward()
    expect(page.locator(".comparison")).to_be_visible()
    settled(page)
    page.keyboard.press("Escape")
    expect(reader.locator(".fact-line")).to_contain_text("Rollout 1")
    page.keyboard.press("Escape")
    expect(reader).to_have_count(0)
    expect(page.locator(".list .row.cursor")).to_have_count(1)
