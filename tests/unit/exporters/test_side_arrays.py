"""Routed experts and other large arrays are beside the log, and each line says where its own are."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opened_logs import lines, opened

from exporters import RolloutExporter

EXPERTS = np.random.default_rng(0).integers(0, 128, (3, 5, 4, 2))  # [B, R, L, k]
IDS = np.arange(15).reshape(3, 5)
RECORD = (Path(__file__).parents[3] / "docs/record.md").read_text(encoding="utf-8")


def read(folder: Path, reference: Any) -> np.ndarray:
    """As docs/record.md says."""
    (recipe,) = re.findall(r"```python\n(.*?)```", RECORD, flags=re.DOTALL)
    names: dict[str, Any] = {"run": folder, "reference": reference}
    exec(recipe, names)
    return names["experts"]


def log(exporter: RolloutExporter) -> None:
    mask = np.ones_like(IDS)
    mask[1, 3:] = 0
    exporter.log(1, response_ids=IDS, response_mask=mask, routed_experts=EXPERTS, rewards=[0, 1, 2])


def log_packed(exporter: RolloutExporter) -> None:
    kept = np.r_[0:8, 10:15]
    exporter.log_packed(
        1,
        input_ids=IDS.reshape(-1)[kept],
        seq_lens=[5, 3, 5],
        prompt_lens=[0, 0, 0],
        loss_mask=np.ones(13),
        routed_experts=EXPERTS.reshape(15, 4, 2)[kept],
        positions={"routed_experts": "token"},
    )


def log_ragged(exporter: RolloutExporter) -> None:
    lengths = [5, 3, 5]
    exporter.log_ragged(
        1,
        token_ids=[row[:n] for row, n in zip(IDS, lengths, strict=True)],
        response_lengths=lengths,
        routed_experts=[row[:n] for row, n in zip(EXPERTS, lengths, strict=True)],
    )


@pytest.mark.parametrize("call", [log, log_packed, log_ragged])
def test_each_line_says_where_the_experts_of_its_tokens_are(tmp_path, call):
    with RolloutExporter(tmp_path, strict=True) as exporter:
        call(exporter)
    samples = lines(exporter, "sample")
    for sample, experts, length in zip(samples, EXPERTS, (5, 3, 5), strict=True):
        reference = sample["routed_experts"]
        assert (reference["dtype"], reference["shape"]) == ("uint8", [length, 4, 2])
        np.testing.assert_array_equal(read(tmp_path, reference), experts[:length])
    assert [rollout["routed_experts"]["offset"] for rollout in opened(tmp_path)] == [
        sample["routed_experts"]["offset"] for sample in samples
    ], "and the board shows it"


@given(
    shapes=st.lists(
        st.tuples(*[st.integers(0, 3)] * 2, st.sampled_from(["f4", "i8", "?", "u2"])), min_size=1
    ),
    limit=st.sampled_from([1 << 16, 1 << 30]),
)
def test_arrays_of_any_shape_and_kind_are_read_as_they_were(tmp_path_factory, shapes, limit):
    folder, rng = tmp_path_factory.mktemp("run"), np.random.default_rng(len(shapes))
    arrays = [(rng.random((1, 2, *size)) * 300 - 50).astype(kind) for *size, kind in shapes]
    with RolloutExporter(folder, mode="sync", rotate_bytes=limit) as exporter:
        for array in arrays:
            exporter.log(1, response_ids=[[1, 2]], odd=np.repeat(array, 9, axis=0)[:1])
    for sample, array in zip(lines(exporter, "sample"), arrays, strict=True):
        np.testing.assert_array_equal(read(folder, sample["odd"]), array[0])


def test_full_files_are_followed_by_others(tmp_path):
    with RolloutExporter(tmp_path, rotate_bytes=1 << 16) as exporter:
        for step in range(4):
            big = np.full((1, 5, 100, 100), step, np.uint8)
            exporter.log(step, response_ids=IDS[:1], routed_experts=big)
    references = [sample["routed_experts"] for sample in lines(exporter, "sample")]
    assert len({reference["file"] for reference in references}) == 4
    assert [int(read(tmp_path, reference).max()) for reference in references] == [0, 1, 2, 3]


def test_where_the_disk_takes_no_array_the_rollout_is_written_without_it(tmp_path, monkeypatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("exporters.writing.side_arrays.Parts", full)
    with RolloutExporter(tmp_path) as exporter:
        log(exporter)
    assert exporter.counts["refused:routed_experts"] == exporter.counts["records"] == 3


def test_the_files_of_rlloggingboard_have_no_place_for_them(tmp_path):
    with RolloutExporter(tmp_path, dialect="rllb") as exporter:
        log(exporter)
    assert exporter.counts["refused:routed_experts"] == exporter.counts["records"] == 3
    assert not list(tmp_path.glob("*.npy"))
