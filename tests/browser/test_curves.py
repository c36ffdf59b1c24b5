"""Curves of a page share the pointed step and the zoom, and their axes name the same steps."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_steps import SAMPLES, ServeCommand, board_on, drag_over, settled
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Locator, Page, expect

import board.components.curve_grid
from board.charts.layout import step_ends, step_ticks

pytestmark = pytest.mark.browser

SCRIPTS = Path(board.components.curve_grid.__file__).parent / "js"
AXIS = SCRIPTS / "axis.js"
STEP_SIZES = st.builds(
    lambda factor, power: factor * 10.0**power,
    st.sampled_from((1, 2, 2.5, 5)),
    st.integers(-12, 9),
)


def curves(page: Page, serve: ServeCommand, place: str, curve: int) -> tuple[Locator, Locator]:
    """The cards of a page, and the plot of one of them."""
    page.goto(f"{board_on(serve, SAMPLES)}/{place}?run=grpo_arithmetic")
    cards = page.locator(".curves .card")
    plot = cards.nth(curve).locator(".u-over")
    expect(plot).to_be_visible()
    settled(page)
    return cards, plot


@pytest.mark.parametrize("place", ["", "prompts"])
def test_a_zoom_is_of_all_curves_and_in_the_url_until_it_is_taken_back(page, serve, place):
    cards, plot = curves(page, serve, place, 1)
    entries = page.evaluate("history.length")
    drag_over(page, plot, 0.3, 0.6)
    expect(page).to_have_url(re.compile(r"steps=\d+-\d+"))
    zoom = re.search(r"steps=(\d+)-(\d+)", page.url)
    for card in cards.all():
        expect(card).to_have_attribute("data-zoom", f"{zoom[1]},{zoom[2]}")
    settled(page)
    assert page.evaluate("history.length") == entries
    expect(page.get_by_text(f"Steps {zoom[1]}–{zoom[2]}")).to_be_visible()
    page.reload()
    expect(cards.first).to_have_attribute("data-zoom", f"{zoom[1]},{zoom[2]}")
    settled(page)
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("steps="))
    expect(cards.first).to_have_attribute("data-zoom", "")


def test_the_step_under_the_pointer_is_shown_in_every_curve(page, serve):
    cards, plot = curves(page, serve, "", 0)
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.move(box["x"] + box["width"] * 0.5 + 3, box["y"] + 20)
    crosses = page.locator(".curves .cross")
    expect(crosses.first).to_be_visible()
    message = {card.locator(".readout span").first.inner_text() for card in cards.all()}
    assert len(message) == 1
    assert message != {"step 150"}
    assert all(cross.is_visible() for cross in crosses.all())


def test_of_a_run_that_ended_before_the_chosen_step_no_curve_has_a_value_there(page, serve):
    board = board_on(serve, SAMPLES)
    page.goto(f"{board}/compare?run=grpo_reward_hack&compare_runs=ppo_critic&step=100")
    truncated = page.locator(".curves .card").filter(has_text="Truncated").locator(".readout")
    expect(truncated).to_contain_text("step 100")
    assert truncated.locator("b").all_inner_texts() == ["88 %"]


@pytest.mark.parametrize("ends", [(0, 0), (1, 5), (10, 35), (1, 100), (-5, 3), (7, 123_456)])
def test_light_charts_and_those_of_plotly_name_the_same_steps(page, ends):
    page.set_content("<p>")
    page.add_script_tag(content=AXIS.read_text(encoding="utf-8"))
    assert page.evaluate("ends => stepTicks(...ends)", ends) == step_ticks(*ends)
    assert page.evaluate("ends => stepEnds(...ends)", ends) == pytest.approx(step_ends(*ends))


def test_a_point_of_a_prompt_opens_its_rollout(page, serve):
    _, plot = curves(page, serve, "prompts", 1)
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    tip = page.locator(".curves .tip:not([hidden])")
    for share in (0.1, 0.15, 0.2, 0.25, 0.3):  # the longest response of the first step is up there
        page.mouse.move(box["x"] + box["width"] * 0.016, box["y"] + box["height"] * share)
        if tip.count() and re.search(r"step 1, rollout \d+$", tip.inner_text()):
            break
    expect(tip).to_contain_text(re.compile(r"step 1, rollout \d+$"))
    page.mouse.down()
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"/rollouts\?.*step=1&index=\d+"))


def test_a_click_on_the_mark_of_a_finding_opens_the_finding(page, serve):
    page.goto(f"{board_on(serve, SAMPLES)}/?run=grpo_reward_hack")
    mark = page.locator(".curves .mark.finding:not([hidden])").first
    expect(mark).to_have_attribute("title", re.compile(r"^Step \d+, \w+: "))
    settled(page)
    mark.click()
    expect(page).to_have_url(re.compile(r"/findings\?"))


@pytest.fixture(scope="module")
def script(chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page()
    for part in ("axis", "words", "plot"):
        page.add_script_tag(content=(SCRIPTS / f"{part}.js").read_text(encoding="utf-8"))
    yield page
    page.close()


@settings(max_examples=200, deadline=None)
@given(STEP_SIZES, st.integers(-(10**6), 10**6), st.booleans(), st.booleans())
def test_ticks_have_different_numbers_that_are_theirs(script, distance, first, percent, digits):
    ticks = [distance * (first + place) for place in range(5)]
    axis = {"labels": True, "percent": percent, "digits": digits}
    labels = script.evaluate("given => valueLabels(...given)", [axis, ticks, distance])
    assert len({*labels}) == len(ticks)
    factors = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, " %": 0.01}
    for tick, label in zip(ticks, labels, strict=True):
        size = next((name for name in factors if label.endswith(name)), "")
        plain = label.removesuffix(size).replace(",", "").replace("−", "-")
        assert abs(float(plain) * factors.get(size, 1) - tick) < distance / 2


def test_only_lines_and_what_their_bands_may_reach_decide_the_axis(script):
    line = {"x": [1, 2, 3], "y": [0.2, 0.4, 0.3], "low": [0.1, 0.2, 0.2], "high": [0.4, 0.6, 0.4]}
    band = {"x": [1, 2, 3, 3, 2, 1], "y": [0, 0, 0, 0.4, 99, 0.4], "recorded": False}
    chart = {"lines": [line], "shapes": [band], "dots": [], "y": {"log": False}}
    low, high = script.evaluate("valueRange", chart)
    assert low == pytest.approx(0.1, abs=0.05)
    assert high == pytest.approx(0.6, abs=0.05)
    recorded = {**band, "recorded": True}
    assert script.evaluate("valueRange", {**chart, "shapes": [recorded]})[1] > 99
