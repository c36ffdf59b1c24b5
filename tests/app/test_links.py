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
    "evals": ("overview", "0", False),
    "live": ("overview", "1", True),
    "follow": ("overview", "1", True),
    "kl": ("overview", "k1", "k1"),
    "band": ("overview", "quantiles", "quantiles"),
    "scale": ("overview", "0.5", 0.5),
    "smooth": ("overview", "0.9", 0.9),
    "shift": ("overview", "1", True),
    "log": ("overview", "1", True),
    "more": ("overview", "1", True),
    "scope": ("rollouts", "run", "run"),
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
    "cols": ("rollouts", "reward,grad_norm", ["reward", "grad_norm"]),
    "chart": ("rollouts", "distribution", "distribution"),
    "part": ("step", "groups", "groups"),
    "of": ("step", "entropy_mean", "entropy_mean"),
    "types": ("step", "kind", "kind"),
    "only": ("step", "kind:word", "kind:word"),
    "order": ("step", "lowest", "lowest"),
    "severity": ("findings", "severe,lead", ["severe", "lead"]),
    "nth": ("findings", "1", 1),
    "health": ("findings", "1", True),
    "own": ("overview", "reward - ref_reward", "reward - ref_reward"),
    "where": ("rollouts", "reward > 0.2", "reward > 0.2"),
    "fill": ("step", "advantage", "advantage"),
    "gid": ("step", "group 1", "group 1"),
    "gfrom": ("step", "2", 2),
    "plist": ("prompts", "volatile", "volatile"),
    "prompt": ("prompts", PROMPT, PROMPT),
    "pstep": ("prompts", "20", 20),
    "pfrom": ("prompts", "12", 12),
    "emetrics": ("overview", "entropy_mean,reward", ["entropy_mean", "reward"]),
    "emulti": ("overview", "entropy_mean", "entropy_mean"),
    "slice": ("mismatch", "kind", "kind"),
    "measure": ("mismatch", "k3", "k3"),
    "bounds": ("mismatch", "tis:3", {"tis": {"C": 3.0}}),
    "rule": ("mismatch", "dppo", "dppo"),
    "runs": ("compare", "rllb", ["rllb"]),
    "shifts": ("compare", "rllb:-3", {"rllb": -3}),
    "cmetrics": ("compare", "reward", ["reward"]),
    "pair": ("compare", "native,rllb", ["native", "rllb"]),
    "view": ("rollouts", "words", "words"),
    "words": ("rollouts", "think,4", ["think", "4"]),
    "speaker": ("rollouts", "prompt", "prompt"),
    "by": ("overview", "env", "env"),
    "steps": ("overview", "10-35", (10, 35)),
    "regex": ("rollouts", "1", True),
    "metric": ("rollout", "entropy", "entropy"),
    "token": ("rollout", "3", 3),
    "heat": ("rollout", "1", True),
    "over": ("rollout", "step", "step"),
    "strip": ("rollout", "logprobs", "logprobs"),
    "masks": ("rollout", "tis:3,is_masked", (("tis", (3.0,)), ("is_masked", ()))),
    "zoom": ("rollout", "1-2", (1, 2)),
    "vs": ("rollout", "ref", "ref"),
    "tokenizer": ("rollout", "/no/such/folder", "/no/such/folder"),
    "raw": ("rollout", "1", True),
    "read": ("rollout", "text", "text"),
    "think": ("rollout", "plan", "plan"),
    "old": ("findings", "1", True),
}

# What shows the part of a page that offers a choice.
PART_OF_PAGE = {
    "fill": {"part": "groups"},
    "gid": {"part": "groups"},
    "gfrom": {"part": "groups"},
    "old": {"health": "1"},
    "emetrics": {"by": "env"},
    "emulti": {"by": "env"},
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
    assert_sound(app)
    assert notices(app) == []
    assert choice(app, name) == value
    shown = fields_of(app)
    assert shown.get(name, value) == value
    assert query(app)[name] == text


def test_all_choices_survive_the_way_over_every_page(open_app: OpenApp, logs: Path) -> None:
    link = {name: text for name, (_, text, _) in LINKS.items()}
    link |= {"run": "native", "root": ".", "cap": "7", "prompt": QUESTION}
    del link["follow"]  # the step is the newest then
    del link["view"]  # the list would not be shown
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
    filled = {"step": ("of", "k3_mean"), "compare": ("prompt", PROMPT)}
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
    ("kl", "findings", "k9", "k9"),
    ("band", "findings", "wide", "wide"),
    ("scale", "findings", "99", "99"),
    ("scale", "findings", "nan", "nan"),
    ("smooth", "findings", "1", "smooth"),
    ("smooth", "findings", "much", "much"),
    ("shift", "findings", "on", "on"),
    ("log", "findings", "2", "log"),
    ("more", "overview", "all", "all"),
    ("scope", "rollouts", "world", "world"),
    ("sort", "rollouts", "nothing", "nothing"),
    ("sort", "rollouts", "prompt", "prompt"),
    ("desc", "rollouts", "", "desc"),
    ("env", "rollouts", "math,mars", "mars"),
    ("range", "rollouts", "reward", "range"),
    ("range", "rollouts", "reward:a..b", "range"),
    ("range", "rollouts", "reward:nan..1", "range"),
    ("cols", "rollouts", "reward,nothing", "nothing"),
    ("cols", "rollouts", "offset", "offset"),
    ("chart", "rollouts", "pie", "chart"),
    ("part", "step", "all", "all"),
    ("health", "findings", "true", "true"),
    ("of", "step", "prompt", "prompt"),
    ("types", "step", "colour", "colour"),
    ("types", "step", "role", "role"),
    ("only", "step", "colour:red", "colour"),
    ("order", "step", "best", "best"),
    ("severity", "findings", "fatal", "fatal"),
    ("metric", "rollout", "nothing", "nothing"),
    ("token", "rollout", "99", "99"),
    ("token", "rollout", "-1", "-1"),
    ("token", "rollout", "x", "token"),
    ("heat", "rollout", "maybe", "maybe"),
    ("raw", "rollout", "true", "true"),
    ("old", "findings", "true", "true"),
    ("over", "rollout", "run", "run"),
    ("vs", "rollout", "99.99", "99.99"),
    ("fill", "step", "colour", "colour"),
    ("gid", "step", "group 77", "group 77"),
    ("gfrom", "step", "-1", "-1"),
    ("plist", "prompts", "best", "best"),
    ("prompt", "prompts", "0" * 16, "0" * 16),
    ("prompt", "prompts", "999", "999"),
    ("pstep", "prompts", "999", "999"),
    ("pfrom", "prompts", "-1", "-1"),
    ("slice", "mismatch", "weekday", "weekday"),
    ("measure", "mismatch", "k9", "k9"),
    ("rule", "mismatch", "none", "none"),
    ("bounds", "mismatch", "tis:99", "bounds"),
    ("runs", "compare", "no such run", "no such run"),
    ("shifts", "compare", "rllb", "shifts"),
    ("cmetrics", "compare", "nothing", "nothing"),
    ("speaker", "rollouts", "nobody", "nobody"),
    ("by", "overview", "prompt", "prompt"),
    ("steps", "overview", "40-10", "steps"),
    ("regex", "rollouts", "yes", "yes"),
]


@pytest.mark.parametrize(("name", "page", "text", "named"), WRONG)
def test_a_wrong_value_falls_back_and_says_so(
    open_app: OpenApp, logs: Path, name: str, page: str, text: str, named: str
) -> None:
    app = open_app(logs, page, **{"run": "native", name: text, **PART_OF_PAGE.get(name, {})})
    assert_sound(app)
    assert any(
        named in told and name in told.replace("column", "cols range") for told in notices(app)
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
    app.multiselect(key="cols").set_value(names).run()
    again = open_app(tmp_path, "rollouts", **query(app))
    assert notices(again) == []
    assert choice(again, "group") == names
    assert choice(again, "cols") == names


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
    assert_sound(app)
    assert app.subheader[0].value == "native"


@pytest.mark.parametrize("name", ["emetrics", "emulti"])
def test_a_wrong_curve_by_environment_falls_back_and_says_so(
    open_app: OpenApp, logs: Path, name: str
) -> None:
    app = open_app(logs, run="native", by="env", **{name: "nothing"})
    assert_sound(app)
    assert any("nothing" in told and name in told for told in notices(app))
    assert query(app).get(name) != "nothing"
