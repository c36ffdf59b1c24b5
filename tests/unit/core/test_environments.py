import numpy as np

from board.core.groups.environments import EnvCurves, curves_from, hidden


def env_curves(steps, envs, names, values):
    known = np.isfinite(values)
    return curves_from(steps, envs, names, np.where(known, values, 0.0), known)


def test_an_env_called_all_is_not_the_mean_over_all():
    result = env_curves(
        np.array([1, 1, 1, 2]), np.array([0, 1, 1, -1]), ["all", "math"], np.array([4.0, 1, 1, 9])
    )
    assert result.names == ["all", "math"]
    assert np.array_equal(result.means, [[4.0, np.nan], [1.0, np.nan]], equal_nan=True)
    assert result.overall.tolist() == [2.0, 9.0]
    assert result.counts.tolist() == [[1, 0], [2, 0]]


def test_a_value_that_is_missing_is_no_zero():
    result = env_curves(np.array([1, 1]), np.array([0, 0]), ["a"], np.array([np.nan, 3.0]))
    assert (result.means.tolist(), result.overall.tolist()) == ([[3.0]], [3.0])


def curves(means: dict[str, np.ndarray], shares: dict[str, np.ndarray] | None = None) -> EnvCurves:
    """Environments with these means at each of 80 steps; shares: rollouts of each, 8 by default."""
    rng = np.random.default_rng(0)
    steps, envs, values = [], [], []
    for code, (name, mean) in enumerate(means.items()):
        counts = np.full(80, 8) if shares is None else shares[name]
        for step in range(80):
            count = int(counts[step])
            steps += [step] * count
            envs += [code] * count
            values += (mean[step] + 0.01 * rng.normal(size=count)).tolist()
    ones = np.ones(len(steps), np.int64)
    return curves_from(np.array(steps), np.array(envs), [*means], np.array(values), ones)


def test_an_environment_that_falls_while_the_mean_rises_is_told():
    result = hidden(curves({"up": np.linspace(0, 1, 80), "down": np.linspace(0.5, 0.1, 80)}))
    assert [(one.kind, one.environment) for one in result] == [("against", 1)]
    assert result[0].before > result[0].after
    assert result[0].all_before < result[0].all_after


def test_environments_that_move_together_are_not_told():
    assert hidden(curves({"a": np.linspace(0, 1, 80), "b": np.linspace(0.2, 1.1, 80)})) == []


def test_a_mean_that_moves_with_the_mix_alone_is_told():
    flat = {"easy": np.ones(80), "hard": np.zeros(80)}
    more_easy = np.linspace(1, 15, 80).round()
    result = hidden(curves(flat, {"easy": more_easy, "hard": 16 - more_easy}))
    assert [one.kind for one in result] == ["mix"]


def test_too_few_steps_tell_nothing():
    steps = np.array([0, 0, 1, 1])
    envs, means = np.array([0, 1, 0, 1]), np.array([0.0, 1.0, 1.0, 0.0])
    few = curves_from(steps, envs, ["a", "b"], means, np.ones(4, np.int64))
    assert hidden(few) == []
