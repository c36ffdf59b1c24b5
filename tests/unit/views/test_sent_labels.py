"""Labels as a browser sends them: again and again until they are answered, and stored once."""

import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
import written_logs
from opened_logs import run_at

from board.index import label_files
from board.query.labels.matching import labels_at, with_labels
from board.views.rollouts import labels


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(st, "session_state", {})
    opened = run_at(written_logs.native_run(tmp_path / "native"))
    monkeypatch.setattr(labels, "_run_of", lambda _: with_labels(opened))
    return opened


def sent(number: int, value: str, **others: Any) -> dict[str, Any]:
    about = {"id": f"{number:016x}", "run": "native", "kind": "label", "author": "ann", "index": 1}
    return {**about, "step": 1, "value": value, **others}


def test_a_label_is_stored_once_however_often_it_is_sent_and_also_by_a_page_loaded_again(run):
    run_step = min(run.counts)
    entry = sent(1, "cheat", step=run_step)
    for _ in range(3):
        labels.receive([entry])
    st.session_state.clear()  # another session, which knows nothing of the one before
    labels.receive([entry])
    assert len(label_files.read_entries(run.info)[0]) == 1
    assert labels.answered() == {entry["id"]: ""}


def test_the_same_label_again_removes_it_in_the_order_in_which_they_were_pressed(run):
    step = min(run.counts)
    pressed = ["cheat", "cheat", "good", "cheat", "good", "good"]
    labels.receive([sent(place, value, step=step) for place, value in enumerate(pressed)])
    values = [entry.value for entry in label_files.read_entries(run.info)[0]]
    assert values == ["cheat", "", "good", "cheat", "good", ""]


def test_what_cannot_be_stored_is_answered_with_the_reason_and_the_others_are_stored(run):
    step = min(run.counts)
    bad = sent(1, "cheat", step=step, index=99_999)
    worse = sent(2, "cheat", step="3")
    labels.receive([bad, worse, sent(3, "good", step=step), {"id": "no id"}, None])
    answered = labels.answered()
    assert [bool(answered[one["id"]]) for one in (bad, worse)] == [True, True]
    assert answered[sent(3, "")["id"]] == ""
    assert labels_at(with_labels(run), step, 1).label_of("ann") == "good"
    labels.receive("anything")


@pytest.mark.parametrize("slow", range(2))
def test_labels_are_stored_in_their_order_though_the_run_before_is_still_at_one(
    run, monkeypatch, slow
):
    """Two runs of the script at once, the first of which takes long over a label."""
    step, first_is_at_it, write = min(run.counts), threading.Event(), labels._write

    def slowly(entry):
        if entry["index"] == slow:
            first_is_at_it.set()
            time.sleep(0.2)
        write(entry)

    monkeypatch.setattr(labels, "_write", slowly)
    entries = [sent(place, "good", step=step, index=place) for place in range(3)]
    first = threading.Thread(target=labels.receive, args=(entries[: slow + 1],))
    first.start()
    assert first_is_at_it.wait(60)
    labels.receive(entries)
    first.join()
    assert [entry.index for entry in label_files.read_entries(run.info)[0]] == [0, 1, 2]


def test_streamlit_sends_no_message_by_its_name_alone():
    """A busy browser may have forgotten it: the page would stop with a cache miss."""
    settings = Path(__file__).parents[3] / ".streamlit" / "config.toml"
    content = tomllib.loads(settings.read_text(encoding="utf-8"))
    assert content["global"]["minCachedMessageSize"] >= 2**32
