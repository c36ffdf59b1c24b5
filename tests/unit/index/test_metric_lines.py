"""A line of numbers alone is the trainer's: it is no rollout, wherever it stands."""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from read_formats import reasons, run_of

from board.formats.metric_lines import METRICS
from board.query.trainer.metrics import TrainerMetricsReader

NAMES = {
    "rllb": ("prompt", "response", "reward"),
    "generic": ("question", "completion", "reward"),
    "scored": ("query", "generation", "score"),
}
METRIC_NAMES = st.sampled_from(["loss", "kl", "lr", "entropy", "tokens_per_second", "grad_norm"])


@pytest.mark.parametrize("kind", NAMES)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    metrics=st.dictionaries(METRIC_NAMES, st.floats(-10, 10, width=32), min_size=1),
    nested=st.booleans(),
    before=st.booleans(),
    count=st.integers(1, 4),
)
def test_metrics_between_rollouts_are_curves_of_the_trainer(
    kind, metrics, nested, before, count, tmp_path_factory
):
    prompt, response, reward = NAMES[kind]
    rows = []
    for step in (1, 2, 3):
        logged = {"step": step, **({"metrics": metrics} if nested else metrics)}
        texts = [
            {"step": step, prompt: f"What is {i}?", response: f"It is {i}.", reward: float(i % 2)}
            for i in range(count)
        ]
        rows += [logged, *texts] if before and step > 1 else [*texts, logged]
    run = run_of(tmp_path_factory.mktemp("mixed"), rows)
    assert run.counts == {1: count, 2: count, 3: count}
    assert (METRICS.reason, 3) in [(one.reason, one.count) for one in run.problems]
    reader = TrainerMetricsReader()
    reader.read(run)
    curves = reader.metrics(run).curves
    for name, value in metrics.items():
        assert curves[f"trainer/{name}"].values.tolist() == [value] * 3


def test_a_mean_reward_beside_a_loss_is_no_rollout(tmp_path):
    rows = [
        {"step": 1, "prompt": "a", "response": "b", "reward": 1.0},
        {"step": 1, "loss": 0.5, "reward": 0.25},
    ]
    assert run_of(tmp_path, rows).counts == {1: 1}


@pytest.mark.parametrize("texts", [{"prompt": None, "response": None}, {"group_id": "g1"}])
def test_a_step_and_a_reward_are_a_rollout_only_where_a_text_or_an_id_is_due(tmp_path, texts):
    rows = [
        {"step": 1, "prompt": "a", "response": "b", "reward": 1.0},
        {"step": 1, "reward": 0.0},
        {"step": 1, "reward": 0.0, **texts},
    ]
    run = run_of(tmp_path, rows)
    assert run.counts == {1: 2}
    assert (METRICS.reason, 1) in reasons(run)


@pytest.mark.parametrize("form", ["rllb", "native", "verl", "generic"])
@settings(max_examples=12, deadline=None)
@given(
    kept=st.lists(st.booleans(), min_size=3, max_size=12),
    further=st.dictionaries(
        st.sampled_from(["loss", "lr", "kl", "entropy", "actor/loss", "note"]),
        st.floats(0, 9) | st.just("a word on the validation"),
        min_size=1,
    ),
    beside=st.fixed_dictionaries(
        {},
        optional={
            "reward": st.just(0.5),
            "response": st.none(),
            "split": st.just("train"),
            "epoch": st.just(1),
        },
    ),
)
def test_whatever_lines_of_metrics_hold_beside_no_text_they_are_no_rollouts(
    tmp_path_factory, form, kept, further, beside
):
    texts = {"verl": ("input", "output", "score"), "generic": ("question", "completion", "score")}
    prompt, response, reward = texts.get(form, ("prompt", "response", "reward"))
    ids = {"group_id": "g"} if form == "native" else {}
    rows = [{"step": 1, prompt: "asked of it", response: "said by it", reward: 1.0, **ids}]
    for is_rollout in kept:
        rows.append(rows[0] if is_rollout else {"step": 1, **beside, **further})
    run = run_of(tmp_path_factory.mktemp("lines"), rows)
    assert run.rollout_count == 1 + sum(kept)
