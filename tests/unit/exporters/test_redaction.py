"""What `redact` takes out is in no file of the run."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters import RolloutExporter

SECRET = "sk-12345"
PATTERN = r"sk-\d+"


class Letters:
    """A tokenizer of one character a token."""

    all_special_ids = ()

    def __len__(self) -> int:
        return 128

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(i) for i in ids]

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def written(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.rglob("*") if file.name != "vocab.json")


texts = st.sampled_from([SECRET, f"a {SECRET} b", "plain", ""])
values: Any = st.recursive(
    texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


@pytest.mark.parametrize(
    "redact", [[PATTERN], [re.compile(PATTERN)], lambda t: re.sub(PATTERN, "", t)]
)
def test_every_text_of_a_run_is_redacted_before_it_is_written(tmp_path, redact):
    run = {"config": {"key": SECRET}}
    with RolloutExporter(tmp_path, redact=redact, run=run, tokenizer=Letters()) as exporter:
        messages = [{"role": "tool", "content": [{"type": "text", "text": f"found {SECRET}"}]}]
        ids = [[ord(c) for c in "a " + SECRET], [ord(c) for c in "a harmless"]]
        meta = {"response": [f"it is {SECRET}", "harmless"], "messages": [messages] * 2}
        exporter.log(1, response_ids=ids, meta=meta, logprobs=[[-0.5] * 10] * 2)
        exporter.end_step(1, note=SECRET, loss=0.5)
    assert SECRET not in written(tmp_path)
    assert exporter.counts["records"] == 2
    log = written(tmp_path)
    assert str(ids[0]).replace(" ", "") not in log, "ids are a text, too"
    assert str(ids[1]).replace(" ", "") in log
    assert '"loss":0.5' in log


@given(value=values)
def test_no_depth_of_a_value_hides_a_text(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("run")
    with RolloutExporter(folder, redact=[PATTERN], mode="sync") as exporter:
        exporter.log(1, response_ids=[[1]], meta={"mine": [value]})
    assert SECRET not in written(folder)
    assert exporter.counts["records"] == 1


def test_what_could_not_be_redacted_is_not_written_but_counted(tmp_path):
    def fails(text: str) -> str:
        raise RuntimeError("no")

    with RolloutExporter(tmp_path, redact=fails) as exporter:
        exporter.log(1, response_ids=[[1]], meta={"response": [SECRET]})
    assert SECRET not in written(tmp_path)
    assert exporter.counts["lost"] == 1


def test_without_a_tokenizer_nothing_is_known_of_ids_and_they_are_left_out(tmp_path):
    with RolloutExporter(tmp_path, redact=[PATTERN]) as exporter:
        exporter.log(1, response_ids=[[71, 72]], rewards=[1.0])
    assert "response_ids" not in written(tmp_path)
    assert exporter.counts["records"] == 1


@pytest.mark.parametrize("redact", ["text", ["("], 3])
def test_what_is_neither_a_function_nor_patterns_is_an_error(tmp_path, redact):
    with pytest.raises((TypeError, ValueError, re.error)):
        RolloutExporter(tmp_path, redact=redact)
