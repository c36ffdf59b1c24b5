"""The reader on the Rollout page: prompts by role, lengths, tokenizers, side by side."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from page_elements import assert_sound, texts
from written_logs import write_lines

from board.analysis.rollout import OpenRollout
from board.core.records import Record
from board.export.rollout_content import prompt_parts, segments_of

SYSTEM = "<|im_start|>system\nBe kind.<|im_end|>\n"
USER = "<|im_start|>user\nHi<|im_end|>\n"
CHAT = SYSTEM + USER
MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "yes"}]
IDS = {"type": "sample", "step": 0, "response_ids": [1, 2], "logprobs": [-1, -1]}


def test_longer_arrays_are_shown_whole_and_both_lengths_are_named(open_rows):
    row = {"step": 0, "response_tokens": ["a", " b"], "logprobs": [-1.0, -2.0]}
    message = texts(open_rows("rollout", row | {"values": [1.0, 2.0, 3.0, 4.0]})).replace("\\", "")
    assert "values has 4 entries for 2 tokens" in message
    assert "the last 2 values have no token" in message


def test_a_tokenizer_that_is_not_there_is_said_and_ids_are_shown(open_rows, tmp_path):
    message = texts(open_rows("rollout", IDS, tokenizer=str(tmp_path / "none"))).replace("\\", "")
    assert "No usable tokenizer" in message
    assert "Tokens are shown as ids" in message


def test_a_text_beside_ids_that_nothing_decodes_has_no_note_about_ids(open_rows):
    as_text = open_rows("rollout", IDS | {"messages": MESSAGES})
    assert "Tokens are shown as ids" not in texts(as_text)


@pytest.mark.parametrize(
    ("fields", "prompt_tokens", "expected"),
    [
        # By the markers of its chat template, in its text and among its tokens.
        ({"texts": {"prompt": CHAT}}, None, [("system", SYSTEM), ("user", USER)]),
        (
            {},
            ("<|im_start|>", "system", "\n", "Be kind.", "<|im_end|>", "\n"),
            [("system", SYSTEM)],
        ),
        # By the messages found in it; messages without a prompt; a text without roles; nothing.
        (
            {"texts": {"prompt": "Q: Hi\nA: "}, "messages": MESSAGES},
            None,
            [("user", "Q: Hi"), ("prompt", "\nA: ")],
        ),
        ({"messages": MESSAGES}, None, [("user", "Hi")]),
        ({"texts": {"prompt": "Add 1."}}, None, [("prompt", "Add 1.")]),
        ({}, None, []),
    ],
)
def test_a_prompt_is_shown_by_role(fields, prompt_tokens, expected):
    record = Record(step=0, **fields)
    opened = OpenRollout(0, 0, record, {}, ("yes",), prompt_tokens, {}, False, ())
    parts = [(part.role, part.text) for part in prompt_parts(opened)]
    assert parts == expected


def test_segments_cover_all_tokens_and_a_tool_s_error_is_said():
    messages = [{"role": "tool", "content": "no item", "is_error": True}]
    turns = [{"start": 0, "end": 2, "role": "tool"}, {"start": 2, "end": 3, "role": "assistant"}]
    record = Record(step=0, messages=messages, segments=turns)
    opened = OpenRollout(0, 0, record, {}, ("no", " item", "Sorry"), None, {}, False, ())
    segments = segments_of(opened, 4)
    assert [(s.start, s.end, s.role, s.error) for s in segments] == [
        (0, 2, "tool", "error"),
        (2, 3, "assistant", ""),
        (3, 4, "", ""),
    ]


class HubTokenizer:
    """Stands in for Transformers and the hub: a tokenizer that is not on this machine until asked for."""

    all_special_ids: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def from_pretrained(self, name: str, **how: Any) -> HubTokenizer:
        self.calls.append(how)
        if how["local_files_only"] and not self.downloads:
            raise OSError(f"{name} is not in the cache")
        return self

    @property
    def downloads(self) -> int:
        return sum(not how["local_files_only"] for how in self.calls)

    def __len__(self) -> int:
        return 3

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [f"\u0120piece{i}" for i in ids]


def test_a_tokenizer_is_downloaded_by_the_button_alone_and_without_its_code(
    open_app, tmp_path, monkeypatch
):
    hub = HubTokenizer()
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=hub))
    (tmp_path / "run").mkdir()
    settings = tmp_path / "run" / "run-20260101T000000Z.json"
    settings.write_text('{"tokenizer": "stub/tokenizer"}', encoding="utf-8")
    write_lines(tmp_path / "run" / "20260101T000000Z-rank00000-00000000.jsonl", [IDS])
    app = open_app(tmp_path, "rollout")
    app.run()
    assert "Tokens are shown as ids" in texts(app)
    assert hub.downloads == 0
    next(button for button in app.button if button.label.startswith("Download")).click().run()
    assert_sound(app)
    assert "Tokens are shown as ids" not in texts(app)
    app.run()
    assert hub.downloads == 1
    assert not any(how["trust_remote_code"] for how in hub.calls)
    assert "Tokens are shown as ids" not in texts(app)
