"""Every page shows every run, and says what the run does not hold."""

import ast
import re

import pytest
from page_elements import (
    PAGES,
    assert_sound,
    cards,
    choice,
    go_to,
    grids,
    read_texts,
    readers,
    table,
    texts,
    tiles,
)
from written_logs import write_lines

from board.views.shared import pages
from board.views.shared.state import page_file


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        ("native", []),
        ("rllb", ["Entropy, policy", "KL(sampler‖trainer), mismatch", "Truncated"]),
        ("texts", ["Reward", "KL(policy‖ref), k3", "Response length", "Zero-std groups"]),
    ],
)
def test_metrics_a_run_does_not_hold_are_said_to_be_not_recorded(open_app, logs, run, missing):
    app = open_app(logs, run=run)
    message = [c.value.replace("\\", "") for c in app.caption if "Not recorded" in c.value]
    assert len(message) == bool(missing)
    assert all(f"{name} (needs" in message[0] for name in missing)


def test_a_metric_without_a_value_at_the_step_is_not_recorded_and_never_zero(open_rows):
    rows = [{"step": s, "response": "r", "reward": r} for s, r in ((0, 1.0), (1, None))]
    app = open_rows("overview", *rows, step="1")
    reward = tiles(app)["Reward"]
    assert (float(reward["value"]), reward["change"]) == (1.0, "")
    app = open_rows("rollouts", *rows, step="1")
    assert table(app)["reward"].isna().all()
    assert "No reward is recorded of these rollouts" in texts(app)


@pytest.mark.parametrize(("apart", "interval"), [(4_000, ""), (200, r"4,\d{3} to 5,\d{3}")])
def test_a_tile_has_the_interval_of_enough_rollouts_and_large_numbers_in_full(
    open_rows, apart, interval
):
    sizes = range(1_000, 9_001, apart)
    rows = [{"step": 0, "response": "r" * size, "reward": 1.0} for size in sizes]
    written = tiles(open_rows("overview", *rows))["Response length in characters"]["error"]
    assert re.fullmatch(interval, written)


def test_a_tile_tells_the_mean_of_the_steps_up_to_the_chosen_one(open_app, logs):
    app = open_app(logs, run="native", step="10")
    # Rewards of step 10: 0.1, 0.2, 0.3, 0.4 on rank 0 and one more each on rank 1; of step 0 less.
    assert float(tiles(app)["Reward"]["value"]) == pytest.approx((0.65 + 0.75) / 2)


def test_the_parts_of_the_reward_are_in_its_chart_and_in_tiles(open_app, logs):
    app = open_app(logs, run="native")
    first = cards(app)[0]
    assert (first["title"], first["unit"]) == ("Reward", "and its parts")
    names = [line["name"] for line in first["chart"]["lines"]]
    assert {"Reward", "correct", "format"} <= {*names}
    assert len({line["ink"] for line in first["chart"]["lines"]}) == len(names)
    assert {"Reward", "correct", "format"} <= {*tiles(app)}


def test_a_resume_is_a_mark_on_the_axis_of_every_chart(open_app, logs):
    app = open_app(logs, run="native", overview_more="1")
    message = grids(app)
    assert len(message) == 2
    for common in message:
        resumed = [mark for mark in common["marks"] if mark["kind"] == "resumed"]
        assert [mark["step"] for mark in resumed] == [20]


def test_an_empty_response_is_shown_in_the_reader(open_rows):
    empty = {"response": "", "response_tokens": [], "logprobs": []}
    app = open_rows("rollout", {"step": 0, "prompt": "p", "reward": 0.0, **empty})
    assert len(readers(app)) == 1


SAID = ({"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "<think>4"})


@pytest.mark.parametrize("row", [{"prompt": SAID[:1], "response": SAID[1:]}, {"messages": SAID}])
def test_chat_messages_are_shown_as_the_conversation_they_are(open_rows, row):
    app = open_rows("rollout", {"step": 0, "reward": 1.0, **row})
    assert read_texts(app) == ["2+2?", "4"]


ODD = {
    "rewards around 1e5": [{"reward": 1e5 + i} for i in range(20)],
    "one rollout": [{}],
    "odd steps, prompts of numbers": [{"step": -5}, {"step": "step_2", "prompt": 4}],
    "huge numbers": [{"reward": 1e200, "extra": 10**300}, {"reward": -1e200}],
    "no measured number": [{"reward": None, "logprobs": None, "ref_logprobs": None}],
    "each row in its own way": [
        *({}, {"reward": None}, {"token_rewards": [0.5]}, {"ref_logprobs": None}),
        *({"logprobs": [None, -1.0]}, {"ground_truth": "4"}, {"response_tokens": None}),
        *({"reward": "0.5"}, {"reward": "yes"}, {"extra": 1}, {"extra": "x"}),
        *({"extra": [1, {}]}, {"extra": None}),
        {"reward": float("nan"), "logprobs": [float("inf"), -1.0]},
    ],
}


@pytest.mark.parametrize("case", ODD)
def test_odd_records_break_no_page(open_rows, case):
    usual = {
        "step": 0,
        "prompt": "p",
        "response": "It is",
        "response_tokens": ["It", " is"],
        "logprobs": [-1.0, -0.5],
        "ref_logprobs": [-1.0, -0.6],
        "reward": 0.5,
    }
    app = open_rows("overview", *({**usual, **change} for change in ODD[case]))
    for page in (*PAGES[1:], None):
        assert_sound(app)
        assert not app.error
        if page:
            go_to(app, page)


def test_steps_with_gaps_are_gone_through_in_order(open_app, logs):
    app = open_app(logs, run="native")
    assert "0–35" in [caption.value for caption in app.caption]
    assert choice(app, "step") == 35
    app.button(key="step_chevron_left").click().run()
    assert choice(app, "step") == 20
    app.button(key="step_first_page").click().run()
    assert choice(app, "step") == 0
    assert app.button(key="step_chevron_left").disabled


def test_rollouts_written_again_after_a_resume_count_once_and_are_shown_when_asked_for(
    open_app, logs
):
    app = open_app(logs, "rollouts", run="native", step="20")
    assert len(table(app)) == 8
    assert "8 rollouts superseded by a resume" in texts(app)
    app = open_app(logs, "findings", findings_part="health", run="native", step="20")
    assert "8 rollouts were written again by a resume" in texts(app)
    result = next(frame for frame in app.dataframe if "effect" in frame.value)
    assert result.proto.row_height > 64  # Streamlit wraps no text in lower rows
    assert "not ended" not in texts(app)
    app.toggle(key="findings_superseded").set_value(True).run()
    assert_sound(app)
    old = app.dataframe[0].value
    assert old["step"].tolist() == [20] * 8
    assert set(old["file"].str.slice(0, 2)) == {"a1"}


def test_a_column_named_like_a_mean_is_drawn_as_itself(open_rows):
    rows = [{"step": s, "response": "r", "reward": 0.0, "reward_mean": 7.0} for s in (0, 1)]
    app = open_rows("overview", *rows)
    drawn = next(card for card in cards(app) if card["key"] == "reward_mean")
    assert drawn["chart"]["lines"][0]["text"][0].startswith("reward_mean <b>7</b>")


def test_prompts_are_listed_without_the_lines_that_all_begin_with(open_rows):
    rows = [
        {"step": step, "prompt": f"system\nBe brief.\nAdd {place} and 2.", "reward": 1.0}
        for step in range(2)
        for place in range(3)
    ]
    app = open_rows("prompts", *rows)
    assert app.dataframe[0].value["prompt"].tolist() == [f"… Add {n} and 2." for n in range(3)]


def test_steps_that_are_still_written_are_named_with_their_ranks(open_app, tmp_path):
    about = {"schema": 1, "attempt": "a", "started": 1, "start_step": 0, "world_size": 3}
    for rank in (0, 2):
        rows = [
            {"type": "header", "rank": rank, **about},
            {"type": "sample", "step": 4, "rank": rank, "reward": 1.0},
            *([{"type": "step_end", "step": 4}] if rank == 0 else []),
        ]
        write_lines(tmp_path / "run" / f"r{rank}.jsonl", rows)
    app = open_app(tmp_path, "findings", findings_part="health")
    assert "step 4 not ended yet by ranks 1, 2" in texts(app).replace("\\", "")
    assert [text.value for text in app.text if "Rank" in text.value] == [
        "Rank 1: step 4",
        "Rank 2: step 4",
    ]


@pytest.mark.parametrize("page", [page.name for page in pages.PAGES])
def test_a_page_has_no_text_standing_alone_that_streamlit_would_print(page):
    body = ast.parse(page_file(page).read_text()).body[1:]  # the first is the docstring
    values = [line.value for line in body if isinstance(line, ast.Expr)]
    assert all(isinstance(value, ast.Call) for value in values)
