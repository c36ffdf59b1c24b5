from __future__ import annotations

from pathlib import Path

from written_logs import write_lines

from board.analysis.words import trending_phrases
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run, open_run

SAMPLES = Path(__file__).parents[3] / "rollout_samples"


def opened(folder: Path, name: str) -> Run:
    return open_run(discover(folder).run(name))


def test_the_reward_hack_is_heard_in_what_it_says() -> None:
    found = trending_phrases(opened(SAMPLES, "grpo_reward_hack"))
    changes = {one.phrase: one.change for one in found.phrases}
    assert changes["check"] > 0.3
    assert changes["answer"] < -0.5
    assert (found.steps[0], found.steps[-1], len(found.steps)) == (1, 100, 12)
    assert found.rollouts == 12 * 24


def test_of_large_rollouts_fewer_are_read() -> None:
    found = trending_phrases(opened(SAMPLES, "grpo_reward_hack"), budget=100_000)
    assert 24 <= found.rollouts < 100


def test_a_run_that_does_not_tell_who_speaks_has_no_words_of_it(tmp_path: Path) -> None:
    rows = [{"step": s, "prompt": "p", "response": "r", "reward": 1.0} for s in (1, 2)]
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    found = trending_phrases(opened(tmp_path, "run"), "tool")
    assert (found.phrases, found.rollouts) == ((), 0)
