"""The index holds the whole texts of every rollout."""

import json
from pathlib import Path
from typing import Any

import pytest
from read_formats import ONE_OF_EACH, real_run, run_at

from board.analysis.step_records import StepRecords
from board.analysis.utterances import SPEAKERS, compiled, utterances
from board.analysis.words import spoken_texts, watch
from board.core.records import Record
from board.index.segments import ANY_TEXT
from board.index.whole_texts import whole_text
from board.query.open_run import Run
from board.query.rollouts import texts_at
from board.views.rollouts import rollout_list

NAMES = ("prompt", "response", "ref_response", "ground_truth")


def texts_of(run: Run, name: str) -> list[str | None]:
    """One text of all rollouts, in their order."""
    sql = f"SELECT {run.rows.whole_text(name)} AS text FROM {run.view} ORDER BY step, position"
    return run.table(sql)["text"].to_pylist()


def write(folder: Path, *lines: dict[str, Any], name: str = "log.jsonl") -> None:
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.fixture(scope="module", params=ONE_OF_EACH, ids=lambda info: info.name)
def logged(request: pytest.FixtureRequest) -> tuple[Run, dict[tuple[int, int], Record]]:
    """A run, and rollouts of up to 16 of its steps as the log has them, by step and index."""
    run = real_run(request.param)
    steps = sorted(run.counts)
    addresses = run.rollouts[run.rollouts["step"].isin(steps[:: max(len(steps) // 8, 1)])]
    keys = [*zip(addresses["step"].tolist(), addresses["index"].tolist(), strict=True)]
    return run, {keys[place]: record for place, record in StepRecords(run).of(addresses)}


def test_texts_of_the_index_are_those_of_the_log(logged):
    run, records = logged
    for name in NAMES:
        rows = run.rollouts[["step", "index"]].itertuples(index=False, name=None)
        result = dict(zip(rows, texts_of(run, name), strict=True))
        for key, record in records.items():
            text = record.texts.get(name)
            if text is None and name in NAMES[:2]:
                text = whole_text(record, run.vocabulary, name)
            if text is not None:  # else there may be a preview of ids
                assert result[key] == text


@pytest.mark.parametrize("by", SPEAKERS)
def test_who_said_what_is_the_same_by_the_index_and_by_the_log(logged, by):
    run, records = logged
    result: dict[tuple[int, int], list[str] | None] = {}
    for batch in spoken_texts(run, by, sorted({step for step, _ in records})):
        keys = zip(batch.rows["step"].tolist(), batch.rows["index"].tolist(), strict=True)
        result |= dict(zip(keys, batch.texts.to_pylist(), strict=True))
    message = {key: utterances(record, run.vocabulary, by) for key, record in records.items()}
    assert result == {k: None if v is None else [one.text for one in v] for k, v in message.items()}


def test_the_log_is_read_for_roles_only_where_tokens_say_them(tmp_path, monkeypatch):
    turns = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "an answer"}]
    common = {"step": 1, "messages": turns, "response": "an answer"}
    parts = [{"start": 0, "end": 1, "role": "tool"}, {"start": 1, "end": 2, "role": "assistant"}]
    marked = ["<|im_start|>", "tool\n", "out", "<|im_end|>"]
    write(
        tmp_path,
        common,
        common | {"response_tokens": ["an", " answer"]},
        common | {"response_tokens": ["a", "b"], "segments": parts},
        common | {"response_tokens": marked},
    )
    run = run_at(tmp_path)
    read: list[int] = []
    of = StepRecords.of

    def counted(self: StepRecords, rows: Any, *more: Any) -> Any:
        read.append(len(rows))
        return of(self, rows, *more)

    monkeypatch.setattr(StepRecords, "of", counted)
    (batch,) = spoken_texts(run, "tool", [1])
    order = batch.rows["index"].argsort().tolist()
    texts = batch.texts.to_pylist()
    assert [texts[place] for place in order] == [[], [], ["a"], ["".join(marked)]]
    assert read == [2]
    assert [batch.texts.to_pylist() for batch in spoken_texts(run, "prompt", [1])] == [
        [["ask"]] * 4
    ]
    assert read == [2]


@pytest.mark.parametrize("persist", [False, True])
def test_long_texts_are_whole_on_disk_and_in_memory(tmp_path, persist):
    long = "é" * 100_000
    write(tmp_path, *({"step": n, "prompt": "p", "response": long + str(n)} for n in range(5)))
    run = run_at(tmp_path, persist=persist)
    assert texts_of(run, "response") == [f"{long}{n}" for n in range(5)]
    assert run.rollouts["response"].str.len().tolist() == [240] * 5


def test_texts_survive_when_segments_are_put_together(tmp_path):
    for step in range(12):
        write(tmp_path, {"step": step, "prompt": "p" * 300, "response": f"{step} " * 200})
        run = run_at(tmp_path, persist=True)
    assert len(run.rows.manifest.segments) < 12
    assert texts_of(run, "response") == [f"{step} " * 200 for step in range(12)]


def test_any_text_holds_messages_that_are_neither_prompt_nor_response(tmp_path):
    messages = [{"role": "user", "content": "asked"}, {"role": "tool", "content": "a secret"}]
    write(tmp_path, {"step": 1, "prompt": "asked", "response": "said", "messages": messages})
    run = run_at(tmp_path)
    assert texts_of(run, ANY_TEXT) == ["asked\nsaid\na secret"]
    assert texts_of(run, "ground_truth") == [None]


def keys_of(run: Run) -> list[int]:
    sql = f"SELECT prompt_key FROM {run.view} ORDER BY step, position"
    return run.table(sql)["prompt_key"].to_pylist()


def test_prompts_that_are_ids_alone_are_told_apart_by_all_of_them(tmp_path):
    ids = [[7] * 100 + [1] * 90, [8] * 100 + [1] * 90, [7] * 100 + [1] * 90]
    rows = ({"step": 1, "prompt_ids": own, "response_ids": [1, 2], "reward": 1} for own in ids)
    write(
        tmp_path,
        {"type": "header", "schema": 1, "rank": 0},
        *({"type": "sample"} | r for r in rows),
    )
    first, second, third = keys_of(run_at(tmp_path))
    assert first == third != second


def test_texts_of_some_rollouts_come_in_the_order_asked(tmp_path):
    write(tmp_path, *({"step": n // 2, "prompt": "p", "response": "é" * n} for n in range(6)))
    run = run_at(tmp_path)
    steps, indices = [2, 0, 9, 1, 2], [1, 0, 0, 1, 0]
    result = texts_at(run, steps, indices, "response", longest=8)
    assert result == [None, "", None, "ééé", "éééé"]  # of 10 bytes; not there
    assert texts_at(run, [], [], "response", longest=8) == []
    assert texts_at(run, [0], [0], "ground_truth", longest=8) == [None]


@pytest.mark.parametrize("bytes_of_a_page", [0, 1 << 20])
def test_the_list_shows_last_words_whether_it_reads_the_log_or_the_index(
    tmp_path, monkeypatch, bytes_of_a_page
):
    monkeypatch.setattr(rollout_list, "_LARGEST_PAGE_BYTES", bytes_of_a_page)
    monkeypatch.setattr(rollout_list.state, "get", lambda name: "")
    prompt = f"[system]\n{'Be brief. ' * 50}\n\n[user]\nhow many?\n\n"
    write(tmp_path, {"step": 1, "prompt": prompt, "response": "<think>hm</think>seven"})
    run = run_at(tmp_path)
    rows = rollout_list.with_previews(run, run.rollouts)
    assert rows[["prompt", "response"]].values.tolist() == [["how many?", "seven"]]


def test_ids_without_a_vocabulary_are_no_text(tmp_path):
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
    run = run_at(tmp_path)
    assert run.rollouts["response"].str.startswith("⟨").all()
    assert texts_of(run, "response") == [None, "⟨5⟩ is a text"]
    assert texts_of(run, "prompt") == [None, "⟨a⟩ and ⟨1⟩"]
    (result,) = watch(run, compiled("1999"))
    assert (result.rollouts, result.not_recorded) == (1, 1)
