"""The reader on the Rollout page: prompts by role, lengths, tokenizers, side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from shown import OpenApp, assert_sound, texts
from streamlit.testing.v1 import AppTest
from written_logs import write_lines

from board.analysis.rollout import OpenRollout
from board.core.records import Record
from board.views.rollouts import token_content

CHAT = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"


def open_rows(open_app: OpenApp, root: Path, *rows: dict[str, Any], **query: str) -> AppTest:
    write_lines(root / "run" / "a.jsonl", rows)
    app = open_app(root, "rollout", **query)
    assert_sound(app)
    return app


def row(**more: Any) -> dict[str, Any]:
    return {"step": 0, "response_tokens": ["a", " b"], "logprobs": [-1.0, -2.0], **more}


def test_longer_arrays_are_shown_whole_and_both_lengths_are_named(
    open_app: OpenApp, tmp_path: Path
) -> None:
    app = open_rows(open_app, tmp_path, row(values=[1.0, 2.0, 3.0, 4.0]))
    said = texts(app).replace("\\", "")
    assert "values has 4 entries for 2 tokens" in said
    assert "the last 2 stand below as values without a token" in said


def test_a_response_of_no_tokens_is_no_missing_response(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_rows(open_app, tmp_path, {"step": 0, "response": "", "response_tokens": []})
    assert "No tokens are recorded" not in texts(app)


def test_a_tokenizer_that_is_not_there_is_said_and_ids_are_shown(
    open_app: OpenApp, tmp_path: Path
) -> None:
    rows = {"type": "sample", "step": 0, "response_ids": [1, 2], "logprobs": [-1, -1]}
    app = open_rows(open_app, tmp_path, rows, tokenizer=str(tmp_path / "none"))
    said = texts(app).replace("\\", "")
    assert "No usable tokenizer" in said
    assert "Tokens are shown as ids" in said


def parts(**fields: Any) -> list[tuple[str, str]]:
    prompt_tokens = fields.pop("prompt_tokens", None)
    tokens = fields.pop("tokens", ("yes",))
    record = Record(step=0, **fields)
    opened = OpenRollout(0, 0, record, {}, tokens, prompt_tokens, {}, False, ())
    return [(part.role, part.text) for part in token_content.prompt_parts(opened)]


def test_a_prompt_is_shown_by_role_from_the_markers_of_its_chat_template() -> None:
    expected = [
        ("system", "<|im_start|>system\nBe kind.<|im_end|>\n"),
        ("user", "<|im_start|>user\nHi<|im_end|>\n"),
    ]
    assert parts(texts={"prompt": CHAT}) == expected
    pieces = ("<|im_start|>", "system", "\n", "Be kind.", "<|im_end|>", "\n")
    assert parts(prompt_tokens=pieces) == expected[:1]


def test_a_tool_segment_whose_result_is_an_error_says_so() -> None:
    messages = [{"role": "tool", "content": "no item", "is_error": True}]
    turns = [{"start": 0, "end": 2, "role": "tool"}, {"start": 2, "end": 3, "role": "assistant"}]
    record = Record(step=0, messages=messages, segments=turns)
    opened = OpenRollout(0, 0, record, {}, ("no", " item", "Sorry"), None, {}, False, ())
    assert [one.error for one in token_content.segments_of(opened)] == ["error", ""]


def test_a_prompt_is_shown_by_role_from_the_messages_found_in_it() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "yes"}]
    found = parts(texts={"prompt": "Q: Hi\nA: "}, messages=messages)
    assert found == [("user", "Q: Hi"), ("prompt", "\nA: ")]


def test_messages_before_the_response_stand_in_for_a_prompt_that_is_not_recorded() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "yes"}]
    assert parts(messages=messages) == [("user", "Hi")]


def test_a_prompt_without_roles_is_one_part() -> None:
    assert parts(texts={"prompt": "Add 1 and 2."}) == [("prompt", "Add 1 and 2.")]
    assert parts() == []


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
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = HubTokenizer()
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=hub))
    rows = {"type": "sample", "step": 0, "response_ids": [1, 2], "logprobs": [-1, -1]}
    (tmp_path / "run").mkdir()
    settings = tmp_path / "run" / "run-20260101T000000Z.json"
    settings.write_text('{"tokenizer": "stub/tokenizer"}', encoding="utf-8")
    write_lines(tmp_path / "run" / "20260101T000000Z-rank00000-00000000.jsonl", [rows])
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
