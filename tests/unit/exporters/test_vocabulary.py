import json
from typing import Any

import pytest

from exporters import RolloutExporter
from exporters.launch.vocabulary import BYTE_LEVEL, METASPACE, TEXT, detect_coding

tokenizers = pytest.importorskip("tokenizers")


class SmallTokenizer:
    """What `describe_vocabulary` needs of a tokenizer, and no more."""

    all_special_ids = (0,)
    pieces = ("<pad>", "\u0120hello", None)

    def __len__(self) -> int:
        return len(self.pieces)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str | None]:
        return [self.pieces[i] for i in ids]


class FastTokenizer(SmallTokenizer):
    def __init__(self, decoder: Any) -> None:
        self.backend_tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        if decoder is not None:
            self.backend_tokenizer.decoder = decoder


def test_vocabulary_is_written_once_with_raw_pieces(tmp_path):
    for _ in range(2):
        RolloutExporter(tmp_path, tokenizer=SmallTokenizer()).close()
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    assert vocabulary == {
        "schema": 1,
        "coding": BYTE_LEVEL,
        "pieces": ["<pad>", "\u0120hello", None],
        "special_ids": [0],
    }
    assert sorted(p.name for p in tmp_path.glob(".*")) == []


def test_coding_is_read_from_the_decoder_of_a_fast_tokenizer():
    decoders = tokenizers.decoders
    llama = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    cases = [
        (decoders.ByteLevel(), BYTE_LEVEL),
        (decoders.Metaspace(), METASPACE),
        (llama, METASPACE),
        (decoders.WordPiece(), TEXT),
        (None, TEXT),
    ]
    assert [detect_coding(FastTokenizer(d), ["a"]) for d, _ in cases] == [c for _, c in cases]


def test_coding_is_read_from_the_pieces_where_there_is_no_decoder():
    result = [detect_coding(SmallTokenizer(), p) for p in (["\u2581a"], ["\u0120a"], ["a", None])]
    assert result == [METASPACE, BYTE_LEVEL, TEXT]
