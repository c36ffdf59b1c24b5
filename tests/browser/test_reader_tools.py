"""The reader's tools: masks, strip and heat map, regex, top-k, folding, windows, side by side."""

import re

import pytest
from board_steps import drag_over
from playwright.sync_api import expect
from reader_cases import TRAP, masked
from reader_steps import expect_chosen, expect_report, open_case
from waits import until

from board.core.tokens.masks import RULES, hit

pytestmark = pytest.mark.browser


def count_of(name: str, numbers: dict[str, float]) -> int:
    """Loss tokens that Python's rule hits in the case "masks"."""
    content = masked()
    metrics, rule = content["metrics"], RULES[name]
    compared = rule.compared(metrics) or ""
    hits = hit(rule, metrics[compared], numbers, metrics["advantages"])
    return int((hits & (content["loss_mask"] > 0)).sum())


# Sets a threshold and counts what it hits in one task of the page, before any rerun could answer.
SET_THRESHOLD = """(field, value) => {
  field.value = value;
  field.dispatchEvent(new Event("input"));
  return field.getRootNode().querySelectorAll(".flow .mask-a").length;
}"""


def test_a_threshold_recolours_without_a_rerun_and_counts_as_python_does(page, serve):
    view = open_case(page, serve, "masks", metric="mismatch_ratio")
    token = view.locator(".flow .token").nth(50)
    coloured = re.compile(r"\b(high|low)\d")
    expect(token).to_have_class(coloured)
    before = token.get_attribute("class") or ""
    view.get_by_role("button", name="Masks").click()
    expect(token).not_to_have_class(coloured)
    slot = view.locator(".slot").first
    for name in ("dppo", "icepop", "tis"):
        slot.locator("select").select_option(name)
        rule, threshold = RULES[name], RULES[name].high
        for number in (threshold.default, threshold.lowest):
            field = slot.get_by_label(f"{rule.label}, {threshold.name}").last
            expected = count_of(name, {threshold.name: number})
            assert field.evaluate(SET_THRESHOLD, str(number)) == expected
            expect(slot.locator(".mask-count")).to_contain_text(re.compile(rf"^{expected} |^0 "))
    view.get_by_role("button", name="Masks").click()
    expect(token).to_have_class(before)


def test_masks_strip_and_zoom_are_told_and_can_be_asked_for(page, serve):
    view = open_case(page, serve, "masks")
    view.get_by_role("button", name="Masks").click()
    # The ratio clip starts at the run's own range.
    expect_report(page, "masks=(('ratio_clip', (0.1, 0.3)), ('is_masked', ()))")
    expect(view.get_by_label("Ratio clip (PPO, GRPO), ε low").last).to_have_value("0.1")
    expected = count_of("ratio_clip", {"ε low": 0.1, "ε high": 0.3})
    expect(view.locator(".flow .mask-a")).to_have_count(expected)
    slot = view.locator(".slot").first
    slot.locator("select").select_option("tis")
    slot.get_by_label("C").last.fill("3")
    expect_report(page, "masks=(('tis', (3.0,)), ('is_masked', ()))")
    view.locator("select.second").select_option(label="Log-probability, policy")
    expect_report(page, "strip=logprobs")
    page.get_by_role("button", name="ask for masks, strip and zoom").click()
    expect(slot.get_by_label("C").last).to_have_value("1.5")
    expect_chosen(view, "second", "Mismatch ratio, trainer / sampler")
    view.locator("canvas.strip").hover(position={"x": 2, "y": 30})
    expect(view.locator(".readout")).to_contain_text("#50 ")
    view.get_by_role("button", name="whole response").click()
    expect_report(page, "zoom=None")


def test_two_masks_and_the_trainer_s_are_compared_token_by_token(page, serve):
    view = open_case(page, serve, "masks")
    view.get_by_role("button", name="Masks").click()
    selects = view.locator(".mask-source")
    selects.nth(0).select_option("tis")
    selects.nth(1).select_option("is_masked")
    content = masked()
    inside = content["loss_mask"] > 0
    capped = (content["metrics"]["mismatch_ratio"] > 2) & inside
    trainer = (content["metrics"]["is_masked"] > 0) & inside
    facts = [capped & trainer, capped & ~trainer, ~capped & trainer, ~capped & ~trainer & inside]
    expect(view.locator(".fact b")).to_have_text([str(int(fact.sum())) for fact in facts])
    expect(view.locator(".flow .mask-a.mask-b")).to_have_count(int(facts[0].sum()))
    selects.nth(1).select_option("icepop")
    expect(view.locator(".agreement-title")).to_have_text(
        [re.compile("A and B"), re.compile("A and the trainer"), re.compile("B and the trainer")]
    )
    only_a, only_b = (view.locator(f".slot-head .mask-{side}") for side in ("a", "b"))
    expect(only_a).to_have_css("border-bottom-width", "0px")
    expect(only_b).to_have_css("border-bottom-width", "4px")
    colour = "e => getComputedStyle(e).backgroundColor"
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        expect(view).to_have_attribute("data-theme", theme)
        assert only_a.evaluate(colour) != only_b.evaluate(colour)


def test_a_rule_whose_values_are_missing_says_what_it_needs(page, serve):
    view = open_case(page, serve, "2000")
    view.get_by_role("button", name="Masks").click()
    option = view.locator(".mask-source").first.locator("option[value=ratio_clip]")
    expect(option).to_be_disabled()
    expect(option).to_contain_text("needs exp(logprobs - old_logprobs)")


def test_strip_and_text_point_at_each_other_a_second_metric_joins_and_a_drag_zooms(page, serve):
    view = open_case(page, serve, "2000")
    strip = view.locator("canvas.strip")
    width = strip.evaluate("e => e.clientWidth")
    strip.click(position={"x": width * 0.75, "y": 30})
    expect(view.locator(".pinned-index")).to_have_text(re.compile(r"Token 1,(49|50)\d"))
    expect(view.locator(".token.pinned")).to_be_in_viewport()
    view.locator(".token.pinned").hover()
    expect(view.locator(".readout")).to_contain_text(re.compile(r"#1,(49|50)\d"))
    strip.hover(position={"x": 5, "y": 30})
    expect(view.locator(".readout")).to_contain_text(re.compile(r"#(\d|1\d) "))
    view.locator("select.second").select_option(label="Entropy, policy")
    expect(view.locator(".readout")).to_contain_text("Entropy, policy")
    drag_over(page, strip, 0.5, 0.6)
    whole = view.get_by_role("button", name="whole response")
    expect(whole).to_be_visible()
    strip.hover(position={"x": 2, "y": 30})
    expect(view.locator(".readout")).to_contain_text(re.compile(r"#1,00\d"))
    strip.dblclick(position={"x": 2, "y": 30})
    expect(whole).to_be_hidden()


def test_the_heat_map_has_a_row_per_metric_whose_name_picks_it_and_the_scale_can_span_the_step(
    page, serve
):
    view = open_case(page, serve, "2000", heat=1)
    names = view.locator(".heat-name")
    expect(names).to_have_count(10)
    names.nth(1).click()
    expect_report(page, "metric=entropy")
    expect(names.nth(1)).to_have_class(re.compile("chosen"))
    shades = "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
    painted = view.locator("canvas.heat")
    until(page, "the heat map is painted", lambda: painted.evaluate(shades) > 20)
    names.nth(0).click()
    view.get_by_label("Colour scale over").select_option("step")
    expect_report(page, "over=step")
    expect(view.locator(".range")).to_have_text("p1–p99 of the step, log")
    expect(view.locator(".legend .end")).to_have_text(["-60 … -50", "50 … 60 nats"])


def test_find_takes_a_regular_expression_and_says_when_it_is_none(page, serve):
    view = open_case(page, serve, "hostile")
    view.locator("input.find").focus()
    view.get_by_role("button", name="Regular expression").click()
    view.locator("input.find").fill("hacked=[12]")
    expect(view.locator(".find-count")).to_have_text("2")
    view.locator("input.find").fill("hacked=[")
    expect(view.locator(".find-count")).to_contain_text("character class")
    expect(view.locator(".flow .hit")).to_have_count(0)


def test_recorded_alternatives_stand_under_the_pointer(page, serve):
    view = open_case(page, serve, "topk")
    view.locator(".flow .token").nth(2).hover()
    rows = view.locator(".tip .alternatives tr:not(.group)")
    expect(rows.locator(".piece")).to_have_text(["<b>maybe</b>", "yes"])
    expect(rows.locator(".value")).to_have_text(["0.5", "0.125"])
    view.locator(".flow .token").nth(1).hover()
    expect(rows).to_have_count(1)
    view.locator(".flow .token").nth(1).click()
    expect(view.locator(".panel .note").first).to_have_text("id 5")


def test_values_without_a_token_stand_apart_and_marked(page, serve):
    view = open_case(page, serve, "surplus")
    head = view.locator(".segment[data-role=surplus] .head")
    expect(head).to_contain_text("values without a token")
    expect(head).to_contain_text("2 values")
    expect(view.locator(".flow .token.surplus")).to_have_count(2)
    view.locator(".flow .token").nth(3).hover()
    expect(view.locator(".tip .value").first).to_have_text("3")
    expect(view.locator(".tip .note")).to_have_text("a value without a token")
    view.locator("select.metric").select_option("1")  # nothing but NaN
    expect(view.locator(".range")).to_have_text("no finite value in this rollout")


def test_parts_of_a_character_are_marks_and_no_text(page, serve):
    view = open_case(page, serve, "split")
    tokens = view.locator(".flow .token")
    expect(tokens).to_have_count(9)
    assert tokens.all_text_contents() == [
        *("", "", "你", "·", "e\u0301", "❤\ufe0f", "⟨FE0F⟩", "مرحبا", " بك")
    ]
    expect(tokens.nth(0).locator(".mark.part")).to_have_count(1)
    view.locator("input.find").fill("你·")
    expect(view.locator(".find-count")).to_have_text("1")


def test_a_folded_turn_opens_for_the_token_one_jumps_to(page, serve):
    view = open_case(page, serve, "turns")
    expect(view.locator(".head .who")).to_have_text(["assistant", "tool", "assistant"])
    tool = view.locator(".segment[data-role=tool]")
    page.keyboard.press("t")
    expect(tool.locator(".tokens")).to_be_hidden()
    view.locator(".flow").focus()
    page.keyboard.press("n")
    expect(view.locator(".pinned-index")).to_have_text("Token 300")
    expect(tool.locator(".tokens")).to_be_visible()
    expect(view.locator(".token.pinned")).to_be_in_viewport()


def test_a_very_long_response_has_elements_only_near_what_is_seen(page, serve):
    view = open_case(page, serve, "128000", metric="entropy", pinned=127_990)
    expect_chosen(view, "metric", "Entropy, policy")
    expect(view.locator(".pinned-index")).to_have_text("Token 127,990")
    expect(view.locator(".token.pinned")).to_be_in_viewport()
    assert view.locator(".flow .token").count() < 20_000
    expect(view.locator(".flow .block").first).to_have_text(re.compile(r"[\s\S]{500}"))
    view.locator(".flow").focus()
    page.keyboard.press("n")
    expect(view.locator(".token.pinned")).to_be_in_viewport()


def test_no_field_of_a_log_can_run_or_fetch_anything(page, serve):
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    view = open_case(page, serve, "traps", heat=1)
    view.locator(".flow .token").first.click()
    view.get_by_role("button", name="Masks").click()
    view.locator("input.find").fill(TRAP[:20])
    view.get_by_label("Colour scale over").select_option("step")
    view.locator(".flow .token").first.hover()
    readable = TRAP.replace("\u202e", "⟨202E⟩")
    expect(view.locator(".flow .token").first).to_have_text(readable)
    expect(view.locator(".head .who").first).to_have_text(readable)
    for fold in view.locator(".given-turn .chevron-button").all():
        fold.click()
    expect(view.locator(".prompt").first).to_have_text(readable)
    expect(view.locator(".given")).to_have_text(readable)
    expect(view.locator(".panel .alternatives .piece")).to_contain_text(TRAP[:20])
    expect(view.locator(".range")).to_contain_text(TRAP[:20])
    assert view.locator("script, img, iframe, a").count() == 0
    assert page.evaluate("window.hacked") is None
    assert [url for url in fetched if ":9/" in url] == []
