"""Every choice lives in the URL: a link shows the same thing, and a wrong value says so."""

import re
from typing import Any

import pytest
from page_elements import (
    PAGES,
    PART_CHOICES,
    assert_sound,
    choice,
    go_to,
    notices,
    query,
    with_part,
)
from streamlit.testing.v1 import AppTest
from written_logs import native_run, native_sample, write_lines

from board.core.metrics.reward_sum import RewardSum
from board.index.whole_texts import key_of_text
from board.query.prompts import written_key
from board.views.shared import browser_url, state

PROMPT = written_key(key_of_text(native_sample(0, 0, 0)["prompt"]))
QUESTION = written_key(key_of_text(native_sample(0, 0, 0)["prompt"].partition("END ")[2]))
"""The same without what `sysend` cuts off."""

# Pages with what links to them choose; all on the native run. What would hide the other is on its own.
LINKS = (
    ("overview", "root=native"),
    ("overview", "run=rllb"),
    ("overview", "live=1&follow=1"),
    (
        "overview",
        "cap=3&grouping=1&pads=<x>,<y>&split=all&live=1&step=10&steps=10-35&smooth=0.9"
        "&overview_kl=k1&overview_band=quantiles&overview_scale=0.5&overview_shift=1&overview_log=1"
        "&overview_more=1&overview_evals=0&overview_expression=reward - ref_reward"
        "&overview_trainer=loss|lr&metric_shift=2&reward_sum=correct:1.0,format:0.5&right_from=0.5",
    ),
    (
        "overview",
        "overview_by=env&overview_metrics=entropy_mean,reward&overview_metric=entropy_mean",
    ),
    (
        "findings",
        "findings_severity=severe,lead&findings_nth=1&findings_part=health&findings_superseded=1",
    ),
    ("step", "step_metric=entropy_mean&step_types=kind&step_only=kind:word&step_order=lowest"),
    ("step", "step_part=groups&groups_values=advantage&groups_id=group 1&groups_first=2"),
    (
        "rollouts",
        "index=5&rollouts_scope=run&sort=reward&desc=1&page=1&rollouts_chart=distribution"
        "&rollouts_columns=reward,grad_norm",
    ),
    (
        "rollouts",
        "q=x<y&group=group 1&env=math&finish=length&where=reward > 0.2"
        "&range=reward:0.25..,k3_mean:..0.5",
    ),
    ("rollouts", "rollouts_view=words&words_phrases=think,4&words_speaker=prompt&words_regex=1"),
    ("rollout", "sysend=END &think=plan&reader_as=text&reader_record=1"),
    (
        "rollout",
        "reader_metric=entropy&token=3&zoom=1-2&reader_over=step&reader_strip=logprobs"
        "&reader_heat=1&reader_masks=tis:3,is_masked",
    ),
    ("rollout", "reader_vs=ref&tokenizer=/no/such/folder"),
    (
        "prompts",
        f"prompts_list=volatile&prompts_q=and&prompt={PROMPT}&prompts_step=20&prompts_first=12",
    ),
    ("failures", "findings_part=failures&failures_by=rank"),
    ("labels", "rollouts_view=labels&labels_author=ann"),
    (
        "mismatch",
        "step_part=mismatch&mismatch_slice=kind&mismatch_measure=k3&mismatch_rule=dppo&mismatch_bounds=tis:3",
    ),
    (
        "compare",
        "compare_runs=rllb&compare_shifts=rllb:-3&compare_metrics=reward&compare_pair=native,rllb"
        "&compare_match=tokens&compare_outcome=won&compare_by=config.lr&compare_over_seeds=reward",
    ),
    (
        "runs",
        "runs_search=nat&runs_sort=reward&runs_desc=0&runs_fold=0&runs_ticked=native,rllb"
        "&runs_state=stale,unchanged&runs_columns=reward,settings.config.lr&runs_finding=severe,none"
        "&runs_format=Rollout Board",
    ),
)
# What is chosen then, where it is not the text of the link.
VALUES: dict[str, Any] = {
    "cap": 3,
    "metric_shift": 2,
    "reward_sum": RewardSum((("correct", 1.0), ("format", 0.5))),
    "right_from": 0.5,
    "grouping": True,
    "step": 10,
    "index": 5,
    "page": 1,
    "token": 3,
    "findings_nth": 1,
    "groups_first": 2,
    "prompts_step": 20,
    "prompts_first": 12,
    "smooth": 0.9,
    "overview_scale": 0.5,
    "overview_evals": False,
    "steps": (10, 35),
    "zoom": (1, 2),
    "overview_metrics": ["entropy_mean", "reward"],
    "findings_severity": ["severe", "lead"],
    "group": ["group 1"],
    "env": ["math"],
    "finish": ["length"],
    "rollouts_columns": ["reward", "grad_norm"],
    "words_phrases": ["think", "4"],
    "runs_desc": False,
    "runs_fold": False,
    "runs_ticked": ["native", "rllb"],
    "runs_columns": ["reward", "settings.config.lr"],
    "runs_state": ["stale", "unchanged"],
    "runs_finding": ["severe", "none"],
    "runs_format": ["Rollout Board"],
    "compare_runs": ["rllb"],
    "compare_metrics": ["reward"],
    "compare_pair": ["native", "rllb"],
    "compare_by": ["config.lr"],
    "compare_shifts": {"rllb": -3},
    "range": {"reward": (0.25, float("inf")), "k3_mean": (float("-inf"), 0.5)},
    "reader_masks": (("tis", (3.0,)), ("is_masked", ())),
    "mismatch_bounds": {"tis": {"C": 3.0}},
}


def chosen_by(link: str) -> dict[str, str]:
    """Name -> text of the choices of a link."""
    return dict(one.split("=", 1) for one in link.split("&"))


def fields_of(app: AppTest) -> dict[str, Any]:
    """Value by key of the fields that the page shows."""
    kinds = ("selectbox", "text_input", "number_input", "toggle", "multiselect", "slider")
    return {field.key: field.value for kind in kinds for field in app.get(kind) if field.key}


ALL = {name: text for _, link in LINKS for name, text in chosen_by(link).items()}


def test_every_choice_has_a_link_here():
    assert set(ALL) == set(state.CHOICES)


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_a_link_restores_its_choices_and_the_url_keeps_them(open_app, logs, page, link):
    texts = chosen_by(link)
    app = open_app(logs, page, **{"run": "native", **texts})
    assert notices(app) == []
    shown = fields_of(app)
    for name, text in texts.items():
        is_flag = isinstance(state.CHOICES[name].default, bool)
        value = VALUES.get(name, is_flag or text)
        assert (choice(app, name), shown.get(name, value)) == (value, value), name
        assert query(app)[name] == text


def test_all_choices_survive_the_way_over_every_page(open_app, logs):
    link = {**ALL, "run": "native", "root": ".", "cap": "7", "prompt": QUESTION}
    del link["follow"]  # the step is the newest then
    for name in PART_CHOICES:
        del link[name]  # other parts would not be shown
    app = open_app(logs, "findings", **link)
    smoothing: dict[str, float] = {}
    for page in (*PAGES, "rollout", "rollouts", "overview"):
        go_to(app, page)
        assert_sound(app)
        assert query(app) == link | with_part(page, {})[1], page
        if "smooth" in (shown := fields_of(app)):
            smoothing[page] = shown["smooth"]
    assert smoothing == dict.fromkeys(
        ("overview", "env", "failures", "groups", "words", "compare"), 0.9
    )


def test_what_a_page_fills_in_stays_out_of_the_url_and_off_other_pages(open_app, tmp_path):
    link = {"run": "one", "step": "20"}
    for name in ("one", "two"):
        native_run(tmp_path / name)
    app = open_app(tmp_path, "findings", **link)
    filled = {"step": ("step_metric", "k3_mean"), "compare": ("prompt", PROMPT)}
    for page in (one for one in PAGES if one != "rollout"):
        go_to(app, page)
        assert_sound(app)
        assert query(app) == link | with_part(page, {})[1], page
        for at, (name, value) in filled.items():
            # Another part of the same page may keep it.
            if page == at or with_part(page, {})[0] != at:
                assert (choice(app, name) == value) == (page == at)


# What no page can mean.
MISWRITTEN = """
    step=ten index=1e2 cap=-3 cap=999999999999 live=yes steps=40-10 smooth=1 smooth=much
    overview_kl=k9 overview_band=wide overview_scale=99 overview_scale=nan overview_shift=on
    overview_log=2 overview_more=all overview_by=prompt findings_part=true findings_superseded=true
    step_part=all step_types=colour step_order=best groups_values=colour groups_first=-1
    rollouts_scope=world desc= rollouts_chart=pie range=reward range=reward:a..b range=reward:nan..1
    words_speaker=nobody words_regex=yes token=x reader_heat=maybe reader_record=true reader_over=run
    prompts_list=best prompt=999 prompts_first=-1 mismatch_slice=weekday mismatch_measure=k9
    mismatch_rule=none mismatch_bounds=tis:99 compare_shifts=rllb
"""


@pytest.mark.parametrize("wrong", MISWRITTEN.split())
def test_a_value_that_nothing_can_mean_is_refused(wrong):
    name, text = wrong.split("=")
    with pytest.raises(ValueError, match=r"^not |^C goes from"):
        state.CHOICES[name].parse(text)


def test_every_refused_value_falls_back_and_is_said_once(open_app, logs):
    link = dict(wrong.split("=") for wrong in MISWRITTEN.split())
    app = open_app(logs, "findings", run="native", **link)
    for name, text in link.items():
        assert any(message.startswith(f"{name}={text} in the URL") for message in notices(app)), (
            name
        )
        assert query(app).get(name) != text
    app.run()
    assert notices(app) == []


# A page, what it can't show of the native run, and what else is chosen.
UNAVAILABLE = [
    ("findings", "run=no such run", "step=10"),
    ("findings", "step=99&findings_severity=fatal", "run=native"),
    ("overview", "overview_metrics=nothing&overview_metric=nothing", "overview_by=env"),
    ("step", "step_metric=prompt&step_types=role&step_only=colour:red", "run=native"),
    ("step", "groups_id=group 77", "step_part=groups"),
    (
        "rollouts",
        "index=99&sort=nothing&env=math,mars&rollouts_columns=reward,nothing",
        "run=native",
    ),
    ("rollouts", "index=-1&sort=prompt&rollouts_columns=offset", "run=native"),
    ("rollout", "reader_metric=nothing&token=99&reader_vs=99.99", "run=native"),
    ("rollout", "token=-1", "run=native"),
    ("prompts", "prompt=" + "0" * 16 + "&prompts_step=999", "run=native"),
    ("compare", "compare_runs=no such run&compare_metrics=nothing", "run=native"),
]


@pytest.mark.parametrize(("page", "link", "beside"), UNAVAILABLE)
def test_what_the_run_does_not_hold_falls_back_and_is_said_once(open_app, logs, page, link, beside):
    wrong = chosen_by(link)
    app = open_app(logs, page, **{"run": "native", **chosen_by(beside), **wrong})
    for name, text in wrong.items():
        named = rf"{name} ?= ?'?{re.escape(text.split(',')[-1])}"
        assert [bool(re.match(named, message)) for message in notices(app)].count(True) == 1, name
        assert query(app).get(name) != text
    app.run()
    assert notices(app) == []


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("key", ["overview_log", "overview_shift", "live"])
def test_a_switch_and_a_url_that_change_in_the_same_moment_both_count(open_app, logs, key, is_late):
    """A script of the page writes its part of the URL, as the URL was before the switch."""
    app = open_app(logs, "overview", run="native", **{key: "1"})
    switch = app.toggle(key=key)
    assert switch.value
    before = query(app)
    if is_late:
        switch.set_value(False).run()
        for name, text in before.items():
            app.query_params[name] = text
    else:
        switch.set_value(False)
    app.query_params["steps"] = "10-20"
    app.run()
    assert not choice(app, key)
    assert query(app)["steps"] == "10-20"
    assert key not in query(app)


def test_names_with_commas_and_percent_signs_survive_the_url(open_app, tmp_path):
    names = ["a,b", "a%2Cb", "100%", "x:1..2"]
    rows = [
        {"step": 0, "group_id": name, "reward": 1.0, "prompt": "p", name: 1.0} for name in names
    ]
    write_lines(tmp_path / "run" / "a.jsonl", rows)
    app = open_app(tmp_path, "rollouts", group="a%2Cb,a%252Cb,100%25,x:1..2")
    app.multiselect(key="rollouts_columns").set_value(names).run()
    again = open_app(tmp_path, "rollouts", **query(app))
    assert notices(again) == []
    assert choice(again, "group") == names
    assert choice(again, "rollouts_columns") == names


def test_no_padding_markers_is_a_choice_a_link_keeps(open_app, logs):
    app = open_app(logs, run="rllb")
    app.text_input(key="pads").set_value("").run()
    assert query(app)["pads"] == ""
    again = open_app(logs, **query(app))
    assert again.text_input(key="pads").value == ""


@pytest.mark.parametrize("is_back", [True, False])
def test_a_url_that_comes_late_is_no_press_of_back(open_app, logs, monkeypatch, is_back):
    monkeypatch.setattr(browser_url, "is_move_in_history", lambda: is_back)
    app = open_app(logs, "overview", run="native")
    before = query(app)
    app.toggle(key="live").set_value(True).run()
    app.query_params.clear()
    for name, value in before.items():
        app.query_params[name] = value
    app.run()
    assert choice(app, "live") is not is_back


def test_the_back_button_brings_back_the_choices(open_app, logs, monkeypatch):
    monkeypatch.setattr(browser_url, "is_move_in_history", lambda: True)
    app = open_app(logs, "rollouts", run="native", range="reward:0.3..")
    before = query(app)
    for name, value in {**before, "range": "reward:0.7..", "step": "10"}.items():
        app.query_params[name] = value
    app.run()
    assert query(app)["range"] == "reward:0.7.."
    app.query_params.clear()
    for name, value in before.items():
        app.query_params[name] = value
    app.run()
    assert query(app) == before
    assert choice(app, "range") == {"reward": (0.3, float("inf"))}


@pytest.mark.parametrize("page", PAGES)
def test_all_wrong_values_at_once_break_no_page(open_app, logs, page):
    app = open_app(logs, page, **{name: "\x00<b>*" for name in ALL if name != "root"})
    assert app.subheader[0].value == "native"


def test_links_from_before_choices_were_named_by_their_pages_still_work(open_app, logs):
    old = {"scope": "run", "order": "lowest", "kl": "k2", "by": "env", "vs": "ref", "raw": "1"}
    app = open_app(logs, "findings", run="native", step="20", **old)
    assert notices(app) == []
    assert {*old.items()} <= {*query(app).items()}, "another URL would be one more press of Back"
    chosen = ("rollouts_scope", "step_order", "overview_kl", "overview_by", "reader_vs")
    assert [choice(app, name) for name in chosen] == ["run", "lowest", "k2", "env", "ref"]
    app.session_state["step_order"] = "highest"
    app.run()
    assert choice(app, "step_order") == "highest"
    assert not {*old} & {*query(app)}
    app = open_app(logs, "findings", run="native", order="best")
    assert notices(app) == [
        "step_order=best in the URL is wrong (not one of highest, lowest); showing highest."
    ]
