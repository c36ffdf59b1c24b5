"""Each page that looks closer leads by a click to the place that it tells of."""

import re
from base64 import b64encode

import pytest
from board_steps import SAMPLES, ServeCommand, board_on, click_point, click_row, click_step, settled
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

# The width of a PNG and its colours, read by the browser itself.
SEEN_IN = """async picture => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${picture}`)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height);
    const drawn = canvas.getContext("2d");
    drawn.drawImage(image, 0, 0);
    const { data } = drawn.getImageData(0, 0, image.width, image.height);
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4) colours.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return [image.width / devicePixelRatio, [...colours]];
}"""


def look(page: Page, serve: ServeCommand, where: str) -> None:
    """Opens a page on the bundled runs and waits until it stands."""
    page.goto(f"{board_on(serve, SAMPLES)}/{where}")
    expect(page.get_by_test_id("stMain").locator("h3").first).to_be_visible()
    settled(page)


def test_a_square_of_the_groups_opens_its_rollout(page, serve):
    look(page, serve, "groups?run=grpo_arithmetic&step=97")
    # Looked for anew each time: a page that runs again may mount the figure again.
    drawn = "document.querySelector('.js-plotly-plot')?._fullData?.[0]?.customdata"
    page.wait_for_function(drawn)
    index = page.evaluate(f"{drawn}[9]")
    click_point(page, 0, 0, 9)
    expect(page).to_have_url(re.compile(rf"/rollouts\?.*step=97&index={index}\b"))
    expect(page.get_by_text(f"Rollout {index}", exact=True)).to_be_visible()


def test_keys_go_from_group_to_group_and_open_its_best_rollout(page, serve):
    look(page, serve, "groups?run=grpo_arithmetic&step=150")
    expect(page.get_by_text("Take 54 from 77.").first).to_be_visible()
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(r"groups_id=s150g1\b"))
    settled(page)
    best = page.get_by_role("button", name=re.compile(r"^rollout \d+$")).first.inner_text()
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile(r"/rollouts\?"))
    expect(page.get_by_text(best.capitalize(), exact=True)).to_be_visible()
    settled(page)
    page.go_back()
    expect(page).to_have_url(re.compile(r"/step\?.*part=groups.*groups_id=s150g1\b"))


def test_a_row_of_the_prompts_shows_its_course_and_a_response_opens(page, serve):
    look(page, serve, "prompts?run=grpo_arithmetic")
    click_row(page, 0, 1)
    expect(page).to_have_url(re.compile(r"prompt=[0-9a-f]{16}\b"))
    expect(page.get_by_test_id("stCode").first).to_contain_text("Add 83 and 79.")
    click_row(page, 1, 0)
    expect(page).to_have_url(re.compile(r"/rollouts\?.*step=\d+.*index=\d+"))
    expect(page.get_by_text("Add 83 and 79.").first).to_be_visible()


def test_the_small_chart_of_an_environment_opens_its_rollouts(page, serve):
    look(page, serve, "?run=grpo_arithmetic&overview_by=env&overview_metrics=reward")
    click_step(page, 2, 31)
    expect(page).to_have_url(re.compile(r"/rollouts\?.*step=31\b.*env=subtract"))
    expect(page.get_by_text(re.compile(r"^\d+ of 32 rollouts$"))).to_be_visible()


def test_bounds_of_rules_are_set_and_a_step_of_their_curve_opens(page, serve):
    look(page, serve, "step?step_part=mismatch&run=ppo_critic&step=20")
    page.get_by_role("button", name="Bounds").click()
    field = page.get_by_label("ε high").first
    field.fill("0.05")
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"bounds=ratio_clip(:|%3A)0\.2(:|%3A)0\.05"))
    page.keyboard.press("Escape")
    main = page.get_by_test_id("stMain")
    begin = main.get_by_role("button", name="Read the tokens of all steps")
    begin.click()
    expect(page.get_by_text("Bounds 0.8 to 1.05.")).to_be_visible()
    # Neither the way to begin nor the way to stop: all is read, which takes a busy machine a while.
    expect(begin).to_have_count(0)
    expect(main.get_by_role("button", name="Stop")).to_have_count(0, timeout=120_000)
    settled(page)
    click_step(page, 0, 30)
    expect(page).to_have_url(re.compile(r"/step\?.*step=30\b.*step_part=mismatch.*bounds="))


def test_a_hit_of_a_word_opens_at_its_token(page, serve):
    look(page, serve, "words?run=grpo_arithmetic&step=97")
    expect(page.get_by_text("Common patterns")).to_be_visible()
    click_row(page, 1, 1)  # below the rising and falling phrases
    expect(page).to_have_url(re.compile(r"words_phrases=.*check.*words_regex=1"))
    hit = page.get_by_role("button", name=re.compile(r"rollout 25, token 16"))
    hit.click()
    expect(page).to_have_url(re.compile(r"/rollouts\?.*step=97.*index=25.*token=16"))
    expect(page.locator(".reader .panel")).to_contain_text("Token 16")


def test_a_curve_of_a_compared_run_is_saved_and_opens_that_run_at_that_step(page, serve):
    chosen = "run=grpo_arithmetic&compare_runs=grpo_reward_hack&compare_shifts=grpo_reward_hack:10"
    look(page, serve, f"compare?{chosen}&compare_metrics=reward")
    page.locator(".curves .card").first.hover()
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV", exact=True).click()
    lines = saved.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0] == 'step,"grpo_arithmetic","grpo_reward_hack +10 steps"'
    assert [line.split(",")[0] for line in lines[1:]] == [str(step) for step in range(1, 151)]
    page.locator(".curves .card").first.hover()
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG", exact=True).click()
    assert saved.value.suggested_filename == "reward.png"
    picture = b64encode(saved.value.path().read_bytes()).decode()
    plot = page.locator(".curves .u-over").first.bounding_box()
    width, colours = page.evaluate(SEEN_IN, picture)
    # All of the plot, and in it the two lines beside ground and letters.
    assert width > plot["width"]
    assert {"79,70,229", "13,148,136"} <= set(colours)
    # A curve that is hidden is out of the way: the other one is clicked.
    page.locator(".curves .legend").get_by_role("button", name="grpo_arithmetic").click()
    click_step(page, 0, 60)
    expect(page).to_have_url(
        re.compile(r"/step\?.*run=grpo_reward_hack&step=50&.*step_metric=reward")
    )
    expect(page.get_by_text("Reward is recorded per rollout")).to_be_visible()
