"""The index holds the whole texts of every rollout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from board.analysis.patterns import compiled
from board.analysis.step_records import StepRecords
from board.analysis.words import watch
from board.index.discovery.discovered_runs import discover
from board.index.segments import ANY_TEXT
from board.index.whole_texts import whole_text
from board.query.open_run import Follower, Run
from board.query.rollouts import texts_at
from board.query.selection import Selection, rows_of
from board.views import _rollout_words

PROJECT = Path(__file__).parents[3]
ROOTS = (PROJECT / "rollout_samples", PROJECT / "tests" / "formats" / "data")
INFOS = [info for root in ROOTS for info in discover(root).runs]
NAMES = ("prompt", "response", "ref_response", "ground_truth")


def texts_of(run: Run, name: str) -> list[str | None]:
    """One text of all rollouts, in their order."""
    rows = rows_of(run)
    table = Selection(rows).table(
        f"SELECT {rows.whole_text(name)} AS text FROM {rows.rows} ORDER BY step, position"
    )
    return table["text"].to_pylist()


def opened(folder: Path, *, persist: bool = False) -> Run:
    (info,) = discover(folder).runs
    return Follower(persist=persist).run(info)


def write(folder: Path, *lines: dict[str, Any], name: str = "log.jsonl") -> None:
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_texts_of_the_index_are_those_of_the_log(info) -> None:
    run = Follower().run(info)
    found = {name: texts_of(run, name) for name in NAMES}
    for place, record in StepRecords(run).of(run.rollouts):
        for name in NAMES:
            text = record.texts.get(name)
            if text is None and name in NAMES[:2]:
                text = whole_text(record, run.vocabulary, name)
            if text is not None:  # else there may be a preview of ids
                assert found[name][place] == text


@pytest.mark.parametrize("persist", [False, True])
def test_long_texts_are_whole_on_disk_and_in_memory(tmp_path: Path, persist: bool) -> None:
    long = "é" * 100_000
    write(tmp_path, *({"step": n, "prompt": "p", "response": long + str(n)} for n in range(5)))
    run = opened(tmp_path, persist=persist)
    assert texts_of(run, "response") == [f"{long}{n}" for n in range(5)]
    assert run.rollouts["response"].str.len().tolist() == [240] * 5


def test_texts_survive_when_segments_are_put_together(tmp_path: Path) -> None:
    for step in range(12):
        write(tmp_path, {"step": step, "prompt": "p" * 300, "response": f"{step} " * 200})
        run = opened(tmp_path, persist=True)
    assert len(run.shown.manifest.segments) < 12
    assert texts_of(run, "response") == [f"{step} " * 200 for step in range(12)]


def test_any_text_holds_messages_that_are_neither_prompt_nor_response(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "asked"}, {"role": "tool", "content": "a secret"}]
    write(tmp_path, {"step": 1, "prompt": "asked", "response": "said", "messages": messages})
    run = opened(tmp_path)
    assert texts_of(run, ANY_TEXT) == ["asked\nsaid\na secret"]
    assert texts_of(run, "ground_truth") == [None]


def keys_of(run: Run) -> list[int]:
    rows = rows_of(run)
    sql = f"SELECT prompt_key FROM {rows.rows} ORDER BY step, position"
    return Selection(rows).table(sql)["prompt_key"].to_pylist()


def test_prompts_behind_one_long_system_prompt_are_told_apart(tmp_path: Path) -> None:
    system = "You are a helpful assistant. " * 100
    prompts = [system + problem for problem in ("1+1?", "2+2?", "3+3?", "1+1?")]
    write(tmp_path, *({"step": 1, "prompt": p, "response": "x"} for p in prompts))
    first, second, third, fourth = keys_of(opened(tmp_path))
    assert len({first, second, third}) == 3
    assert first == fourth


def test_prompts_that_are_ids_alone_are_told_apart_by_all_of_them(tmp_path: Path) -> None:
    ids = [[7] * 100 + [1] * 90, [8] * 100 + [1] * 90, [7] * 100 + [1] * 90]
    rows = ({"step": 1, "prompt_ids": own, "response_ids": [1, 2], "reward": 1} for own in ids)
    write(
        tmp_path,
        {"type": "header", "schema": 1, "rank": 0},
        *({"type": "sample"} | r for r in rows),
    )
    first, second, third = keys_of(opened(tmp_path))
    assert first == third != second


def test_texts_of_some_rollouts_come_in_the_order_asked(tmp_path: Path) -> None:
    write(tmp_path, *({"step": n // 2, "prompt": "p", "response": "é" * n} for n in range(6)))
    run = opened(tmp_path)
    steps, indices = [2, 0, 9, 1, 2], [1, 0, 0, 1, 0]
    found = texts_at(run, steps, indices, "response", longest=8)
    assert found == [None, "", None, "ééé", "éééé"]  # of 10 bytes; not there
    assert texts_at(run, [], [], "response", longest=8) == []
    assert texts_at(run, [0], [0], "ground_truth", longest=8) == [None]


@pytest.mark.parametrize("bytes_of_a_page", [0, 1 << 20])
def test_the_list_shows_last_words_whether_it_reads_the_log_or_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_of_a_page: int
) -> None:
    monkeypatch.setattr(_rollout_words, "_LARGEST_PAGE", bytes_of_a_page)
    monkeypatch.setattr(_rollout_words._state, "get", lambda name: "")
    prompt = f"[system]\n{'Be brief. ' * 50}\n\n[user]\nhow many?\n\n"
    write(tmp_path, {"step": 1, "prompt": prompt, "response": "<think>hm</think>seven"})
    run = opened(tmp_path)
    rows = _rollout_words.in_words(run, run.rollouts)
    assert rows[["prompt", "response"]].values.tolist() == [["how many?", "seven"]]


def test_ids_without_a_vocabulary_are_no_text(tmp_path: Path) -> None:
    rows = [
        {
            "type": "sample",
            "step": 1,
            "prompt_ids": [1, 2],
            "response_ids": list(range(1000, 2000)),
        },
        {"type": "sample", "step": 1, "prompt": "⟨a⟩ and ⟨1⟩", "response": "⟨5⟩ is a text"},
    ]
    write(tmp_path, {"type": "header", "schema": 1, "rank": 0}, *rows)
    run = opened(tmp_path)
    assert run.rollouts["response"].str.startswith("⟨").all()
    assert texts_of(run, "response") == [None, "⟨5⟩ is a text"]
    assert texts_of(run, "prompt") == [None, "⟨a⟩ and ⟨1⟩"]
    (found,) = watch(run, compiled("1999"))
    assert (found.rollouts, found.untold) == (1, 1)
