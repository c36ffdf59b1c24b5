import json
from pathlib import Path

import numpy as np
import pytest
from read_formats import run_at, run_of
from written_logs import native_run, rllb_run, texts_only_run, write_lines

from board.analysis.mismatch import mismatch_by_step
from board.analysis.rollout import open_rollout
from board.analysis.step_tokens import COLUMNS, ReadTokens, read_step
from board.core.tokens.pieces import KINDS
from board.errors import NotFoundError
from board.query.open_run import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return run_at(native_run(tmp_path / "run"))


def test_tokens_are_those_of_the_rollouts_opened_one_by_one(run):
    tokens = read_step(run, 20)
    assert tokens.indices.tolist() == [*range(8)]
    for place, index in enumerate(tokens.indices.tolist()):
        start, end = tokens.starts[place], tokens.starts[place + 1]
        alone = open_rollout(run, 20, index)
        assert tuple(tokens.piece(t) for t in range(start, end)) == alone.tokens
        for name in ("k3", "mismatch_kl", "entropy", "importance_ratio"):
            assert np.array_equal(tokens.metric(name)[start:end], alone.metrics[name])
    assert tokens.in_loss.tolist() == [True] * 6 + [False] * 2 + tokens.in_loss.tolist()[8:]


def test_progress_tells_how_many_rollouts_are_read_and_can_stop_the_reading(run):
    seen: list[tuple[int, int]] = []
    read_step(run, 20, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(set(seen))
    assert seen[-1] == (8, 8)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_step(run, 20, progress=stop)


def test_rows_of_a_step_have_each_column_once_whether_all_were_read_before_or_not(run):
    before = run.frame(COLUMNS, (20, 20))
    assert len(run.rollouts) > len(before)
    assert sorted(run.frame(COLUMNS, (20, 20))) == sorted({*before})


def test_a_step_that_is_not_there_is_named(run):
    with pytest.raises(NotFoundError, match="step 21"):
        read_step(run, 21)


def test_pieces_are_read_where_there_are_no_ids(tmp_path):
    tokens = read_step(run_at(rllb_run(tmp_path / "run")), 1)
    assert [tokens.piece(t) for t in range(3)] == ["It", " is", " 4"]


def test_words_stand_for_tokens_where_a_log_has_texts_only(tmp_path):
    run = run_at(texts_only_run(tmp_path / "run"))
    tokens = read_step(run, 1, ReadTokens(texts=True))
    assert [tokens.piece(t) for t in range(tokens.count)] == ["answer ", "1"]
    assert read_step(run, 1).count == 0


def line(**keys: object) -> dict[str, object]:
    base = {"step": 1, "prompt": "p", "response": "abc", "response_ids": [0, 1, 2]}
    return {**base, "logprobs": [-1.0, -2.0, -3.0], **keys}


def test_an_array_of_another_length_is_left_out_and_named(tmp_path):
    rows = [line(ref_logprobs=[-1.0]), line(ref_logprobs=[-1.0, -2.0, -3.0])]
    tokens = read_step(run_of(tmp_path, rows), 1)
    assert dict(tokens.faults) == {"ref_logprobs": [0]}
    assert np.isnan(tokens.arrays["ref_logprobs"][:3]).all()


def test_characters_that_are_no_text_are_counted_in_texts_and_in_decoded_ids(tmp_path):
    rows = [line(response="ab\ufffd\ufffd\ufffd cd"), line(response="fine"), line()]
    del rows[2]["response"]
    rows[2]["response_ids"] = [1, 1, 1, 1, 0]
    rows[2]["logprobs"] = [-1.0] * 5
    folder = write_lines(tmp_path / "run" / "a.jsonl", rows).parent
    (folder / "vocab.json").write_text(json.dumps({"pieces": ["a", "æ"], "coding": "byte_level"}))
    tokens = read_step(run_at(folder), 1, ReadTokens(texts=True))
    assert tokens.numbers["broken"].tolist() == [3 / 8, 0.0, 4 / 5]
    assert KINDS[tokens.token_kinds[-2]] == "part of a character"


def test_roles_come_from_recorded_segments(tmp_path):
    segments = [
        {"start": 0, "end": 1, "role": "assistant"},
        {"start": 1, "end": 3, "role": "tool", "name": "python"},
    ]
    tokens = read_step(run_of(tmp_path, [line(segments=segments), line()]), 1)
    assert [*tokens.roles] == ["assistant", "tool python"]
    assert tokens.role_codes.tolist() == [0, 1, 1, -1, -1, -1]
    assert tokens.turns.tolist() == [0, 1, 1, 0, 0, 0]


def test_the_mismatch_of_a_step_is_that_of_its_tokens(run):
    first = next(mismatch_by_step(run, run.counts))
    tokens = read_step(run, first.step)
    d = tokens.arrays["logprobs"] - tokens.arrays["sampling_logprobs"]
    assert first.parts.total.d_mean == pytest.approx(d[tokens.in_loss].mean())
    assert (first.read, first.total) == (8, 8)
    assert {counts.rule for counts in first.rules} == {"ratio_clip", "dppo", "icepop", "tis"}
