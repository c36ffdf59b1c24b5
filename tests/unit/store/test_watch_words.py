from __future__ import annotations

from pathlib import Path

import pytest
from written_logs import native_run, write_lines

from board.errors import ChoiceError
from board.store.discovery import discover
from board.store.run import Run, open_run
from board.store.watch_words import compiled, watch


def opened(folder: Path) -> Run:
    (info,) = discover(folder).runs
    return open_run(info)


def test_hits_and_misses_have_their_own_mean_reward(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "env": "a", "prompt": "wait", "response": "Wait. wait!", "reward": 1.0},
        {"step": 1, "env": "a", "prompt": "wait", "response": "no", "reward": 0.25},
        {"step": 1, "env": "b", "prompt": "wait", "response": "no", "reward": None},
    ]
    run = opened(write_lines(tmp_path / "run" / "a.jsonl", rows).parent)
    first, second = watch(run, compiled("wait"))
    assert (first.env, first.rollouts, first.hits, first.times) == ("a", 2, 1, 2)
    assert (first.reward_hits, first.reward_misses, first.examples) == (1.0, 0.25, [0])
    assert (second.env, second.share) == ("b", 0.0)
    assert second.reward_misses != second.reward_misses
    assert [w.hits for w in watch(run, compiled("wait"), by="prompt")] == [2, 1]


def test_a_phrase_is_no_pattern_unless_asked_for(tmp_path: Path) -> None:
    run = opened(native_run(tmp_path / "run"))
    assert sum(w.hits for w in watch(run, compiled("2*3*4"))) == run.rollout_count // 2
    assert sum(w.hits for w in watch(run, compiled("2.3.4", regex=True))) == run.rollout_count // 2
    with pytest.raises(ChoiceError, match="no regular expression"):
        compiled("(", regex=True)


def test_words_of_one_role_are_those_of_its_messages(tmp_path: Path) -> None:
    messages = [{"role": "tool", "content": "error"}, {"role": "assistant", "content": "fine"}]
    row = {"step": 1, "prompt": "p", "response": "r", "messages": messages}
    run = opened(write_lines(tmp_path / "run" / "a.jsonl", [row]).parent)
    assert [w.hits for w in watch(run, compiled("error"), by="tool")] == [1]
    assert [w.hits for w in watch(run, compiled("error"), by="assistant")] == [0]


def test_progress_can_stop_the_watching(tmp_path: Path) -> None:
    run = opened(native_run(tmp_path / "run"))
    seen: list[tuple[int, int]] = []
    stream = watch(run, compiled("x"), progress=lambda done, total: seen.append((done, total)))
    for _ in stream:
        if seen:
            stream.close()
    assert seen == [(8, 32)]
