"""Conversations hold what the log holds, in the form that TRL and `datasets` take, for every format."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trl.data_utils
from datasets import DatasetDict, load_dataset
from read_formats import DATA, ONE_OF_EACH, opened, real_run, sample_run
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from trl.data_utils import apply_chat_template, extract_prompt, is_conversational

from board.core.records import Record
from board.datasets.contents import NOTHING
from board.datasets.conversations import conversation, tool_schemas
from board.datasets.export import Request, write_dataset
from board.datasets.shapes import Conversations, Row
from board.errors import ChoiceError, RecordError
from board.index.discovery.discovered_runs import RunInfo
from board.query.open_run import Run

RUNS = [info for info in ONE_OF_EACH if info.path.is_relative_to(DATA)]
MARKERS = re.compile(r"<[^<>\s]{1,40}>|\[/?INST\]|\b(system|user|assistant|tool)\b|\s")
WITHOUT_CONVERSATIONS = {
    *("evalplus", "samples.jsonl_results.jsonl"),  # no prompts
    *("miles_tokens", "open_instruct", "prime_rl_tokens", "slime_train"),  # token ids alone
    "tau2",  # speech
}
TEMPLATES = Path(trl.data_utils.__file__).parent / "chat_templates"


def name_of(info: RunInfo) -> str:
    return f"{info.path.relative_to(DATA)} {info.source}"


def tokenizer(template: str) -> PreTrainedTokenizerFast:
    """One without a word, for its template."""
    words = Tokenizer(models.WordLevel({"?": 0}, "?"))
    own = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="?", eos_token="?")
    own.chat_template = (TEMPLATES / f"{template}.jinja").read_text("utf-8")
    return own


def rows_of(run: Run) -> tuple[list[Row], Conversations]:
    shape = Conversations(run)
    return [row for batch in shape.batches() for rows in batch for row in rows], shape


def texts_in(value: Any) -> Iterator[str]:
    """The texts of what somebody said, JSON in them parsed, without keys that only describe it."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        yield from texts_in(parsed) if isinstance(parsed, dict) else [value]
    elif isinstance(value, list):
        for one in value:
            yield from texts_in(one)
    elif isinstance(value, Mapping):
        for key in sorted(value):
            if key not in ("type", "id", "index", "annotations", "logprobs", "cache_prompt"):
                yield from texts_in(value[key])
    elif value is not None:
        yield json.dumps(value)


def said(message: Mapping[str, Any]) -> str:
    """All that a message says: reasoning, words, then calls, JSON without its layout."""
    keys = ("reasoning_content", "content", "tool_calls")
    return "".join(text for key in keys for text in texts_in(message.get(key)))


def assert_only_markers_are_lost(text: str, contents: Sequence[str]) -> None:
    """The contents stand in the text one after the other, with markers of a chat template around them."""
    around, end = "", 0
    for content in contents:
        start = text.index(content, end)
        around, end = f"{around} {text[end:start]}", start + len(content)
    assert not MARKERS.sub("", f"{around} {text[end:]}"), (text, contents)


@pytest.mark.parametrize("info", RUNS, ids=name_of)
def test_every_rollout_is_a_conversation_of_its_own_words_or_left_out(info):
    rows, shape = rows_of(real_run(info))
    rollouts = {(one.step, one.index): one.record for one in opened(real_run(info))}
    assert len(rows) + shape.left_out.total() == shape.total == len(rollouts)
    for row in rows:
        messages = row.values["messages"]
        record = rollouts[row.values["step"], row.values["index"]]
        if any(message.get("role") == "assistant" for message in record.messages):
            roles = [message.get("role") for message in record.messages]
            last = len(roles) - roles[::-1].index("assistant")
            assert [*map(said, messages)] == [*map(said, record.messages[:last])]
        else:
            given = record.messages or record.given or ()
            assert [*map(said, given)] == [*map(said, messages[: len(given)])]
            prompt = "" if given else record.texts["prompt"]
            written = [m["content"] for m in messages[len(given) :]]
            assert_only_markers_are_lost(prompt + record.texts["response"], written)
        assert {m["role"] for m in messages} <= {"system", "developer", "user", "assistant", "tool"}
        assert messages[0]["role"] != "assistant" in [m["role"] for m in messages]


@pytest.mark.parametrize("info", RUNS, ids=name_of)
def test_what_is_left_out_has_no_response_no_prompt_or_no_text(info):
    run = real_run(info)
    rows, _ = rows_of(run)
    written = {(row.values["step"], row.values["index"]) for row in rows}
    for one in opened(run):
        texts, messages = one.record.texts, one.record.messages
        has_image = any(word in str(messages) for word in ("input_image", "'image'"))
        if texts.get("prompt") and (texts.get("response") or "").strip() and not has_image:
            assert (one.step, one.index) in written


def loaded(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> DatasetDict:
    """The data sets of all formats, each a split, as `datasets` reads them from disk."""
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    files: dict[str, str] = {}
    for place, info in enumerate(RUNS):
        target = tmp_path / f"{place}.parquet"
        with suppress(ChoiceError):  # nothing of it is a conversation, or a pair
            everything = Request(kind, target, leave_out=[NOTHING])
            write_dataset(real_run(info), everything, lambda done, total: None)
            files[f"run_{place}"] = str(target)
    return load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))


def test_trl_takes_the_conversations_of_every_format_from_disk(tmp_path, monkeypatch):
    data = loaded(tmp_path, "sft", monkeypatch)
    none = {info.source for n, info in enumerate(RUNS) if f"run_{n}" not in data}
    assert none == WITHOUT_CONVERSATIONS
    qwen = tokenizer("qwen3")
    for name, split in data.items():
        expected = [
            row.values for row in rows_of(real_run(RUNS[int(name.removeprefix("run_"))]))[0]
        ]
        assert split.to_list() == expected
        for row in split:
            assert is_conversational({"messages": row["messages"]})
            text = apply_chat_template({"messages": row["messages"]}, qwen, tools=row["tools"])[
                "text"
            ]
            last = [m for m in row["messages"] if m["role"] == "assistant"][-1]
            assert last["content"].strip().rpartition("</think>")[2].lstrip("\n") in text


def test_trl_takes_the_pairs_of_every_format_from_disk(tmp_path, monkeypatch):
    data = loaded(tmp_path, "dpo", monkeypatch)
    assert len(data) >= 12
    qwen = tokenizer("qwen3")
    for split in data.values():
        for row in split:
            both = {side: row["prompt"] + row[side] for side in ("chosen", "rejected")}
            extracted = extract_prompt(both)
            assert extracted["prompt"][: len(row["prompt"])] == row["prompt"]
            assert row["score_chosen"] > row["score_rejected"]
            example = {side: row[side] for side in ("prompt", "chosen", "rejected")}
            written = apply_chat_template(example, qwen, tools=row["tools"])
            assert written["chosen"] != written["rejected"]


@pytest.mark.parametrize("template", ["qwen2_5", "llama3_1", "gptoss", "glm4moe", "gemma4"])
def test_tool_calls_go_through_the_templates_of_other_models(template):
    own = tokenizer(template)
    for row in rows_of(sample_run("grpo_calculator").where(steps=(1, 1)))[0]:
        messages = row.values["messages"]
        if max(len(m.get("tool_calls", ())) for m in messages) == 1:  # more are too many for Llama
            text = apply_chat_template({"messages": messages}, own)["text"]
            assert "calculate" in text
            assert messages[-1]["content"] in text


CHATML = "<|im_start|>system\nBe terse.<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n"


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("prompt", "response", "expected"),
    [
        (" 2+2?\n", " 4\n", [message("user", " 2+2?\n"), message("assistant", " 4\n")]),
        ("2+2?", "4<|im_end|>\n", [message("user", "2+2?"), message("assistant", "4")]),
        (
            f"{CHATML}<|im_start|>assistant\n<think>\n",
            "easy</think>4<|im_end|>",
            [
                message("system", "Be terse."),
                message("user", "2+2?"),
                message("assistant", "<think>\neasy</think>4"),
            ],
        ),
        (
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
            "Hello<|eot_id|>",
            [message("user", "Hi"), message("assistant", "Hello")],
        ),
        (
            f"{CHATML}<|im_start|>assistant\n",
            "A<|im_end|>\n<|im_start|>user\n<tool_response>1</tool_response><|im_end|>\n"
            "<|im_start|>assistant\nB<|im_end|>",
            [
                message("system", "Be terse."),
                message("user", "2+2?"),
                message("assistant", "A"),
                message(
                    "user", "<tool_response>1</tool_response><|im_end|>\n".partition("<|im")[0]
                ),
                message("assistant", "B"),
            ],
        ),
        ("Q", "A\n\n[note]\nB", [message("user", "Q"), message("assistant", "A\n\n[note]\nB")]),
    ],
    ids=["as they are", "an end mark", "a prefix", "a first token", "turns within", "headings"],
)
def test_texts_become_the_turns_of_their_template(prompt, response, expected):
    assert conversation(None, prompt, response).messages == expected


@pytest.mark.parametrize(
    ("messages", "prompt", "response", "reason"),
    [
        ([], "Q", None, "no text of the response is recorded"),
        ([], "Q", " \n", "the response is empty"),
        ([], None, "A", "no prompt is recorded"),
        ([message("user", "Q"), message("assistant", "")], "Q", "", "the response is empty"),
        ([message("assistant", "A")], None, "A", "no prompt is recorded"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            "[image]",
            "A",
            "a message holds something that is no text, such as an image",
        ),
    ],
)
def test_what_is_no_conversation_says_why(messages, prompt, response, reason):
    with pytest.raises(RecordError) as raised:
        conversation(Record(1, messages=messages), prompt, response)
    assert raised.value.reason == reason


def test_calls_have_objects_as_arguments_and_results_the_names_of_their_calls():
    calls = [
        json.dumps({"id": "a", "name": "f", "arguments": '{"x": 1}'}),
        {"id": "b", "function": {"name": "g", "arguments": "not JSON"}},
    ]
    given = {"role": "user", "content": [{"type": "text", "text": "go"}], "seconds": 2}
    turn = {"role": "assistant", "content": None, "thinking": "hm", "tool_calls": calls}
    result = {"role": "function", "content": "1", "tool_call_id": "a", "is_error": False}
    end = message("assistant", "2")
    messages = [given, turn, result, {"role": "environment", "content": "next"}, end]
    assert conversation(Record(1, messages=messages), "", "").messages == [
        message("user", "go"),
        {
            **message("assistant", ""),
            "reasoning_content": "hm",
            "tool_calls": [
                {"type": "function", "id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                {"type": "function", "id": "b", "function": {"name": "g", "arguments": "not JSON"}},
            ],
        },
        {**message("tool", "1"), "name": "f", "tool_call_id": "a"},
        message("user", "next"),
        end,
    ]


def test_tools_are_schemas_however_they_are_written():
    function = {"name": "f", "parameters": {"type": "object"}}
    expected = [{"type": "function", "function": function}]
    for tools in (expected, [function], [{"type": "function", **function}], [json.dumps(function)]):
        assert tool_schemas(tools) == tool_schemas(json.dumps(tools)) == expected
    assert tool_schemas(None) is tool_schemas([]) is tool_schemas("search") is None
