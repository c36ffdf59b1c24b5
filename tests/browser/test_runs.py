"""The table of all runs in a real browser: tick and compare, open, keys, and a URL that says it all."""

import json
import re

import pytest
from board_steps import SAMPLES, board_on, settled
from playwright.sync_api import Locator, Page, expect
from waits import until
from written_logs import native_run

pytestmark = pytest.mark.browser


@pytest.fixture
def filled(page, serve) -> Page:
    """The bundled runs, each with its summary."""
    page.goto(board_on(serve, SAMPLES))
    expect(page).to_have_url(re.compile("/runs$"))
    expect(page.locator(".runs .row")).to_have_count(6)
    expect(page.locator(".runs .skeleton")).to_have_count(0)
    settled(page)
    return page


def row(page: Page, name: str) -> Locator:
    link = page.locator(".run-name", has_text=re.compile(f"^{name}$"))
    return page.locator(".runs .row").filter(has=link)


def test_ticked_runs_are_compared_in_their_colours_and_back_leads_to_the_table(filled):
    bar, colours = filled.locator(".runs .bar"), []
    expect(bar).to_be_hidden()
    for name in ("grpo_calculator", "resumed"):
        box = row(filled, name).locator(".tick")
        box.click()
        expect(box).to_have_attribute("aria-checked", "true")
        colours.append(box.evaluate("box => getComputedStyle(box).backgroundColor"))
    assert len({*colours}) == 2
    expect(bar).to_contain_text("differ in")
    bar.get_by_role("button", name="Compare 2 runs").click()
    expect(filled).to_have_url(
        re.compile(r"/compare\?run=grpo_calculator&step=60.*compare_runs=resumed")
    )
    expect(filled.get_by_text("Settings that differ")).to_be_visible()
    settled(filled)
    filled.go_back()
    expect(filled.locator(".runs .row.ticked")).to_have_count(2)


def test_what_is_ticked_sorted_and_searched_survives_a_reload(filled):
    filled.get_by_role("button", name="steps", exact=True).click()
    row(filled, "resumed").locator(".tick").click()
    filled.keyboard.press("/")
    filled.keyboard.type("steps < 70")
    expect(filled).to_have_url(
        re.compile(r"runs_search=steps\+%3C\+70&runs_sort=steps&runs_ticked=resumed")
    )
    names = filled.locator(".runs .run-name")
    expect(names).to_have_text(["grpo_calculator", "grpo_calculator_trl", "ppo_critic", "resumed"])
    filled.reload()
    expect(names).to_have_text(["grpo_calculator", "grpo_calculator_trl", "ppo_critic", "resumed"])
    expect(row(filled, "resumed")).to_have_class(re.compile("ticked"))
    expect(filled.locator(".runs .search")).to_have_value("steps < 70")


def test_a_click_opens_a_run_and_keys_do_the_same(filled):
    row(filled, "ppo_critic").locator(".run-name").click()
    expect(filled).to_have_url(re.compile(r"/\?run=ppo_critic&step=50"))
    expect(filled.locator(".st-key-title h3")).to_have_text("ppo_critic")
    settled(filled)
    filled.get_by_role("link", name="Runs", exact=True).click()
    expect(row(filled, "ppo_critic")).to_have_class(re.compile("cursor"))
    # Keys work once their help is there.
    expect(filled.get_by_role("button", name="Keyboard shortcuts")).to_be_visible()
    settled(filled)
    cursor = filled.locator(".runs .row.cursor .run-name")

    def moves() -> bool:
        filled.keyboard.press("k")
        return cursor.inner_text() != "ppo_critic"

    until(filled, "k moves the cursor", moves)
    filled.keyboard.press("x")
    expect(filled.locator(".runs .row.cursor .tick")).to_have_attribute("aria-checked", "true")
    filled.keyboard.press("Escape")
    expect(filled.locator(".runs .row.ticked")).to_have_count(0)
    name = filled.locator(".runs .row.cursor .run-name").inner_text()
    settled(filled)
    filled.keyboard.press("Enter")
    expect(filled.locator(".st-key-title h3")).to_have_text(name)


def test_a_filter_and_the_picker_lead_to_a_run(filled):
    filled.get_by_role("checkbox", name=re.compile("^severe")).click()
    expect(filled.locator(".runs .run-name")).to_have_text(["grpo_reward_hack"])
    expect(filled).to_have_url(re.compile("runs_finding=severe"))
    settled(filled)
    filled.get_by_role("combobox").first.click()
    filled.keyboard.type("resu")
    filled.keyboard.press("Enter")
    expect(filled.locator(".st-key-title h3")).to_have_text("resumed")


LONG = "ppo_micro_batch_size_per_gpu_for_the_actor_and_the_critic"


@pytest.fixture
def seeds(page, serve, tmp_path) -> Page:
    """Two setups of three seeds each."""
    for lr in (1e-6, 3e-6):
        for seed in range(3):
            folder = native_run(tmp_path / f"lr{lr:g}_seed{seed}", per_rank=1)
            config = {"lr": lr, "seed": seed, LONG: int(lr * 1e6)}
            (folder / "run-z.json").write_text(json.dumps({"config": config}))
    page.goto(board_on(serve, tmp_path))
    expect(page.locator(".runs .row")).to_have_count(2)
    settled(page)
    return page


def test_seeds_unfold_and_are_ticked_together_by_keys(seeds):
    rows = seeds.get_by_role("treegrid", name="Runs").locator(".row")
    expect(rows.first.get_by_role("gridcell").nth(1)).to_contain_text("3 seeds")
    cursor = seeds.locator(".runs .row.cursor")

    def moves() -> bool:
        seeds.keyboard.press("j")
        return cursor.count() == 1

    until(seeds, "j moves the cursor", moves)
    seeds.keyboard.press("ArrowRight")
    expect(rows).to_have_count(5)
    expect(cursor).to_have_attribute("aria-expanded", "true")
    seeds.keyboard.press("x")
    expect(seeds.locator(".runs .row[aria-selected=true]")).to_have_count(4)  # and the group itself
    expect(seeds.locator(".runs .bar")).to_contain_text("Compare 3 runs")
    seeds.keyboard.press("j")
    seeds.keyboard.press("x")
    expect(seeds.locator(".runs .group-row .tick[aria-checked=mixed]")).to_have_count(1)
    expect(seeds.locator(".runs .bar")).to_contain_text("Compare 2 runs")
    seeds.keyboard.press("k")
    seeds.keyboard.press("o")
    expect(rows).to_have_count(2)
    settled(seeds)
    seeds.get_by_text("Fold seeds").click()
    expect(seeds).to_have_url(re.compile("runs_fold=0"))
    expect(seeds.get_by_role("grid", name="Runs").locator(".row")).to_have_count(6)


def test_tab_leads_to_one_row_and_heads_say_how_rows_are_sorted(seeds):
    table = seeds.get_by_role("treegrid", name="Runs")
    assert table.locator(".row[tabindex='0']").count() == 1
    head = table.get_by_role("columnheader", name="changed")
    expect(head).to_have_attribute("aria-sort", "descending")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")


def test_no_head_has_more_than_two_lines(seeds):
    heights = seeds.locator(".runs .heads .label").evaluate_all(
        "labels => labels.map(label => [label.scrollHeight, label.clientHeight])"
    )
    assert len(heights) > 3
    assert all(inner <= outer <= 30 for inner, outer in heights), heights


def test_nothing_is_cut_at_the_right_edge_of_the_table(page, serve, tmp_path):
    for n in range(13):
        folder = native_run(tmp_path / f"grpo_with_a_long_name_of_its_own_{n}", per_rank=1 + n % 2)
        config = {key: f"{key}-{n}-of-some-length" for key in ("model", "loss_type", "scheduler")}
        (folder / "run-z.json").write_text(json.dumps({"config": config | {"beta": n}}))
    page.goto(board_on(serve, tmp_path))
    expect(page.locator(".runs .row")).to_have_count(13)
    expect(page.locator(".runs .skeleton")).to_have_count(0)
    for width in (1440, 1100):
        page.set_viewport_size({"width": width, "height": 900})
        settled(page)
        cut = page.locator(".runs .scroller").evaluate(
            """scroller => {
              const edge = scroller.getBoundingClientRect().left + scroller.clientWidth;
              const cells = [...scroller.querySelectorAll(".cell, .cell .label")];
              const isCut = (one) =>
                one.getBoundingClientRect().right > edge + 1 || one.scrollWidth > one.clientWidth + 1;
              return cells.filter(isCut).map((one) => one.textContent);
            }"""
        )
        assert cut == []
        expect(page.get_by_role("columnheader", name="changed")).to_be_in_viewport(ratio=1)
