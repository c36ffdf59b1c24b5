"""From a spike of the trainer's gradient norm to the token that explains it."""

import json
import re
import shutil
from pathlib import Path

import pytest
from board_steps import SAMPLES, board_on, click_step, settled
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

STEP, TOKEN = 60, 3


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A root with a copy of a bundled run in which a token of a step has a large k3, and the step a large
    gradient norm; and the id of the token's rollout.
    """
    run = tmp_path_factory.mktemp("spike") / "run"
    shutil.copytree(SAMPLES / "grpo_arithmetic", run)
    changed = ""
    for path in sorted(run.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line.get("step") != STEP:
                continue
            if line["type"] == "step_end":
                line["metrics"]["grad_norm"] = 40.0
            elif not changed:
                line["ref_logprobs"][TOKEN] = line["logprobs"][TOKEN] + 7.0
                changed = line["rollout_id"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run.parent, changed


def test_a_spike_of_the_gradient_norm_leads_to_its_token_in_three_clicks(page, serve, planted):
    root, rollout_id = planted
    page.goto(board_on(serve, root))
    expect(page.get_by_text("trainer/grad_norm")).to_be_visible()
    settled(page)
    titles = page.locator(".curves .card .name b").all_inner_texts()
    place = next(i for i, title in enumerate(titles) if title.startswith("trainer/grad_norm"))
    click_step(page, place, STEP)
    expect(page).to_have_url(re.compile(rf"step={STEP}\b"))
    page.get_by_role("button", name=re.compile(rf"Open token {TOKEN} of rollout")).click()
    expect(page).to_have_url(re.compile(rf"token={TOKEN}\b"))
    expect(page.locator("body")).to_contain_text(rollout_id)
