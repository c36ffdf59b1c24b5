"""A training followed from before its first file."""

import json
from collections.abc import Sequence
from typing import Any

from board_steps import board_on
from playwright.sync_api import expect

from board.core.records import ReadOptions
from board.index.discovery.discovered_runs import discover
from board.index.storage import FolderStorage, index_folder
from board.query.outlines import OUTLINE_BYTES
from exporters import RolloutExporter


def log_step(writer: RolloutExporter, step: int) -> None:
    rewards: Sequence[Any] = [0.25 * step, 0.0]
    writer.log(step, response_ids=[[1, 2], [3, 4]], rewards=rewards)
    writer.end_step(step)


def test_a_training_is_followed_from_before_its_folder_is_made_until_a_step_is_chosen(
    page, serve, tmp_path
):
    root = tmp_path / "not_made_yet"
    page.goto(board_on(serve, root))
    expect(page.get_by_text("Waiting for the first rollout")).to_be_visible()
    expect(page.get_by_text("RolloutExporter(").first).to_be_visible()
    root.mkdir()
    step = page.get_by_label("Step", exact=True)
    with RolloutExporter(root / "my_run", start_step=1, mode="sync") as writer:
        log_step(writer, 1)
        log_step(writer, 2)
        expect(step).to_have_value("2")
        log_step(writer, 3)
        expect(step).to_have_value("3")
        expect(page.get_by_text("Following the newest step")).to_be_visible()
        page.keyboard.press(
            "ArrowLeft"
        )  # also while the page runs again, which a live one does by itself
        expect(step).to_have_value("2")
        expect(page.get_by_text("Follow the newest step")).to_be_visible()
        log_step(writer, 4)
        expect(page.get_by_text("1–4", exact=True)).to_be_visible()
        expect(step).to_have_value("2")
        page.get_by_text("Follow the newest step").click()
        expect(step).to_have_value("4")


def test_pages_say_what_is_still_being_read_and_show_it_once_it_is(page, serve, tmp_path):
    length = OUTLINE_BYTES // 60
    lines = (
        {"step": step, "prompt": "p", "response": "a " * (length // 2), "reward": step / 64}
        | {"logprobs": [-0.5], "ref_logprobs": [-0.7]}
        for step in range(1, 65)
    )
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (info,) = discover(tmp_path).runs
    folder = index_folder(info.path, info.part, ReadOptions(), make=True)
    assert folder is not None
    with FolderStorage(folder).writer():  # nobody else can make the index meanwhile
        page.goto(f"{board_on(serve, tmp_path)}/findings")
        expect(page.get_by_text("Findings needs what is still being read")).to_be_visible()
        page.goto(f"{board_on(serve, tmp_path)}/overview")
        expect(page.get_by_text("KL and entropy are being read")).to_be_visible()
        expect(page.locator(".curves .card")).to_have_count(1)
    expect(page.get_by_text("being read")).to_have_count(0)
    expect(page.locator(".curves .card").nth(1)).to_be_visible()
