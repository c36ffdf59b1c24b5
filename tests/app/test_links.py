"""Every choice lives in the URL: a link shows the same thing, and a wrong value says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shown import PAGES, OpenApp, assert_sound, choice, go_to, notices, query
from streamlit.testing.v1 import AppTest
from written_logs import native_run, native_sample, write_lines

from board.index.whole_texts import key_of_text
from board.query.prompts import written_key
from board.views.shared import state

PROMPT = written_key(key_of_text(native_sample(0, 0, 0)["prompt"]))
QUESTION = written_key(key_of_text(native_sample(0, 0, 0)["prompt"].partition("END ")[2]))
"""The same without what `sysend` cuts off."""

# name -> (page that offers it, value in the URL, value chosen); all on the native run
LINKS: dict[str, tuple[str, str, Any]] = {
    "root": ("overview", "native", "native"),
    "run": ("overview", "rllb", "rllb"),
    "step": ("overview", "10", 10),
    "index": ("rollouts", "5", 5),
    "pads": ("overview", "<x>,<y>", "<x>,<y>"),
    "sysend": ("rollout", "END ", "END "),
    "cap": ("overview", "3", 3),
    "split": ("overview", "all", "all"),
    "overview_evals": ("overview", "0", False),
    "live": ("overview", "1", True),
    "follow": ("overview", "1", True),
    "overview_kl": ("overview", "k1", "k1"),
    "overview_band": ("overview", "quantiles", "quantiles"),
    "overview_scale": ("overview", "0.5", 0.5),
    "smooth": ("overview", "0.9", 0.9),
    "overview_shift": ("overview", "1", True),
    "overview_log": ("overview", "1", True),
    "overview_more": ("overview", "1", True),
    "rollouts_scope": ("rollouts", "run", "run"),
    "q": ("rollouts", "x<y", "x<y"),
    "sort": ("rollouts", "reward", "reward"),
    "desc": ("rollouts", "1", True),
    "page": ("rollouts", "1", 1),
    "group": ("rollouts", "group 1", ["group 1"]),
    "env": ("rollouts", "math", ["math"]),
    "finish": ("rollouts", "length", ["length"]),
    "range": (
        "rollouts",
        "reward:0.25..,k3_mean:..0.5",
        {"reward": (0.25, float("inf")), "k3_mean": (float("-inf"), 0.5)},
    ),
    "rollouts_columns": ("rollouts", "reward,grad_norm", ["reward", "grad_norm"]),
    "rollouts_chart": ("rollouts", "distribution", "distribution"),
    "step_part": ("step", "groups", "groups"),
    "step_metric": ("step", "entropy_mean", "entropy_mean"),
    "step_types": ("step", "kind", "kind"),
    "step_only": ("step", "kind:word", "kind:word"),
    "step_order": ("step", "lowest", "lowest"),
    "findings_severity": ("findings", "severe,lead", ["severe", "lead"]),
    "findings_nth": ("findings", "1", 1),
    "findings_health": ("findings", "1", True),
    "overview_expression": ("overview", "reward - ref_reward", "reward - ref_reward"),
    "where": ("rollouts", "reward > 0.2", "reward > 0.2"),
    "groups_values": ("step", "advantage", "advantage"),
    "groups_id": ("step", "group 1", "group 1"),
    "groups_first": ("step", "2", 2),
    "prompts_list": ("prompts", "volatile", "volatile"),
    "prompt": ("prompts", PROMPT, PROMPT),
    "prompts_step": ("prompts", "20", 20),
    "prompts_first": ("prompts", "12", 12),
    "overview_metrics": ("overview", "entropy_mean,reward", ["entropy_mean", "reward"]),
    "overview_metric": ("overview", "entropy_mean", "entropy_mean"),
    "mismatch_slice": ("mismatch", "kind", "kind"),
    "mismatch_measure": ("mismatch", "k3", "k3"),
    "mismatch_bounds": ("mismatch", "tis:3", {"tis": {"C": 3.0}}),
    "mismatch_rule": ("mismatch", "dppo", "dppo"),
    "compare_runs": ("compare", "rllb", ["rllb"]),
    "compare_shifts": ("compare", "rllb:-3", {"rllb": -3}),
    "compare_metrics": ("compare", "reward", ["reward"]),
    "compare_pair": ("compare", "native,rllb", ["native", "rllb"]),
    "rollouts_view": ("rollouts", "words", "words"),
    "words_phrases": ("rollouts", "think,4", ["think", "4"]),
    "words_speaker": ("rollouts", "prompt", "prompt"),
    "overview_by": ("overview", "env", "env"),
    "steps": ("overview", "10-35", (10, 35)),
    "words_regex": ("rollouts", "1", True),
    "reader_metric": ("rollout", "entropy", "entropy"),
    "token": ("rollout", "3", 3),
    "reader_heat": ("rollout", "1", True),
    "reader_over": ("rollout", "step", "step"),
    "reader_strip": ("rollout", "logprobs", "logprobs"),
    "reader_masks": ("rollout", "tis:3,is_masked", (("tis", (3.0,)), ("is_masked", ()))),
    "zoom": ("rollout", "1-2", (1, 2)),
    "reader_vs": ("rollout", "ref", "ref"),
    "tokenizer": ("rollout", "/no/such/folder", "/no/such/folder"),
    "reader_record": ("rollout", "1", True),
    "reader_as": ("rollout", "text", "text"),
    "think": ("rollout", "plan", "plan"),
    "findings_superseded": ("findings", "1", True),
}

# What shows the part of a page that offers a choice.
PART_OF_PAGE = {
    "groups_values": {"step_part": "groups"},
    "groups_id": {"step_part": "groups"},
    "groups_first": {"step_part": "groups"},
    "findings_superseded": {"findings_health": "1"},
    "overview_metrics": {"overview_by": "env"},
    "overview_metric": {"overview_by": "env"},
}


def fields_of(app: AppTest) -> dict[str, Any]:
    """Value by key of the fields that the page shows."""
    kinds = ("selectbox", "text_input", "number_input", "toggle", "multiselect", "slider")
    return {field.key: field.value for kind in kinds for field in app.get(kind) if field.key}


def test_every_choice_has_a_link_here() -> None:
    assert set(LINKS) == set(state.CHOICES)


@pytest.mark.parametrize("name", LINKS)
def test_a_link_restores_the_choice_and_the_url_keeps_it(
    open_app: OpenApp, logs: Path, name: str
) -> None:
    page, text, value = LINKS[name]
    link = {"run": "native", name: text, **PART_OF_PAGE.get(name, {})}
    app = open_app(logs, page, **link)
    assert notices(app) == []
    assert choice(app, name) == value
    shown = fields_of(app)
    assert shown.get(name, value) == value
    assert query(app)[name] == text


def test_all_choices_survive_the_way_over_every_page(open_app: OpenApp, logs: Path) -> None:
    link = {name: text for name, (_, text, _) in LINKS.items()}
    link |= {"run": "native", "root": ".", "cap": "7", "prompt": QUESTION}
    del link["follow"]  # the step is the newest then
    del link["rollouts_view"]  # the list would not be shown
    app = open_app(logs, "findings", **link)
    smoothing: dict[str, float] = {}
    for page in (*PAGES, "rollout", "rollouts", "overview"):
        assert_sound(app)
        assert query(app) == link, page
        go_to(app, page)
        if "smooth" in (shown := fields_of(app)):
            smoothing[page] = shown["smooth"]
    assert smoothing == dict.fromkeys(("overview", "step", "compare"), 0.9)


def test_what_a_page_fills_in_stays_out_of_the_url_and_off_other_pages(
    open_app: OpenApp, tmp_path: Path
) -> None:
    link = {"run": "one", "step": "20"}
    for name in ("one", "two"):
        native_run(tmp_path / name)
    app = open_app(tmp_path, "findings", **link)
    filled = {"step": ("step_metric", "k3_mean"), "compare": ("prompt", PROMPT)}
    for page in (one for one in PAGES if one != "rollout"):
        go_to(app, page)
        assert_sound(app)
        assert query(app) == link, page
        for at, (name, value) in filled.items():
            assert (choice(app, name) == value) == (page == at)


# name -> (page, wrong value in the URL, what the notice names)
WRONG = [
    ("run", "findings", "no such run", "no such run"),
    ("step", "findings", "99", "99"),
    ("step", "findings", "ten", "ten"),
    ("index", "rollouts", "99", "99"),
    ("index", "rollouts", "-1", "-1"),
    ("index", "rollouts", "1e2", "1e2"),
    ("cap", "findings", "-3", "-3"),
    ("cap", "findings", "9" * 30, "cap"),
    ("live", "findings", "yes", "yes"),
    ("overview_kl", "findings", "k9", "k9"),
    ("overview_band", "findings", "wide", "wide"),
    ("overview_scale", "findings", "99", "99"),
    ("overview_scale", "findings", "nan", "nan"),
    ("smooth", "findings", "1", "smooth"),
    ("smooth", "findings", "much", "much"),
    ("overview_shift", "findings", "on", "on"),
    ("overview_log", "findings", "2", "overview_log"),
    ("overview_more", "overview", "all", "all"),
    ("rollouts_scope", "rollouts", "world", "world"),
    ("sort", "rollouts", "nothing", "nothing"),
    ("sort", "rollouts", "prompt", "prompt"),
    ("desc", "rollouts", "", "desc"),
    ("env", "rollouts", "math,mars", "mars"),
    ("range", "rollouts", "reward", "range"),
    ("range", "rollouts", "reward:a..b", "range"),
    ("range", "rollouts", "reward:nan..1", "range"),
    ("rollouts_columns", "rollouts", "reward,nothing", "nothing"),
    ("rollouts_columns", "rollouts", "offset", "offset"),
    ("rollouts_chart", "rollouts", "pie", "rollouts_chart"),
    ("step_part", "step", "all", "all"),
    ("findings_health", "findings", "true", "true"),
    ("step_metric", "step", "prompt", "prompt"),
    ("step_types", "step", "colour", "colour"),
    ("step_types", "step", "role", "role"),
    ("step_only", "step", "colour:red", "colour"),
    ("step_order", "step", "best", "best"),
    ("findings_severity", "findings", "fatal", "fatal"),
    ("reader_metric", "rollout", "nothing", "nothing"),
    ("token", "rollout", "99", "99"),
    ("token", "rollout", "-1", "-1"),
    ("token", "rollout", "x", "token"),
    ("reader_heat", "rollout", "maybe", "maybe"),
    ("reader_record", "rollout", "true", "true"),
    ("findings_superseded", "findings", "true", "true"),
    ("reader_over", "rollout", "run", "run"),
    ("reader_vs", "rollout", "99.99", "99.99"),
    ("groups_values", "step", "colour", "colour"),
    ("groups_id", "step", "group 77", "group 77"),
    ("groups_first", "step", "-1", "-1"),
    ("prompts_list", "prompts", "best", "best"),
    ("prompt", "prompts", "0" * 16, "0" * 16),
    ("prompt", "prompts", "999", "999"),
    ("prompts_step", "prompts", "999", "999"),
    ("prompts_first", "prompts", "-1", "-1"),
    ("mismatch_slice", "mismatch", "weekday", "weekday"),
    ("mismatch_measure", "mismatch", "k9", "k9"),
    ("mismatch_rule", "mismatch", "none", "none"),
    ("mismatch_bounds", "mismatch", "tis:99", "mismatch_bounds"),
    ("compare_runs", "compare", "no such run", "no such run"),
    ("compare_shifts", "compare", "rllb", "compare_shifts"),
    ("compare_metrics", "compare", "nothing", "nothing"),
    ("words_speaker", "rollouts", "nobody", "nobody"),
    ("overview_by", "overview", "prompt", "prompt"),
    ("steps", "overview", "40-10", "steps"),
    ("words_regex", "rollouts", "yes", "yes"),
]


@pytest.mark.parametrize(("name", "page", "text", "named"), WRONG)
def test_a_wrong_value_falls_back_and_says_so(
    open_app: OpenApp, logs: Path, name: str, page: str, text: str, named: str
) -> None:
    app = open_app(logs, page, **{"run": "native", name: text, **PART_OF_PAGE.get(name, {})})
    assert any(
        named in told and name in told.replace("column", "rollouts_columns range")
        for told in notices(app)
    )
    assert query(app).get(name) != text
    app.run()
    assert notices(app) == []


def test_a_wrong_filter_is_not_applied_in_part_silently(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, "rollouts", run="native", env="math,mars")
    assert choice(app, "env") == ["math"]


def test_a_filter_the_run_has_no_column_for_is_said_to_be_left_out(
    open_app: OpenApp, logs: Path
) -> None:
    app = open_app(logs, "rollouts", run="rllb", env="math")
    assert any("env" in told for told in notices(app))
    assert "env" not in query(app)


def test_names_with_commas_and_percent_signs_survive_the_url(
    open_app: OpenApp, tmp_path: Path
) -> None:
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


def test_no_padding_markers_is_a_choice_a_link_keeps(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, run="rllb")
    app.text_input(key="pads").set_value("").run()
    assert query(app)["pads"] == ""
    again = open_app(logs, **query(app))
    assert again.text_input(key="pads").value == ""


def test_a_choice_at_its_default_stays_out_of_the_url(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs)
    assert query(app) == {"run": "native", "step": "35"}


def test_the_back_button_brings_back_the_choices(open_app: OpenApp, logs: Path) -> None:
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
def test_all_wrong_values_at_once_break_no_page(open_app: OpenApp, logs: Path, page: str) -> None:
    app = open_app(logs, page, **{name: "\x00<b>*" for name in LINKS if name != "root"})
    assert app.subheader[0].value == "native"


@pytest.mark.parametrize("name", ["overview_metrics", "overview_metric"])
def test_a_wrong_curve_by_environment_falls_back_and_says_so(
    open_app: OpenApp, logs: Path, name: str
) -> None:
    app = open_app(logs, run="native", overview_by="env", **{name: "nothing"})
    assert any("nothing" in told and name in told for told in notices(app))
    assert query(app).get(name) != "nothing"


def test_links_from_before_choices_were_named_by_their_pages_still_work(
    open_app: OpenApp, logs: Path
) -> None:
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
