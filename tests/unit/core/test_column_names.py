"""Names of columns in expressions: their own, those on the screen, and what they end with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.column_names import ends_of, meanings_of
from board.core.expression_tree import text_literal
from board.core.expressions import FUNCTIONS, KEYWORDS, parse
from board.core.metrics.definitions import ROLLOUT_METRICS
from board.core.metrics.headings import heading, meanings, narrow_headings
from board.errors import ExpressionError
from board.query.predicate import parsed

COLUMNS = (
    *("step", "index", "env", "group_id", "finish_reason", "reward", "response_tokens", "k3_mean"),
    *("k3_max", "reward_gap", "rewards.correct", "rewards.tool_errors", "metrics.acc", "Tool use"),
    *("loss_tokens", "prompt_tokens", "entropy_mean", "logprobs_mean", "agent_turns"),
)


@pytest.mark.parametrize(
    ("typed", "column"),
    [
        ("k3", "k3_mean"),
        ("correct", "rewards.correct"),
        ("tool_errors", "rewards.tool_errors"),
        ("tokens", "response_tokens"),
        ("finish", "finish_reason"),
        ("group", "group_id"),
        ("#", "index"),
        ("acc", "metrics.acc"),
        ("Reward", "reward"),
        ("K3 max", "k3_max"),
        ("gap to ref", "reward_gap"),
        ("prompt length", "prompt_tokens"),
        ("Response length", "response_tokens"),
        ("agent turns", "agent_turns"),
        ('col("KL(policy‖ref), k3")', "k3_mean"),
        ('col("in the loss")', "loss_tokens"),
        ('"in the loss"', "loss_tokens"),
        ("k3_mean", "k3_mean"),
    ],
)
def test_what_stands_on_the_screen_is_a_name(typed, column):
    assert parsed(COLUMNS, f"{typed} > 0").names == (column,)
    if not typed.startswith('"'):
        assert parsed(COLUMNS, f"not 0 < {typed} or step > 2").names == (column, "step")


def test_a_column_s_own_name_wins_over_all_others():
    assert parsed((*COLUMNS, "correct"), "correct > 0").names == ("correct",)
    assert parsed(("a", "b", "x.a-b"), "a-b > 0").names == ("a", "b")
    assert parsed(("reward", "x.max"), "max(reward, 1) > 0").names == ("reward",)
    assert parsed(("x.true", "reward"), "reward == true").names == ("reward",)


def test_a_word_that_is_compared_with_is_a_text_though_a_column_ends_so():
    expression = parsed(("env", "rewards.math", "rewards.hard"), "env == math")
    assert expression.names == ("env",)
    assert parsed(("env", "rewards.math"), "env in (math, code)").names == ("env",)


@pytest.mark.parametrize("typed", ["acc", "col('acc')", "'acc'", "ACC"])
def test_a_name_of_several_columns_lists_them(typed):
    columns = ("train.acc", "eval.acc", "step")
    with pytest.raises(ExpressionError, match=r"may mean train\.acc, eval\.acc") as raised:
        parsed(columns, f"{typed} > 0")
    assert f"{typed} > 0"[raised.value.start : raised.value.end].strip("'") in ("acc", "ACC", typed)


@pytest.mark.parametrize(
    ("typed", "instead"), [("corect", "correct"), ("tokns", "tokens"), ("k3_men", "k3_mean")]
)
def test_the_nearest_of_all_names_is_suggested(typed, instead):
    with pytest.raises(ExpressionError, match="did you mean") as raised:
        parsed(COLUMNS, f"{typed} > 0")
    assert raised.value.instead == instead


PARTS = st.text("abk3_ .-/Aé#,:>('", min_size=1, max_size=6)
NAMES = st.one_of(
    st.sampled_from([*ROLLOUT_METRICS, "step", "index", "env", "finish_reason", "group_id"]),
    st.builds("rewards.{}".format, PARTS),
    st.lists(PARTS, min_size=1, max_size=3).map(".".join),
    st.sampled_from([*KEYWORDS, *FUNCTIONS, "x.in", "x.max", "x.true", "nan"]),
    st.sampled_from(["a", "b", "tool_errors", "rewards.a-b", "rewards.a/b", "rewards.tool_errors"]),
)


@given(st.lists(NAMES, min_size=1, max_size=12, unique=True))
def test_every_heading_that_is_typed_filters_its_column(names):
    columns = tuple(names)
    above = narrow_headings(columns)
    assert len({*above.values()}) == len(columns)
    for name, words in above.items():
        for typed in (f"{words} > 0", f"1 > 0 or {words} <= 2", f"({words} == 1)"):
            assert parse(typed, columns, meanings(columns)).names == (name,), typed


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        (("rewards.a/b", "a", "b"), {"rewards.a/b"}),
        (("rewards.a/b", "step"), {"a/b"}),
        (("rewards.tool_errors", "tool_errors"), {"rewards.tool_errors", "tool errors"}),
        (("loss_tokens", "step"), {"in the loss"}),
        (("mismatch_ratio_mean",), {"trainer/sampler ratio"}),
        (("3", "not b", "not"), {'"3"', '"not b"', '"not"'}),
    ],
)
def test_a_head_that_a_filter_would_read_otherwise_gives_way_to_the_column_s_name(columns, heads):
    assert heads <= {*narrow_headings(columns).values()}


@pytest.mark.parametrize("name", [*ROLLOUT_METRICS, "rewards.correct"])
def test_labels_with_signs_are_names_where_the_text_can_t_be_read_without(name):
    assert parsed((name, "step"), f"step > 1 and {heading(name)} > 0").names == ("step", name)


@given(st.lists(NAMES, min_size=1, max_size=12, unique=True))
def test_no_other_name_changes_what_own_names_say(names):
    columns = tuple(names)
    for name in columns:
        for text in (f"{name} > 0", f"{name} - {name} > 0", f"{columns[0]}-{name} == 1"):
            try:
                plain = parse(text, columns)
            except ExpressionError:
                continue
            assert parse(text, columns, meanings(columns)).tree == plain.tree


@pytest.mark.parametrize("name", [*ROLLOUT_METRICS])
def test_every_label_means_its_metric(name):
    metric = ROLLOUT_METRICS[name]
    for words in (heading(name), metric.label, metric.label_with_unit):
        assert parsed((name, "step"), f"col({text_literal(words)}) > 0").names == (name,)


def test_a_heading_is_cut_and_still_means_its_column():
    columns = ("reward", "rewards." + "long " * 20)
    words = narrow_headings(columns)[columns[1]]
    assert words.endswith("…")
    assert parsed(columns, f"col({text_literal(words)}) > 0").names == (columns[1],)


def test_a_name_ends_with_each_of_its_last_parts():
    assert [*ends_of("config.optim.lr")] == ["optim.lr", "lr"]
    assert [*ends_of("train/loss.")] == ["loss."]
    assert meanings_of(("a.lr",), [{"LR": ["a.lr"]}]) == {"lr": ("a.lr",), "a.lr": ("a.lr",)}
