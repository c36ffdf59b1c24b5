"""The exported pages: what is on each, that nothing else can be, the cap of size, and redaction."""

import json
import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from read_formats import sample_run
from written_logs import HOSTILE, hostile_run, native_run, texts_only_run, write_lines

from board.analysis.findings import diagnose
from board.analysis.rollout import open_rollout
from board.analysis.spike import spike_of
from board.core.metrics.definitions import rollout_metric
from board.core.metrics.shares import percent
from board.core.tokens.contributions import whole
from board.errors import ChoiceError
from board.export.compared_page import compared_page
from board.export.comparison_part import Side
from board.export.findings_page import finding_page, findings_page, named
from board.export.pages import (
    PageOptions,
    comparison_page,
    first_rows,
    group_page,
    listed_page,
    rollout_page,
    step_page,
)
from board.export.rollout_part import Address
from board.export.run_pages import (
    RunsTable,
    failures_page,
    mismatch_page,
    overview_page,
    prompts_page,
    runs_page,
)
from board.export.sheet import StaticPage
from board.index.discovery.discovered_runs import discover
from board.query.compare.answer import answer
from board.query.compare.ends import run_ends
from board.query.compare.paired import paired_runs
from board.query.open_run import Run, open_run

CHECKED = "30 of 30 rules checked the run."


TAGS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body main footer section div span p pre b i s a dl dt dd h1 h2 h3 "
        "table thead tbody tr th td details summary svg g path polygon polyline circle text",
    )
)
ATTRIBUTES = frozenset(
    re.findall(
        r"[\w-]+",
        "lang charset http-equiv content name class id title href viewbox role d points x y cx cy r "
        "text-anchor",
    )
)
PLAIN = PageOptions()


def run_at(folder: Path) -> Run:
    (info,) = discover(folder).runs
    return open_run(info)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_at(native_run(tmp_path_factory.mktemp("native") / "run"))


def elements(page: StaticPage) -> list[tuple[str, dict[str, str | None]]]:
    """Every element of the page with its attributes; its text is appended as element "text of"."""
    collected: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser(convert_charrefs=True)
    parser.handle_starttag = lambda tag, attrs: collected.append((tag, dict(attrs)))
    parser.handle_data = lambda data: collected.append(("text of", {"text": data}))
    parser.feed(page.html.decode())
    parser.close()
    return collected


def text_of(page: StaticPage) -> str:
    return "".join(own["text"] or "" for tag, own in elements(page) if tag == "text of")


def assert_inert(page: StaticPage) -> None:
    """Nothing but known elements and attributes, links within the page, and one style."""
    found_tags: list[str] = []
    for tag, attributes in elements(page):
        if tag != "text of":
            found_tags.append(tag)
            assert tag in TAGS
            assert not attributes.keys() - ATTRIBUTES
            assert str(attributes.get("href", "#")).startswith("#")
    assert found_tags.count("style") == found_tags.count("title") - found_tags.count("svg") == 1
    assert b"default-src 'none'" in page.html


def side(run: Run, step: int, index: int) -> Side:
    return Side(run, open_rollout(run, step, index), Address(step, index))


def every_page(run: Run, options: PageOptions = PLAIN) -> dict[str, StaticPage]:
    """Each kind of page that a run can have."""
    step = next(iter(run.counts))
    findings = diagnose(run).findings
    rows = first_rows(run, None)
    group = str(run.of_step(step)["group_id"].iloc[0])
    hostile = HOSTILE[0]
    table = RunsTable(["run", hostile], [[hostile] * 2], [False] * 2, 2, hostile, [hostile])
    makers = {
        "rollout": partial(rollout_page, run, Address(step, 0, 1)),
        "comparison": partial(comparison_page, side(run, step, 0), side(run, step, 1)),
        "list": partial(listed_page, run, rows, len(rows) + 1, HOSTILE[2]),
        "step": partial(step_page, run, step, 4),
        "group": partial(group_page, run, group, step),
        "findings": partial(findings_page, run, findings, CHECKED),
        "overview": partial(overview_page, run, step),
        "failures": partial(failures_page, run),
        "prompts": partial(prompts_page, run),
        "compared": partial(compared_page, [run, run], run.metrics, [0, 1], "steps"),
        "runs": partial(runs_page, table, run.info.name),
    }
    makers |= {f"finding {n}": partial(finding_page, run, one) for n, one in enumerate(findings)}
    if "mismatch_kl_mean" in run.metrics:
        makers["mismatch"] = partial(mismatch_page, run, step)
    return {name: make(options) for name, make in makers.items()}


def test_hostile_text_is_text_on_every_page(tmp_path):
    hostile_run(tmp_path)
    run = run_at(tmp_path)
    pages = every_page(run)
    for page in pages.values():
        assert_inert(page)
    shown_texts = text_of(pages["rollout"])
    for trap in HOSTILE:
        assert trap.replace("{n}", "prompt") in shown_texts
        assert trap in shown_texts  # of a token


def test_text_that_cannot_be_seen_or_sent_is_named(tmp_path):
    odd = '"a\\u0000b\\ud800c\\u202ed\\u2028e\\u200f"'
    line = f'{{"step": 1, "prompt": {odd}, "response": {odd}, "group_id": {odd}, "reward": 1}}'
    tokens = f'{{"step": 1, "response_tokens": [{odd}, "z"], "logprobs": [-1, -2], "reward": 0}}'
    write_lines(tmp_path / "run" / "a.jsonl", [line, tokens])
    run = run_at(tmp_path)
    for index in (0, 1):
        page = rollout_page(run, Address(1, index), PLAIN)
        assert_inert(page)
        assert "a⟨0000⟩b�c⟨202E⟩d⟨2028⟩e⟨200F⟩" in text_of(page)


def test_a_rollout_has_its_facts_texts_and_values(native):
    page = rollout_page(native, Address(0, 3, position=2), PageOptions(metric="entropy"))
    assert_inert(page)
    text = text_of(page)
    for part in (
        "Step 0, rollout 3 of run",
        "Prompt",
        "Entropy, policy",
        "length",
        "group 1",
    ):
        assert part in text
    titles = [own["title"] or "" for tag, own in elements(page) if tag == "i" and "title" in own]
    opened = open_rollout(native, 0, 3)
    assert len(titles) == len(opened.tokens)
    for i, title in enumerate(titles):
        assert title.startswith(f"{i}\nentropy {0.2 * i:.3g}\n")
        assert f"logprobs {opened.metrics['logprobs'][i]:.3g}" in title
    (marked,) = [
        own for tag, own in elements(page) if tag == "i" and "e" in str(own.get("class")).split()
    ]
    assert marked["title"] == titles[2]
    assert marked["id"] == "r0-3-2"


def test_the_largest_tokens_come_first_and_link_to_their_place(native):
    page = rollout_page(native, Address(0, 0), PageOptions(metric="entropy"))
    links = [own["href"] for tag, own in elements(page) if tag == "a"]
    assert links == [f"#r0-0-{place}" for place in (5, 4, 3, 2, 1)]  # 6 and 7 are outside the loss
    ids = {own.get("id") for _, own in elements(page)}
    assert {str(link)[1:] for link in links} <= ids


def test_every_link_leads_to_something_on_its_page(native):
    for name, page in every_page(native).items():
        ids = {own["id"] for _, own in elements(page) if "id" in own}
        links = {str(own["href"])[1:] for tag, own in elements(page) if tag == "a"}
        assert links <= ids, name


def test_what_is_not_recorded_is_said_and_is_no_zero(tmp_path):
    run = run_at(texts_only_run(tmp_path / "run"))
    page = rollout_page(run, Address(1, 0), PLAIN)
    assert "reward not recorded" in re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page.html.decode()))
    assert "answer 1" in text_of(page)


def test_a_step_shows_its_lowest_and_highest_rewards(native):
    page = step_page(native, 0, 4, PLAIN)
    rewards = native.of_step(0).sort_values("reward")["index"].tolist()
    shown_rollouts = re.findall(r"<section id=r0-(\d+)>", page.html.decode())
    assert [int(one) for one in shown_rollouts] == [*rewards[:2], *rewards[-2:]]
    assert "4 of 8 rollouts: the lowest and highest rewards" in text_of(page)


@pytest.mark.parametrize("column", ["k3_mean", "entropy_mean", "mismatch_kl_mean"])
def test_a_step_has_what_contributes_to_its_metric_and_of_how_much_it_is_the_first(native, column):
    static = step_page(native, 0, 2, PLAIN, column=column)
    page, markup = text_of(static), static.html.decode()
    spike = spike_of(native, 0, column)
    assert spike is not None
    own = spike.contributions
    count, types = int(own.counted.sum()), own.by("piece")
    assert f"What contributes to {rollout_metric(column).label}" in page
    assert f"by what its {count:,} tokens add to it" in page
    assert count > 20
    assert f"The first 20 of {count:,}." in page
    assert (f"The first 20 of {len(types):,}." in page) == (len(types) > 20)
    for one in own.top_tokens(20):
        share = percent(one.contribution / whole(own))
        around = f"⟦{one.piece}⟧".replace("\n", "⏎").strip()
        assert around in page
        assert share in page
    for kind in spike.kinds:
        cells = percent(kind.contribution / whole(own)), f"{kind.count:,}"
        row = f"<tr><td>{kind.name}" + "".join(f"</td><td class=r>{cell}" for cell in cells)
        assert row.replace("<0.1", "&lt;0.1") in markup


def test_a_token_in_its_place_is_redacted_as_a_part_of_its_response(tmp_path):
    pieces = ["my", " key", " is", " sk-", *"abcdefghijklmnop", " ok"]
    values = [-1.0] * len(pieces)
    row = {"step": 1, "response_tokens": pieces, "logprobs": values}
    row |= {"ref_logprobs": [value / 2 for value in values]}
    write_lines(tmp_path / "run" / "a.jsonl", [row])
    run = run_at(tmp_path)
    options = PageOptions(redact=r"sk-[a-z]+")
    page = step_page(run, 1, 1, options, column="k3_mean").html.decode()
    places = re.findall("<td>([^<]*⟦[^<]*)</td>", page)
    assert len(places) == 20
    assert not [one for one in places if re.search("[a-p]⟦|⟦[b-p]⟧|⟧[b-p]", one)]
    assert "⟦ [redacted]⟧" in page


@pytest.mark.parametrize("has_tokens", [True, False])
def test_what_the_other_side_has_not_is_marked_and_nothing_else(tmp_path, has_tokens):
    rows: list[dict[str, Any]] = []
    for word in ("red", "blue"):
        tokens = {"response_tokens": ["it", " is ", word, " here"], "logprobs": [-1.0, 0, -2, 0]}
        response = {"response": f"it is {word} here"}
        rows.append({"step": 1, "prompt": "p", **(tokens if has_tokens else response)})
    write_lines(tmp_path / "run" / "a.jsonl", rows)
    run = run_at(tmp_path)
    page = comparison_page(side(run, 1, 0), side(run, 1, 1), PLAIN)
    assert_inert(page)
    marked = re.findall(r'<\w+ class="?(?:\w+ )*d\b[^>]*>([^<]*)<', page.html.decode())
    assert [one.strip() for one in marked] == ["red", "blue"]
    assert text_of(page).count("Prompt") == 1  # the same for both


def test_a_finding_is_named_by_its_number_or_its_rule(native):
    findings = diagnose(native).findings
    assert findings
    assert named(findings, "1") is findings[0]
    assert named(findings, findings[-1].key) is findings[-1]
    for wrong in ("0", str(len(findings) + 1), "no_such_rule"):
        with pytest.raises(ChoiceError):
            named(findings, wrong)
    page = finding_page(native, findings[0], PLAIN)
    assert findings[0].title in text_of(page)
    assert findings[0].source in text_of(page)


def test_a_metric_that_no_rollout_has_is_refused_with_what_comes_close(native):
    with pytest.raises(ChoiceError, match="did you mean entropy"):
        rollout_page(native, Address(0, 0), PageOptions(metric="entropi"))


SECRET = "hunter2-swordfish"


@pytest.fixture
def secret_run(tmp_path: Path) -> Run:
    """A run whose texts, tokens, arguments, ids, names and file have a secret."""
    halves = ["my ", "hunter2", "-sword", "fish", " end"]
    call = {"name": "login", "arguments": json.dumps({"password": SECRET})}
    rows: list[dict[str, Any]] = []
    for index in range(4):
        row: dict[str, Any] = {"step": 1, "reward": float(index), "prompt": f"use {SECRET}"}
        row |= {"group_id": f"g{SECRET}", "env": SECRET, "finish_reason": f"after {SECRET}"}
        row |= {"ground_truth": SECRET, f"text {SECRET}": SECRET, "rewards": {SECRET: 1.0}}
        if index % 2:
            row |= {"response_tokens": halves, "logprobs": [-1.0] * 5, f"array {SECRET}": [1.0] * 5}
        else:
            message = {"role": "assistant", "content": SECRET, "tool_calls": [{"function": call}]}
            row["messages"] = [{"role": "user", "content": SECRET}, message]
            row["messages"].append({"role": "tool", "content": f"wrong: {SECRET}"})
        rows.append(row)
    write_lines(tmp_path / SECRET / f"{SECRET}.jsonl", rows)
    return run_at(tmp_path)


def test_redaction_leaves_nothing_of_a_match_on_any_page(secret_run):
    for name, page in every_page(secret_run, PageOptions(redact=SECRET)).items():
        for part in (SECRET, "hunter2", "swordfish", "-sword"):
            assert part.encode() not in page.html, name
        assert page.redactions > 0
        assert re.search(rf"{page.redactions:,} match(es)? redacted", text_of(page)), name
    assert SECRET.encode() in rollout_page(secret_run, Address(1, 0), PLAIN).html


def test_a_match_with_signs_that_json_escapes_is_removed_from_a_call(tmp_path):
    secret = 'pa"ss\\wörd'
    call = {"function": {"name": "login", "arguments": json.dumps({"key": secret, "n": 1})}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [call]}]
    write_lines(tmp_path / "run" / "a.jsonl", [{"step": 1, "messages": messages}])
    page = rollout_page(run_at(tmp_path), Address(1, 0), PageOptions(redact=re.escape(secret)))
    assert page.redactions == 1
    assert not re.search("pa.{0,8}ss|wörd", text_of(page))


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Rollouts of 8,000 tokens, and of a text that takes 1.5 MB on a page."""
    folder = tmp_path_factory.mktemp("long")
    tokens = [f" w{i % 97}" for i in range(8_000)]
    values = [-0.001 * (i % 89) for i in range(8_000)]
    rows: list[dict[str, Any]] = [
        {
            "step": 1,
            "reward": float(i),
            "response_tokens": tokens,
            "logprobs": values,
            "ref_logprobs": values,
        }
        for i in range(3)
    ]
    rows.append({"step": 1, "reward": 9.0, "prompt": "q", "response": "<é " * 220_000})
    write_lines(folder / "run" / "a.jsonl", rows)
    return run_at(folder)


@pytest.mark.parametrize("most", [500_000, 1_200_000])
def test_a_page_stays_below_its_cap_and_says_what_is_left_out(long_run, most):
    options = PageOptions(most_bytes=most)
    rows = first_rows(long_run, None)
    for page in (
        rollout_page(long_run, Address(1, 3), options),
        listed_page(long_run, rows, len(rows), "All", options),
        comparison_page(side(long_run, 1, 0), side(long_run, 1, 3), options),
    ):
        assert 0.5 * most < len(page.html) <= most
        assert page.left_out
        for words in page.left_out:
            assert (
                page.html.count(f"Left out: {words}.".encode()) == 2
            )  # at the top and in the footer


def test_a_long_transcript_says_in_a_few_words_what_is_left_out(tmp_path):
    turns = [{"role": ("assistant", "user")[n % 2], "content": f"turn {n}"} for n in range(8_000)]
    calls = [{"function": {"name": f"f{n}", "arguments": "{}"}} for n in range(3_000)]
    many = [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": calls}]
    rows = [{"step": 1, "messages": messages} for messages in ([turns[1], *turns], many)]
    write_lines(tmp_path / "run" / "a.jsonl", rows)
    for index in (0, 1):
        page = rollout_page(run_at(tmp_path), Address(1, index), PageOptions(most_bytes=500_000))
        assert len(page.html) <= 500_000
        assert 1 <= len(page.left_out) <= 3


def test_of_very_many_findings_the_worst_fit(native):
    findings = diagnose(native).findings
    longer = [replace(findings[0], text=findings[0].text * 20, title=f"{n}") for n in range(2_000)]
    page = findings_page(native, longer, CHECKED, PageOptions(most_bytes=500_000))
    assert len(page.html) <= 500_000
    (left_out,) = (int(words.split(" of 2000 findings")[0]) for words in page.left_out)
    assert page.html.count(b"<h2><span") == 2_000 - left_out > 50


def test_a_page_with_room_leaves_nothing_out(long_run):
    rows = first_rows(long_run, None)
    page = listed_page(long_run, rows, len(rows), "All", PageOptions(most_bytes=30_000_000))
    assert not page.left_out
    assert page.html.count(b"<section") == 4


def test_the_largest_numbers_have_a_curve(tmp_path):
    lines = [{"step": step, "response": "r", "reward": 1.7e308 * (-1) ** step} for step in (1, 2)]
    write_lines(tmp_path / "run" / "a.jsonl", lines)
    page = overview_page(run_at(tmp_path), None, PLAIN)
    assert "<polyline" in page.html.decode()


def test_the_exported_comparison_says_what_page_and_command_say(tmp_path):
    runs = [sample_run("grpo_arithmetic"), sample_run("resumed")]
    page = compared_page(runs, ["reward"], [0, 0], "steps", PLAIN)
    text = text_of(page)
    sentence = answer(paired_runs(*runs)).sentence("grpo_arithmetic", "resumed")
    assert sentence in text
    (end,) = run_ends(runs, [0, 0], ["reward"])
    assert end.gaps[0].text("", signed=True) in text
    assert "steps 15 to 24" in text
    moved = text_of(compared_page(runs, ["reward"], [0, 500], "steps", PLAIN))
    assert "their ends are not compared" in moved


def test_the_curves_that_an_overview_leaves_out_are_named(tmp_path):
    names = [f"metric_{number:02d}" for number in range(40)]
    rows = [
        {"step": step, "group_id": "g", "prompt": "p", "response": "r", **dict.fromkeys(names, 0.5)}
        for step in range(2)
    ]
    write_lines(tmp_path / "run" / "a.jsonl", rows)
    page = overview_page(run_at(tmp_path / "run"), None, PLAIN)
    drawn = [name for name in names if f">{name}<" in page.html.decode()]
    (note,) = page.left_out
    named = [name for name in names if name in note]
    assert drawn
    assert named == names[len(drawn) :][: len(named)]
    assert note.endswith(f"{len(names) - len(drawn) - len(named)} more)")
