import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from read_formats import run_of

from board.analysis.rollout import open_rollout
from board.analysis.tokenizers import load_vocabulary, named_tokenizer
from board.errors import NotFoundError
from board.query.open_run import Run

pytest.importorskip("transformers")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A byte-level tokenizer of four pieces, in a folder as Transformers saves it."""
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    vocabulary = {"<unk>": 0, "Hi": 1, "Ġyou": 2, "Ċ": 3}
    document = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def ids_run(root: Path, **settings: object) -> Run:
    folder = root / "run"
    row = {
        "type": "sample",
        "step": 0,
        "response_ids": [1, 2, 3],
        "logprobs": [-1, -1, -1],
        "topk_ids": [[2, 1], [1, 2], [3, 1]],
        "topk_logprobs": [[-0.1, -2], [-1, -2], [-1, -2]],
    }
    folder.mkdir(parents=True)
    (folder / "run-20260101T000000Z.json").write_text(json.dumps(settings), encoding="utf-8")
    return run_of(root, [row])


def test_a_tokenizer_s_pieces_become_text(tokenizer):
    vocabulary = load_vocabulary(str(tokenizer))
    assert vocabulary.coding == "byte_level"
    assert vocabulary.texts(np.array([1.0, 2.0, 3.0])) == ["Hi", " you", "\n"]


def test_ids_without_a_vocabulary_are_decoded_by_the_tokenizer(tokenizer, tmp_path):
    run = ids_run(tmp_path / "logs")
    assert open_rollout(run, 0, 0).tokens == ("⟨1⟩", "⟨2⟩", "⟨3⟩")
    opened = open_rollout(run, 0, 0, load_vocabulary(str(tokenizer)))
    assert opened.tokens == ("Hi", " you", "\n")
    assert not opened.tokens_are_ids
    assert [opened.top_k.texts[i] for i in opened.top_k.places[0]] == [" you", "Hi"]


def test_a_folder_without_a_tokenizer_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(NotFoundError, match=r"tokenizer\.json, or a name that was downloaded"):
        load_vocabulary(str(tmp_path))


def test_a_name_that_is_not_on_this_machine_is_not_fetched(monkeypatch):
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(NotFoundError, match="local cache"):
        load_vocabulary("nobody/no-such-tokenizer")


def test_code_that_comes_with_a_tokenizer_is_never_run(tokenizer):
    (tokenizer / "evil.py").write_text("raise SystemExit('run')", encoding="utf-8")
    config = {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"}
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with contextlib.suppress(NotFoundError):
        load_vocabulary(str(tokenizer))
    assert not [name for name in sys.modules if name.endswith(".evil")]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"tokenizer": "org/name"}, "org/name"),
        ({"tokenizer": {"name_or_path": "/models/a", "vocab_size": 4}}, "/models/a"),
        ({"tokenizer": {"vocab_size": 4}, "config": {"model_name_or_path": "org/m"}}, "org/m"),
        ({"tokenizer": {"vocab_size": 4}}, None),
        ({"tokenizer": 4, "config": [1]}, None),
    ],
)
def test_the_run_s_settings_name_its_tokenizer(tmp_path, settings, name):
    assert named_tokenizer(ids_run(tmp_path, **settings)) == name
