"""No key that a page lists is lost, whenever it is pressed, and none acts twice."""

import shutil
from pathlib import Path

import pytest
from board_steps import SAMPLES, board_on, settled
from playwright.sync_api import Page, WebSocketRoute, expect
from test_live import log_step
from test_steady import growing
from waits import until

from board.core.labels.entries import decode
from exporters import RolloutExporter

pytestmark = pytest.mark.browser

PAUSES = (50, 120)  # milliseconds


def run_in(folder: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / "grpo_reward_hack", folder / "runs" / "run"))


def labels_in(run: Path) -> dict[int, str]:
    """The last label of each rollout of the step, by its index."""
    file = run / ".rollout-board" / "labels.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    several = [decode(line) for line in lines]
    return {one.index: one.value for one in several if one and one.kind == "label"}


def chosen_prompt(page: Page) -> str:
    return page.evaluate("new URLSearchParams(location.search).get('prompt')")


class LateAnswers:
    """Holds back what the server sends to a page, whose web socket goes through this."""

    def __init__(self, page: Page):
        self.held: list[str | bytes] | None = None
        page.route_web_socket("**/_stcore/stream", self._connect)

    def _connect(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()
        route.on_message(server.send)
        server.on_message(self._answer)
        self._page = route

    def _answer(self, message: str | bytes) -> None:
        if self.held is None:
            self._page.send(message)
        else:
            self.held.append(message)

    def release(self, count: int) -> None:
        """Lets the first messages through."""
        assert self.held is not None
        for message in self.held[:count]:
            self._page.send(message)
        self.held = self.held[count:]


def test_an_answer_from_before_a_key_takes_nothing_back_however_late_it_is(page, serve, tmp_path):
    run, answers = run_in(tmp_path), LateAnswers(page)
    page.goto(f"{board_on(serve, tmp_path / 'runs')}/rollouts?run=run&step=93&index=0")
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 0")
    settled(page)
    answers.held = []
    page.keyboard.press("1")
    until(page, "the label is stored", lambda: len(labels_in(run)) == 1)
    page.wait_for_timeout(1000)
    before = len(answers.held)
    page.keyboard.press("j")
    page.wait_for_timeout(4500)
    assert before < len(answers.held), "the server has answered both"
    answers.release(before)
    page.wait_for_timeout(500)
    for key in "2j3":
        page.keyboard.press(key)
    answers.release(len(answers.held))
    answers.held = None
    until(page, "the three labels", lambda: len(labels_in(run)) == 3)
    assert [*labels_in(run).items()] == [(0, "good"), (1, "wrong"), (2, "cheat")]
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 2")


@pytest.mark.parametrize("pause", PAUSES)
def test_ten_labels_pressed_quickly_are_stored_on_the_ten_rollouts(page, serve, tmp_path, pause):
    run = run_in(tmp_path)
    page.goto(f"{board_on(serve, tmp_path / 'runs')}/rollouts?run=run&step=93&index=0")
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 0")
    keys = [str(1 + place % 3) for place in range(10)]
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_timeout(pause)
        page.keyboard.press("j")
        page.wait_for_timeout(pause)
    names = page.get_by_role("group", name="Labels").locator(".label")
    until(page, "ten labels in the file", lambda: len(labels_in(run)) == 10)
    expect(page.locator(".list .row .sent")).to_have_count(0)
    words = [name.split("\n")[-1].strip() for name in names.all_inner_texts()]
    plain = [word.lstrip("123456789").strip() for word in words]
    assert labels_in(run) == {place: plain[int(key) - 1] for place, key in enumerate(keys)}
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 10")


def test_keys_of_the_first_second_wait_for_the_page_that_takes_them(page, serve, tmp_path):
    run = run_in(tmp_path)
    board = board_on(serve, tmp_path / "runs")
    page.goto(f"{board}/rollouts?run=run&step=93")
    page.wait_for_function("window.__rolloutBoardKeys?.frame")
    for key in "o1j2j3":  # the first O has no row that is selected: it opens the first
        page.keyboard.press(key)
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 2")
    until(page, "the three labels", lambda: len(labels_in(run)) == 3)
    assert [*labels_in(run).items()] == [(0, "good"), (1, "wrong"), (2, "cheat")]
    page.get_by_role("link", name="Prompts").click()
    for key in "jj":  # of the page that was chosen, before it is there
        page.keyboard.press(key)
    page.wait_for_url(lambda url: "/prompts" in url and "prompt=" in url)
    settled(page)
    quick = chosen_prompt(page)
    page.goto(f"{board}/prompts?run=run&step=93")
    page.wait_for_function("window.__rolloutBoardKeys?.frame")
    seen: list[str] = []
    for _ in range(2):
        page.keyboard.press("j")
        until(page, "a key leads on", lambda: chosen_prompt(page) not in (None, *seen))
        seen.append(chosen_prompt(page))
    assert seen[-1] == quick


def test_keys_pressed_while_steps_arrive_have_their_effect_once(page, serve, tmp_path):
    root = tmp_path / "runs"
    step = page.get_by_label("Step", exact=True)
    with RolloutExporter(root / "my_run", start_step=1, mode="sync") as writer:
        for number in range(1, 12):
            log_step(writer, number)
        page.goto(f"{board_on(serve, root)}/?run=my_run&live=1&step=11")
        expect(step).to_have_value("11")
        for number in range(12, 18):  # a step and a key a second
            log_step(writer, number)
            page.keyboard.press("ArrowLeft")
            page.wait_for_timeout(400)
            page.keyboard.press("ArrowLeft" if number % 2 else "ArrowRight")
            page.wait_for_timeout(600)
        expect(page.get_by_text("1–17", exact=True)).to_be_visible()
        settled(page)
        expect(step).to_have_value("5")


def test_a_label_that_cannot_be_stored_is_said_and_sent_again_on_request(page, serve, tmp_path):
    run_in(tmp_path)
    folder = tmp_path / "labels"
    folder.touch()  # where a folder is needed
    file = folder / "labels.jsonl"
    board = board_on(serve, tmp_path / "runs", "--labels", str(file))
    page.goto(f"{board}/rollouts?run=run&step=93&index=3")
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 3")
    page.keyboard.press("2")
    note = page.get_by_role("alert").filter(has_text="Not stored")
    expect(note).to_contain_text("step 93, rollout 3")
    expect(note).to_contain_text("can't be written")
    expect(page.locator(".list .row.open .sent.refused")).to_be_visible()
    page.reload()  # what was not stored is not forgotten
    expect(note).to_contain_text("step 93, rollout 3")
    folder.unlink()
    folder.mkdir()
    note.get_by_role("button", name="Try again").click()
    until(
        page, "the label in the file", lambda: file.exists() and file.read_text().count("\n") == 1
    )
    expect(note).to_have_count(0)
    expect(page.locator(".list .row .sent")).to_have_count(0)


def test_a_note_typed_while_steps_arrive_is_the_note_and_no_key_of_it_is_a_label(
    page, serve, tmp_path
):
    root = tmp_path / "runs"
    note = "a note 1 of lines 2 and 3, kept"
    with RolloutExporter(root / "my_run", start_step=1, mode="sync") as writer:
        for number in range(1, 6):
            log_step(writer, number)
        page.goto(f"{board_on(serve, root)}/rollouts?run=my_run&live=1&step=5&index=0")
        expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 0")
        settled(page)
        page.keyboard.press("m")
        expect(page.get_by_label("Note on this rollout")).to_be_focused()
        for place, letter in enumerate(note):
            if place % 6 == 0:
                log_step(writer, 6 + place // 6)
            page.keyboard.type(letter)
            page.wait_for_timeout(200)
        page.keyboard.press("Enter")
    file = root / "my_run" / ".rollout-board" / "labels.jsonl"
    until(page, "the note in the file", lambda: file.exists())
    settled(page)
    entries = [decode(line) for line in file.read_text().splitlines()]
    assert [(one.kind, one.value, one.index) for one in entries if one] == [("note", note, 0)]


def test_a_key_that_fails_holds_no_other_key_up(page, serve, tmp_path):
    run = run_in(tmp_path)
    page.goto(f"{board_on(serve, tmp_path / 'runs')}/rollouts?run=run&step=93&index=0")
    reader = page.locator(".reader .fact-line")
    expect(reader).to_contain_text("Rollout 0")
    for key in "aj1":  # nothing is selected that all rollouts with it could be listed of
        page.keyboard.press(key)
    expect(reader).to_contain_text("Rollout 1")
    until(page, "the label", lambda: [*labels_in(run)] == [1])


def test_a_key_that_nothing_takes_holds_no_other_up_on_a_page_that_never_rests(
    page, serve, tmp_path
):
    with growing(tmp_path / "run"):
        page.goto(f"{board_on(serve, tmp_path)}/rollouts?run=run&live=1")
        expect(page.locator(".list .row").first).to_be_visible()
        page.evaluate("""() => {
            const { dataset } = document.querySelector("[data-test-script-state]");
            setInterval(() => (dataset.testScriptState = dataset.testScriptState), 50);
        }""")
        page.keyboard.press("1")
        expect(page.get_by_text("“1” needs an open rollout")).to_be_visible()
        page.keyboard.press("o")
        expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 0")


def test_a_listed_key_that_has_nothing_to_act_on_says_so(page, serve, tmp_path):
    run = run_in(tmp_path)
    page.goto(f"{board_on(serve, tmp_path / 'runs')}/rollouts?run=run&step=93")
    settled(page)
    page.keyboard.press("1")
    expect(page.get_by_text("“1” needs an open rollout: press O to open one")).to_be_visible()
    assert labels_in(run) == {}
    page.keyboard.press("o")
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 0")
    page.keyboard.press("1")
    until(page, "the label in the file", lambda: len(labels_in(run)) == 1)
