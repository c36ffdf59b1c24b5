"""The reader in a real browser: what it shows, what it never does, and what it reports."""

import re

import pytest
from playwright.sync_api import expect
from reader_cases import GIVEN, HOSTILE, PEAK
from reader_steps import expect_chosen, expect_report, open_case

pytestmark = pytest.mark.browser

# Runs in one task of the page, so that no message from the server can come between.
SWITCH_METRIC = """(select, rank) => {
  const token = select.getRootNode().querySelectorAll(".flow .token")[19];
  const before = token.className;
  select.value = rank;
  select.dispatchEvent(new Event("change"));
  return [before, token.className];
}"""


def test_hostile_tokens_are_text_and_nothing_else(page, serve):
    view = open_case(page, serve, "hostile")
    for fold in view.locator(".given-turn .chevron-button").all():
        fold.click()
    visible = view.locator(".flow .token").all_text_contents()
    assert [text for text, token in zip(visible, HOSTILE, strict=True) if text != token] == [
        "⟨202E⟩abc",
        "⟨200B⟩",
        "⟨0007⟩",
    ]
    expect(view.locator(".flow .prompt")).to_contain_text(["<script>window.hacked=3</script>"] * 2)
    expect(view.locator(".flow .given")).to_have_count(len(GIVEN))
    expect(view.locator(".segment .name", has_text="<b>search</b>")).to_be_visible()
    assert view.locator("script, img, iframe, a, .flow b:not(.mark)").count() == 0
    for token, mark in (("", "void"), ("\n", "newline"), ("\ttab", "tab")):
        place = HOSTILE.index(token)
        expect(view.locator(".flow .token").nth(place).locator(f".mark.{mark}")).to_have_count(1)


def test_whoever_spoke_last_decides_on_pin_and_metric(page, serve):
    view = open_case(page, serve, "hostile")
    pinned, tokens = view.locator(".pinned-index"), view.locator(".flow .token")
    tokens.nth(PEAK).click()
    expect(pinned).to_have_text(f"Token {PEAK}")
    expect(view.locator(".panel tr.chosen .value")).to_have_text("2.5")
    expect_report(page, f"pinned={PEAK} metric=k1")
    page.keyboard.press("Escape")
    expect_report(page, "pinned=None ")
    page.get_by_role("button", name="ask for entropy and token 7").click()
    expect(pinned).to_have_text("Token 7")
    expect_chosen(view, "metric", "Entropy, policy")
    expect_report(page, "pinned=7 metric=entropy")
    tokens.nth(4).click()
    expect_report(page, "pinned=4 metric=entropy")
    expect(pinned).to_have_text("Token 4")
    page.get_by_role("button", name="ask for another rollout").click()
    expect(tokens).to_have_count(2000)
    expect(view.locator(".token.pinned")).to_have_count(0)
    expect_report(page, "pinned=None ")


def test_a_metric_switch_recolours_before_any_rerun_and_what_is_missing_looks_different(
    page, serve
):
    view = open_case(page, serve, "hostile")
    before, after = view.locator("select.metric").evaluate(SWITCH_METRIC, 1)
    assert "high15" in before
    assert "high15" not in after
    assert "high" in after
    expect_report(page, "metric=entropy")
    expect(view.locator(".legend .end").last).to_contain_text("nats")
    tokens = view.locator(".flow .token")
    for place, look in ((5, "absent"), (3, "nan"), (1, "outside")):
        expect(tokens.nth(place)).to_have_class(re.compile(rf"\b{look}\b"))
    expect(tokens.nth(6)).not_to_have_class(re.compile(r"\b(absent|nan|outside)\b"))
    view.locator("select.metric").select_option("2")  # without any value
    expect(view.locator(".range")).to_have_text("not recorded for this rollout")
    expect(view.locator(".peak-count")).to_have_text("no peaks")
    expect(view.locator(".histogram")).to_be_hidden()


def test_colours_follow_the_theme(page, serve):
    view = open_case(page, serve, "hostile")
    colours = {"dark": "rgba(255, 145, 60, 0.56)", "light": "rgba(230, 97, 0, 0.78)"}
    for theme, colour in colours.items():
        page.emulate_media(color_scheme=theme)
        expect(view).to_have_attribute("data-theme", theme)
        expect(view.locator(".flow .token").nth(PEAK)).to_have_css("background-color", colour)


def test_hover_tells_every_metric_with_its_percentile_and_none_of_the_prompt(page, serve):
    view = open_case(page, serve, "hostile")
    view.locator(".flow .token").nth(PEAK).hover()
    tip = view.locator(".tip")
    expect(tip.locator(".label")).to_have_text(["KL(policy‖ref), k1", "Entropy, policy"])
    expect(tip.locator(".value")).to_have_text(["2.5", "0.76"])
    expect(tip.locator(".rank")).to_have_text([re.compile("[0-9]+")] * 2)
    view.locator(".flow .token").nth(PEAK).click()
    expect(view.locator(".panel .metric .value")).to_have_text(["2.5", "0.76", "not recorded"])
    page.keyboard.press("Escape")
    view.locator(".given-turn .chevron-button").first.click()
    of_prompt = view.locator(".flow .given").nth(2)
    of_prompt.hover()
    expect(tip.locator(".index")).to_have_text("prompt #2")
    expect(tip.locator(".note")).to_have_text("id 102")
    expect(tip.locator(".value")).to_have_count(0)
    of_prompt.click()
    expect(view.locator(".pinned-index")).to_have_count(0)


def test_keys_jump_to_peaks_move_find_and_clear(page, serve):
    view = open_case(page, serve, "2000")
    pinned = view.locator(".pinned-index")
    page.keyboard.press("n")  # from the page: nothing was clicked
    expect(pinned).to_have_text("Token 1,000")
    expect(view.locator(".token.pinned")).to_be_in_viewport()
    expect(view.locator(".peak-count")).to_have_text("peak 1 of 20 by value")
    page.keyboard.press("ArrowRight")
    expect(pinned).to_have_text("Token 1,001")
    page.keyboard.press("p")
    expect(pinned).to_have_text("Token 1,000")
    page.keyboard.press("ArrowDown")
    expect(pinned).not_to_have_text("Token 1,000")
    page.keyboard.press("/")
    expect(view.locator("input.find")).to_be_focused()
    page.evaluate("document.addEventListener('keydown', () => (window.leaked = true))")
    view.locator("input.find").press("c")
    view.locator(".flow").press("n")
    assert page.evaluate("window.leaked") is None, "keys typed into the view are its own"


def test_an_open_card_follows_n_and_p(page, serve):
    view = open_case(page, serve, "2000")
    view.locator(".flow .token").nth(3).hover()
    tip = view.locator(".tip .index")
    expect(tip).to_have_text("#3")
    page.keyboard.press("n")
    expect(tip).to_have_text("#1,000")
    expect(view.locator(".tip")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(view.locator(".tip")).to_be_hidden()


def test_find_sees_across_token_borders_and_opens_the_prompt_that_holds_the_match(page, serve):
    view = open_case(page, serve, "hostile")
    prompts, hits = view.locator(".prompt"), view.locator(".flow .hit")
    view.locator("input.find").fill("<SCRIPT>window")
    expect(hits).to_have_text(["<script>", "window.hacked=1"])
    for key, place, prompt in (
        ("Enter", "1", 0),
        ("Shift+Enter", "241", 0),
        ("Shift+Enter", "240", 1),
    ):
        expect(prompts.nth(1)).to_be_hidden()
        page.keyboard.press(key)
        expect(view.locator(".find-count")).to_have_text(f"{place} of 241")
        expect(prompts.nth(prompt)).to_be_visible()
    marked = page.evaluate("[...CSS.highlights.get('reader-hit-now')].map(String)")
    assert marked == ["<script>window"]
    page.keyboard.press("Escape")
    expect(hits).to_have_count(0)


def test_no_tokens_is_an_empty_state(page, serve):
    view = open_case(page, serve, "empty")
    expect(view.locator(".empty")).to_have_text("This response has no tokens.")


def test_a_token_of_10_kb_wraps_and_small_values_are_not_zero(page, serve):
    view = open_case(page, serve, "long")
    flow = view.locator(".flow")
    assert flow.evaluate("e => e.scrollWidth <= e.clientWidth")
    view.locator(".flow .token").nth(2).hover()
    expect(view.locator(".tip .value")).to_have_text("-1e-5")
