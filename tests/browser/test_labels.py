"""Labels by the keyboard: of the rollout and of tokens, notes, and undo."""

import shutil

import pytest
from board_steps import SAMPLES, board_on, settled
from playwright.sync_api import expect
from waits import until

from board.core.labels.entries import decode

pytestmark = pytest.mark.browser


def test_keys_label_the_rollout_and_tokens_and_undo_takes_the_last_one_back(page, serve, tmp_path):
    shutil.copytree(SAMPLES / "grpo_reward_hack", tmp_path / "runs" / "run")
    written = tmp_path / "runs" / "run" / ".rollout-board" / "labels.jsonl"

    def entries() -> list[tuple[str, str, int]]:
        lines = written.read_text().splitlines() if written.exists() else []
        return [(one.kind, one.value, one.first) for one in map(decode, lines) if one]

    page.goto(f"{board_on(serve, tmp_path / 'runs')}/rollouts?run=run&step=93&index=3")
    expect(page.locator(".flow .token").first).to_be_visible()
    settled(page)
    page.keyboard.press("3")
    row = page.get_by_role("group", name="Labels")
    expect(row.get_by_role("button", name="cheat")).to_have_attribute("aria-pressed", "true")
    until(page, "the label in the file", lambda: entries() == [("label", "cheat", -1)])
    expect(page.locator(".list .row.open")).to_contain_text("cheat")
    page.locator(".flow .token").nth(2).click()
    page.keyboard.press("Shift+1")
    until(page, "the span in the file", lambda: entries()[-1] == ("span", "good", 2))
    expect(page.locator(".flow .token.labelled")).to_have_count(1)
    settled(page)
    page.keyboard.press("m")
    page.keyboard.type("u 1 j <b>x</b>")  # keys of the page while a note is written
    page.keyboard.press("Enter")
    until(page, "the note in the file", lambda: entries()[-1] == ("note", "u 1 j <b>x</b>", -1))
    settled(page)
    for _ in range(2):  # the note, then the span
        expect(row.get_by_role("button", name="Undo")).to_be_enabled()
        before = len(entries())
        page.keyboard.press("u")
        until(page, "an undo in the file", lambda count=before: len(entries()) == count + 1)
        settled(page)
    expect(page.locator(".flow .token.labelled")).to_have_count(0)
    expect(row.get_by_role("button", name="cheat")).to_have_attribute("aria-pressed", "true")
