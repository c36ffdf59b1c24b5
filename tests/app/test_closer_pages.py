"""Groups, prompts, environments, mismatch, words and compared runs, on bundled runs."""

import json
from pathlib import Path

import pytest
from page_elements import assert_sound, cards, go_to, notices, query, readers, table, texts, tiles
from streamlit.testing.v1 import AppTest
from written_logs import age, write_lines

from board.core.records import ReadOptions
from board.query.open_run import Follower, OpenOptions, Run
from board.views.shared import cache, opened_runs

BUNDLED = Path(__file__).parents[2] / "rollout_samples"


def metrics(app: AppTest) -> dict[str, str]:
    """The cards by their label."""
    return {str(card.label).replace("\\", ""): str(card.value) for card in app.metric}


def test_groups_tell_what_a_step_teaches_and_an_answer_opens_its_rollout(open_app):
    chosen = {"step_part": "groups", "groups_values": "advantage"}
    app = open_app(BUNDLED, "step", run="grpo_arithmetic", step="97", **chosen)
    cards = metrics(app)
    assert (cards["Groups"], cards["Effective batch"]) == ("4", "32")
    assert (cards["Solve rate"], cards["Advantages that do not match"]) == ("63 %", "0")
    # The prompt and one response for each rollout of the chosen group.
    assert len(app.code) == 1 + 8
    shown = {next(iter(frame.value)): frame.value for frame in app.dataframe}
    assert shown["rollout"]["difference"].abs().max() < 1e-3
    sizes = shown["size"]
    assert sizes["how"].tolist()[:3] == ["from these groups"] * 3
    assert sizes["zero-std groups"].is_monotonic_decreasing
    app.button(key="answer_grpo_arithmetic_97_13").click().run()
    assert query(app)["index"] == "13"
    assert "Rollout 13" in texts(app)


@pytest.mark.parametrize(
    ("part", "button"),
    [("contributions", "open_largest"), ("groups", "answer_grpo_arithmetic_97_13")],
)
def test_what_is_opened_from_a_step_is_coloured_on_the_scale_of_the_step(open_app, part, button):
    app = open_app(BUNDLED, "step", run="grpo_arithmetic", step="97", step_part=part)
    app.button(key=button).click().run()
    assert (query(app)["index"], query(app)["reader_over"]) == ("13", "step")
    (view,) = readers(app)
    spans = {spec["name"]: spec["span"] for spec in view["specs"]}
    assert spans["k3"]["most"] > 300 > 1 > spans["k3"]["high"]


def test_groups_of_unequal_size_and_unscored_rollouts_break_nothing(open_rows):
    rows = [
        {"step": 0, "group_id": g, "reward": r, "prompt": "p", "response": "r", "advantage": a}
        for g, r, a in (("a", 1.0, 5.0), ("a", 0.0, -0.7), ("b", None, None), ("c", 1.0, 0.0))
    ]
    rows.append({"step": 0, "prompt": "p", "response": "of no group", "reward": 0.5})
    app = open_rows("step", *rows, part="groups")
    assert metrics(app)["Groups"] == "3"
    assert "no reward: 1 of 4 rollouts" in texts(app).replace("\\", "")
    assert "advantages do not match" in texts(app)


def test_right_and_wrong_are_not_judged_where_all_rewards_are_equal(open_rows):
    rows = [
        {"step": step, "group_id": "g", "reward": 1.0, "prompt": "p\nq", "response": "r"}
        for step in (0, 0, 1, 1)
    ]
    app = open_rows("step", *rows, part="groups")
    assert metrics(app)["Solve rate"] == "not judged"
    assert "all rewards of the run are equal" in texts(app)
    assert "100 % equal otherwise" in texts(app).replace("\\", "")
    assert "all right" not in texts(app)
    app = open_rows("prompts", *rows)
    assert metrics(app)["Never solved"] == "–"
    assert table(app)["prompt"].tolist() == ["p⏎q"]
    app = open_rows("findings", *rows)
    assert "(100 % equal otherwise)" in texts(app).replace("\\", "")


def test_prompts_are_listed_by_what_became_of_them(open_app):
    app = open_app(BUNDLED, "prompts", run="grpo_reward_hack", prompts_list="lost")
    lost = int(metrics(app)["Regressed"])
    shown = table(app)
    assert len(shown) == lost > 0
    assert (shown["later"] < shown["earlier"]).all()
    assert (shown["rate"] <= 0.05).all()
    assert (shown["status"] == "regressed").all()
    app = open_app(BUNDLED, "prompts", run="grpo_arithmetic", prompts_q="add 69")
    assert 0 < len(table(app)) < int(metrics(app)["Prompts"])
    app = open_app(BUNDLED, "prompts", run="grpo_arithmetic", prompts_q="nowhere")
    assert "No prompt of this list matches." in texts(app)
    app = open_app(BUNDLED, "prompts", run="grpo_arithmetic")
    assert [card["title"] for card in cards(app)] == ["Rewards", "Lengths"]


def test_every_answer_of_a_step_is_reachable_whole(open_app):
    app = open_app(BUNDLED, "prompts", run="grpo_arithmetic")
    three = len(app.code)
    seen = next(box for box in app.selectbox if box.key == "prompts_step")
    step = seen.options[1].split()[1].strip(",")
    app = open_app(BUNDLED, "prompts", run="grpo_arithmetic", prompts_step=step)
    opened = [button.label for button in app.button if "· rollout" in button.label]
    assert len(opened) == 8
    assert len({label.split(" · ")[0] for label in opened}) == 1
    assert len(app.code) == 1 + 8 > three
    assert "prompts_step" in query(app)


def test_environments_have_a_row_each_beside_the_one_for_all(open_app):
    app = open_app(BUNDLED, run="grpo_arithmetic", step="150", env="add", overview_by="env")
    shown = table(app)
    assert shown["env"].iloc[0] == "all environments"
    assert shown["rollouts"].iloc[1:].sum() == shown["rollouts"].iloc[0]


def test_means_by_environment_are_zero_but_for_rounding_and_all_is_a_name_too(open_rows):
    rows = [
        {"step": step, "env": env, "advantage": a, "reward": r, "prompt": "p", "response": "r"}
        for step in (0, 1)
        for env, a, r in (("all", 0.1, 0.0), ("all", 0.2, 0.0), ("all", -0.3, 0.0), ("b", 0, 1.0))
    ]
    shown = table(open_rows("overview", *rows, by="env")).set_index("env")
    assert shown.loc["all", ["advantage", "reward"]].tolist() == [0.0, 0.0]
    assert shown.loc["all environments", "reward"] == 0.25


def test_the_mismatch_is_split_where_old_logprobs_are_recorded(open_app):
    app = open_app(BUNDLED, "mismatch", run="ppo_critic", step="20", mismatch_slice="kind")
    parts = table(app).set_index("measure")
    assert [*parts.columns] == ["whole", "engine", "staleness"]
    assert parts.loc["ESS", "whole"] == "99.4 %"
    assert "% from staleness" in texts(app).replace("\\", "")
    assert metrics(app)["ESS"] == "99.4 %"
    app = open_app(BUNDLED, "mismatch", run="grpo_arithmetic", step="20")
    assert [*table(app).columns] == ["measure", "whole"]
    assert "old_logprobs, which separate engine from staleness" in texts(app).replace("\\", "")


def test_a_step_whose_logprobs_are_nan_throughout_is_told_in_one_line(open_rows):
    row = {"prompt": "p", "response": "a", "response_tokens": ["a"], "advantage": 1.0}
    both = {"logprobs": [float("nan")], "sampling_logprobs": [-0.5]}
    app = open_rows("mismatch", {"step": 1, **row, **both})
    assert [info.value.split(":")[0] for info in app.info] == [
        "No loss token of this step has a finite value in both logprobs and sampling_logprobs"
    ]
    assert not app.metric
    assert not app.dataframe
    assert "Not recorded" not in texts(app)


def test_the_bounds_of_rules_are_those_of_the_url(open_app):
    def stopped(**bounds: str) -> tuple[str, float, str]:
        app = open_app(BUNDLED, "mismatch", run="ppo_critic", step="20", **bounds)
        row = app.dataframe[1].value.set_index("rule").loc["Ratio clip (PPO, GRPO)"]
        return row["bounds"], row["hit"], row["set by"]

    usual, tight = stopped(), stopped(mismatch_bounds="ratio_clip:0.05:0.05")
    assert (usual[0], usual[2]) == ("0.8 to 1.2", "the run")
    assert (tight[0], tight[2]) == ("0.95 to 1.05", "you")
    assert tight[1] > usual[1] > 0
    app = open_app(BUNDLED, "mismatch", run="ppo_critic", step="20")
    next(n for n in app.number_input if "icepop_α" in n.key).set_value(0.7).run()
    assert query(app)["mismatch_bounds"] == "icepop:0.7:5"


def test_what_tools_say_is_told_by_tool_over_the_steps(open_rows, tmp_path):
    call = {"id": "c1", "function": {"name": "search", "arguments": "{}"}}
    ends = ((0, 2, "assistant"), (2, 3, "tool"), (3, 4, "assistant"), (4, 5, "tool"))
    row = {
        "prompt": "p",
        "response_tokens": ["look", " up", " error", " seen", " 42"],
        "sft_mask": [0, 0, 1, 0, 1],
        "segments": [{"start": start, "end": end, "role": role} for start, end, role in ends],
        "messages": [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "error", "tool_call_id": "c1"},
            {"role": "tool", "content": "42", "name": "python"},
        ],
    }
    rows = [{**row, "step": n, "logprobs": [-0.1, -0.1, -1.0 * n, -0.1, -4.0]} for n in (1, 2, 3)]
    app = open_rows("mismatch", *rows, step="2")
    shown = table(app).set_index("of")
    assert shown.loc["tool search", ["mean NLL", "largest"]].tolist() == [2.0, 2.0]
    assert shown.loc["tool python", "largest"] == 4.0
    read_all_steps(app, cached_run(tmp_path, "run"))
    assert "Largest NLL of sft_mask tokens" in {card["title"] for card in cards(app)}


def test_all_steps_are_read_when_asked_for_and_drawn(open_app, logs):
    app = open_app(logs, "mismatch", run="native", step="20")
    assert read_all_steps(app, cached_run(logs, "native")) == [0, 10, 20, 35]
    assert "Engine and staleness, KL k3" in {card["title"] for card in cards(app)}
    assert "Not recorded in this run: policy_version" in texts(app)


def read_all_steps(app: AppTest, run: Run) -> list[int]:
    """Asks for the tokens of all steps and waits for them; the steps that were read."""
    app.button(key="scan_start").click().run()
    scan = cache.mismatch_scan(run)
    scan.wait(60)
    assert_sound(app.run())
    return [one.step for one in scan.finish()]


def cached_run(root: Path, name: str) -> Run:
    """The run that the page shows."""
    info = next(info for info in opened_runs.discovered(str(root)).runs if info.name == name)
    return opened_runs.opened(info, OpenOptions(ReadOptions()))


def test_words_are_found_in_the_step_and_the_run_and_a_wrong_pattern_breaks_nothing(open_app, logs):
    app = open_app(logs, "words", run="native", step="20", words_phrases="Think,no such word")
    assert "in 4 of 8 rollouts" in texts(app)
    assert "in 0 of 8 rollouts" in texts(app)
    assert all("⟦think>" in code.value for code in app.code)
    for text in ("Think", "no such word"):
        cache.watched(cached_run(logs, "native"), text, "response", regex=False).wait(60)
    app.run()
    shown = table(app).set_index(["phrase", "scope", "env"])
    assert shown.loc[("Think", "all", ""), ["rollouts", "hits"]].tolist() == [32, 16]
    assert shown.loc[("Think", "env", "code"), "share"] == 100
    assert shown.loc[("no such word", "all", ""), "hits"] == 0
    app = open_app(logs, "words", run="native", step="20", words_phrases="Think", env="math")
    assert "in 0 of 4 rollouts" in texts(app)
    app = open_app(logs, "words", run="native", words_phrases="(", words_regex="1")
    assert "regular expression" in app.error[0].value


def test_before_words_are_chosen_what_is_often_watched_is_counted(open_app, logs):
    shown = table(open_app(logs, "words", run="native", step="20")).set_index("what")
    assert shown.loc["thinking tags", ["rollouts", "hits", "times"]].tolist() == [8, 4, 8]
    app = open_app(logs, "words", run="native", step="20", words_speaker="tool")
    assert "Not recorded at this step: segments" in texts(app)


def test_what_a_run_says_more_and_less_is_told_and_can_be_chosen(open_app):
    app = open_app(BUNDLED, "words", run="grpo_reward_hack", step="100")
    assert "288 rollouts sampled from 12 steps" in texts(app)
    phrases = app.dataframe[0].value.set_index("phrase")
    assert {"check", "answer"} <= set(phrases.index)
    points = phrases["after"] - phrases["before"]  # both rounded
    assert phrases["change"].tolist() == pytest.approx(points.tolist(), abs=1)
    assert app.multiselect(key="words_phrases").options[:2] == ["answer", "check"]
    app.toggle(key="words_regex").set_value(True).run()
    assert r"\bcheck\b" in app.multiselect(key="words_phrases").options


def test_winners_of_groups_are_set_against_losers(open_app):
    app = open_app(BUNDLED, "rollouts", run="grpo_reward_hack", rollouts_view="winners")
    words, numbers, parts = (own.value for own in app.dataframe)
    assert words["feature"][0] == "check"
    assert words["difference"][0] > 10
    assert "Response length" in numbers["feature"].tolist()
    assert len(parts) == 2
    assert "A difference is not a cause" in texts(app)


def test_compared_runs_show_their_ends_and_what_differs(open_app):
    app = open_app(BUNDLED, "compare", run="grpo_arithmetic", compare_runs="grpo_reward_hack")
    ends = next(frame.value for frame in app.dataframe if "gap 1" in frame.value).set_index(
        "metric"
    )
    settings = next(frame.value for frame in app.dataframe if "setting" in frame.value)
    assert "steps 91 to 100 of all runs" in texts(app)
    reward = ends.loc["Reward"]
    assert reward["run 0"] == "0.74 (0.64 to 0.84)"
    assert reward["run 1"].startswith("1.7")
    # The two rewards have other parts: their sums can't be subtracted, one part of them can.
    parts = "grpo_arithmetic: correct, format; grpo_reward_hack: correct, effort"
    assert parts in texts(app).replace("\\", "")
    assert reward["gap 1"] == "–"
    assert ends.loc["Reward part: correct", "gap 1"].startswith("-0.")
    message = dict(zip(settings["setting"], settings["run 1"], strict=True))
    assert message["reward"] == '"loophole"'
    assert "created" not in message
    assert len(app.code) >= 2


def test_runs_with_equal_beginnings_stay_apart(open_app, tmp_path):
    common = "experiments_2026-11_Qwen2.5-7B-Instruct_grpo_gsm8k_hinted_clip_"
    for seed in (1, 2, 3):
        rows = [
            {"step": step, "prompt": f"p{n}", "response": "r", "reward": seed * 0.1 * n}
            for step in (1, 2)
            for n in range(8)
        ]
        write_lines(tmp_path / f"{common}seed{seed}" / "x.jsonl", rows)
        config = {"config": {"seed": seed}}
        (tmp_path / f"{common}seed{seed}" / "run-z.json").write_text(json.dumps(config))
    names = [f"{common}seed{seed}" for seed in (1, 2, 3)]
    app = open_app(tmp_path, "compare", run=names[0], compare_runs=names[1])
    said = texts(app).replace("\\", "")
    assert "…seed2 - …seed1: Reward +0.35 (" in said
    (card, *_) = cards(app)
    assert [line["name"] for line in card["chart"]["lines"]] == ["…seed1", "…seed2"]
    ends = next(frame.value for frame in app.dataframe if "gap 1" in frame.value).iloc[0]
    assert ends["run 0"].startswith("0.35")
    assert ends["run 1"].startswith("0.7")
    assert ends["gap 1"].startswith("+0.35")
    settings = next(frame.value for frame in app.dataframe if "setting" in frame.value)
    assert settings[["run 0", "run 1"]].iloc[0].tolist() == ["1", "2"]
    app.multiselect(key="compare_runs").select("…seed3").run()
    assert query(app)["compare_runs"] == ",".join(names[1:])
    pairs = next(frame.value for frame in app.dataframe if "answer" in frame.value)
    assert pairs["run"].tolist() == ["…seed2", "…seed3"]
    assert pairs["answer"].tolist() == ["higher", "higher"]


def paired_table(app):
    return next(own.value for own in app.dataframe if "difference" in own.value)


def test_curves_of_a_moved_run_say_by_how_many_steps(open_app):
    chosen = {"run": "grpo_arithmetic", "compare_runs": "grpo_reward_hack"}
    app = open_app(BUNDLED, "compare", **chosen, compare_shifts="grpo_reward_hack:-3")
    assert "hack −3 steps" in str(cards(app)[0]["chart"]).replace("-3", "−3")
    assert "steps" not in str(cards(open_app(BUNDLED, "compare", **chosen))[0]["chart"])


def test_two_runs_are_compared_prompt_by_prompt_with_a_way_to_both_answers(open_app):
    chosen = {"run": "grpo_arithmetic", "compare_runs": "grpo_reward_hack"}
    app = open_app(BUNDLED, "compare", **chosen)
    table = paired_table(app).set_index("metric")
    assert table.loc["solve rate", ["prompts", "won", "lost", "equal"]].tolist() == [48, 2, 44, 2]
    assert table.loc["Reward part: correct", "high"] < 0
    assert "steps 1 to 100" in texts(app)
    environments = next(own.value for own in app.dataframe if "environment" in own.value)
    assert environments["environment"].tolist() == ["add", "subtract"]
    app = open_app(BUNDLED, "compare", **chosen, compare_outcome="won")
    (prompt,) = [box for box in app.selectbox if box.key == "prompt"]
    assert len(prompt.options) == 2
    app = open_app(BUNDLED, "compare", **chosen, compare_match="tokens")
    assert "steps 1 to 150 of A, 1 to" in texts(app)


def test_runs_with_equal_settings_but_for_the_seed_are_put_together(open_app, tmp_path):
    for name, rate, seed in (("a", 0.1, 1), ("b", 0.1, 2), ("c", 0.1, 3), ("d", 0.2, 1)):
        rows = [
            {"step": step, "prompt": f"p{n}", "response": "r", "reward": seed + step * n}
            for step in (1, 2)
            for n in (0, 1)
        ]
        write_lines(tmp_path / name / "x.jsonl", rows)
        config = {"config": {"lr": rate, "seed": seed}}
        (tmp_path / name / "run-z.json").write_text(json.dumps(config))
    app = open_app(tmp_path, "compare", run="a", compare_runs="b,c,d")
    together = next(own.value for own in app.dataframe if "iqm" in own.value)
    assert together["runs"].tolist() == [3, 1]
    assert together["settings"].tolist() == ["lr = 0.1", "lr = 0.2"]
    assert together["last"].tolist() == [3.0, 2.0]
    assert "Performance profiles" in texts(app)
    pairs = next(own.value for own in app.dataframe if "run" in own.value)
    assert pairs["run"].tolist() == ["b", "c", "d"]
    assert pairs["prompts"].tolist() == [2, 2, 2]


def test_twenty_compared_runs_are_opened_once(open_app, tmp_path, monkeypatch):
    names = [f"run{n:02d}" for n in range(20)]
    for name in names:
        row = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}
        write_lines(tmp_path / name / "a.jsonl", [row])
    app = open_app(tmp_path, "compare", run=names[0], compare_runs=",".join(names[1:]))
    assert "Over step 1 of all runs" in texts(app)
    monkeypatch.setattr(Follower, "run", lambda *_, **__: pytest.fail("opened again"))
    assert_sound(app.run())


def test_without_a_choice_the_run_that_shares_most_is_compared_with(open_app, tmp_path):
    """Not the newest, and not one of the same settings that saw other prompts."""
    runs = {
        "base": ("p", 1, 0.1),
        "newest": ("q", 1, 0.1),
        "other": ("p", 1, 0.2),
        "x": ("p", 2, 0.1),
    }
    for place, (name, (prompt, seed, lr)) in enumerate(runs.items()):
        rows = [
            {"step": step, "prompt": f"{prompt}{step}", "response": "r", "reward": 1.0}
            for step in range(1, 4)
        ]
        folder = write_lines(tmp_path / name / "x.jsonl", rows).parent
        settings = {"config": {"lr": lr, "seed": seed, "batch": 8}}
        (folder / "run-1.json").write_text(json.dumps(settings))
        age(folder, 60 * place)
    app = open_app(tmp_path, "compare", run="base")
    chosen = app.multiselect(key="compare_runs")
    assert chosen.placeholder == "x"
    assert "x shares 100 % of the prompts and 2 of 2 settings" in chosen.help
    assert "compare_runs" not in query(app)


def test_where_all_share_as_much_the_newest_run_of_the_same_folder_is_compared_with(
    open_app, tmp_path
):
    for place, name in enumerate(("a/new", "a/old", "b/mine", "b/old")):
        rows = [{"step": 1, "prompt": "p", "response": "r", "reward": 1.0, "group_id": "g"}]
        age(write_lines(tmp_path / name / "x.jsonl", rows).parent, 60 * place)
    app = open_app(tmp_path, "compare", run="b/mine")
    assert app.multiselect(key="compare_runs").placeholder == "b/old"
    assert "compare_runs" not in query(app)
    assert "settings (run-*.json) of b/mine, b/old" in texts(app).replace("\\", "")
    assert "None of the recorded settings" not in texts(app)
    ends = next(frame.value for frame in app.dataframe if "gap 1" in frame.value)
    assert "Response length in characters" in ends["metric"].tolist()


def test_the_same_prompt_is_shown_in_two_of_the_runs_and_is_of_the_environments_chosen(open_app):
    pair = "grpo_arithmetic,grpo_reward_hack"
    chosen = {"run": "resumed", "compare_runs": pair, "compare_pair": pair}
    app = open_app(BUNDLED, "compare", **chosen, env="subtract")
    sides = [str(m.value) for m in app.markdown if "seen at" in str(m.value)]
    assert ["arithmetic" in side for side in sides] == [True, False]
    assert "hack" in sides[1]
    (prompt,) = [box for box in app.selectbox if box.key == "prompt"]
    assert prompt.options
    assert all(text.startswith("Take ") for text in prompt.options)
    assert any("not of the environments chosen" in text.value for text in app.markdown)


def test_means_groups_and_rankings_are_of_the_chosen_environment(open_app, logs):
    app = open_app(logs, run="native", step="20", env="code")
    assert any("env code" in str(badge.value) for badge in app.get("markdown"))
    assert tiles(app)["Reward"]["value"] == "0.8"
    app = open_app(logs, "step", run="native", step="20", env="code", step_metric="reward")
    assert table(app)["index"].tolist() == [7, 5, 3, 1]
    app = open_app(logs, "step", step_part="groups", run="native", step="20", env="code")
    # Of the chosen group the prompt, and one rollout of each rank.
    assert len(app.code) == 1 + 2
    assert metrics(app)["Effective batch"] == "4"


def test_a_step_without_the_environment_says_so(open_app):
    app = open_app(BUNDLED, "mismatch", run="grpo_arithmetic", step="97", env="add")
    assert "No rollout of these environments is at step 97" in app.info[0].value
    next(b for b in app.button if b.label.startswith("To step")).click().run()
    assert query(app)["step"] in ("96", "98")


def test_an_expression_is_a_curve_of_its_own(open_app, logs):
    app = open_app(logs, run="native", overview_expression="reward > 0.5")
    own = next(card for card in cards(app) if card["key"] == "own")
    assert own["title"] == "reward > 0.5"
    assert set(own["chart"]["lines"][0]["y"]) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    app = open_app(logs, run="native", overview_expression="no_such_column + 1")
    assert "no column" in app.error[0].value


def test_a_choice_of_these_pages_survives_the_way_to_another(open_app):
    app = open_app(
        BUNDLED, "step", step_part="groups", run="grpo_arithmetic", step="97", groups_id="s97g2"
    )
    go_to(app, "prompts")
    go_to(app, "groups")
    assert query(app)["groups_id"] == "s97g2"
    assert app.selectbox(key="groups_id").value == "s97g2"
    app.button(key="step_chevron_right").click().run()
    assert (notices(app), "groups_id" in query(app)) == ([], False)


def test_what_can_not_be_compared_or_contrasted_says_why(open_app, tmp_path):
    for name, step in (("a", 1), ("b", 5)):
        rows = [
            {"step": step, "prompt": "p", "response": "r", "reward": reward, "group_id": "g"}
            for reward in (0.0, 1.0)
        ]
        write_lines(tmp_path / name / "x.jsonl", rows)
    app = open_app(tmp_path, "compare", run="a", compare_runs="b")
    assert "not compared: no step is in both runs" in texts(app).replace("\\", "")
    assert "No step is in all of these runs" in texts(app)
    app = open_app(tmp_path, "compare", run="a", compare_runs="b", compare_match="time")
    assert "timestamps are not recorded in both runs" in texts(app)
    app = open_app(tmp_path, "rollouts", run="a", rollouts_view="winners")
    assert "Nothing is recorded in 5 groups or more on both sides." in texts(app)


def test_failures_are_drawn_by_step_and_kind_with_their_effect(open_rows):
    rows = [
        {
            "step": step,
            "group_id": f"{step}{g}",
            "env": "ab"[g],
            "prompt": f"p{g}",
            "response": "r",
            "response_ids": [] if g and n == 3 else [4],
            "reward": [1.0, 3.0, 2.0, 0.0][n],
        }
        for step in (1, 2)
        for g in (0, 1)
        for n in range(4)
    ]
    app = open_rows("failures", *rows)
    assert metrics(app)["Infrastructure failed"] == "13 %"
    assert [card["title"] for card in cards(app)][:2] == [
        "Failures and limits",
        "All causes",
    ]
    similar = next(own.value for own in app.dataframe if "evidence" in own.value)
    assert similar["evidence"].tolist() == ["the response is empty"]
    assert "The baseline of the changed ones moved by 0.5" in texts(app).replace("\\", "")
    app = open_rows("overview", *rows)
    labels = [link.proto.label for link in app.get("page_link")]
    assert any("Infrastructure failed in 2 of 16" in label for label in labels), labels[8:]


def test_a_verdict_on_failures_that_are_alike_is_applied_at_once(open_rows):
    row = {"step": 1, "prompt": "p", "response": "r", "reward": 0.0}
    app = open_rows("failures", row, *({**row, "error": f"odd thing {n}"} for n in range(3)))
    assert metrics(app)["Unclear"] == "75 %"
    app.selectbox("failures_verdict_0").select("judge").run()
    app.button("failures_verdict_save").click().run()
    assert not app.exception
    assert metrics(app)["Infrastructure failed"] == "75 %"
    similar = next(own.value for own in app.dataframe if "evidence" in own.value)
    assert similar[["cause", "basis"]].values.tolist() == [["judge", "confirmed"]]
    assert "[[evidence]]" in app.code[0].value


def test_failures_of_a_run_without_any_are_no_empty_charts(open_rows):
    app = open_rows("failures", {"step": 1, "prompt": "p", "response": "r", "reward": 1.0})
    assert metrics(app)["The model's own"] == "0 %"
    assert cards(app) == []
    assert "Causes by step" not in texts(app)


def test_truncated_rollouts_are_at_a_limit(open_rows):
    row = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0, "finish_reason": "length"}
    app = open_rows("failures", row, row | {"finish_reason": "stop"})
    assert metrics(app)["At a limit"] == "50 %"
    assert [card["title"] for card in cards(app)] == ["Failures and limits"]


def test_a_step_says_how_many_of_its_groups_are_incomplete(open_rows):
    rows = [
        {"step": 1, "group_id": f"g{g}", "response": f"{g} {i}", "reward": float(i % 2)}
        for g, size in enumerate((8, 8, 7, 5, 3, 3, 3, 1))
        for i in range(size)
    ]
    app = open_rows("step", *rows, part="groups")
    assert metrics(app)["Incomplete groups"] == "6"
    assert "of 8 have less than 8 rollouts" in texts(app)
