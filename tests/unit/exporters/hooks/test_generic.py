from pathlib import Path
from typing import Any

import pytest
from opened_logs import assert_rollouts, opened

torch = pytest.importorskip("torch")

from exporters.hooks.generic import log_generated, up_to_end, without_end  # noqa: E402
from exporters.writer import RolloutExporter  # noqa: E402

EOS, PAD, V = 1, 0, 11
# Prompts of 2 and 3 tokens, left padded; responses of 3 (ended), 4 (cut off); then padding.
SEQUENCES = torch.tensor([[PAD, 5, 6, 7, 8, EOS, PAD], [4, 5, 6, 9, 9, 2, 3]])
PROMPT_MASK = torch.tensor([[0, 1, 1], [1, 1, 1]])


def exporter(folder: Path, **settings: Any) -> RolloutExporter:
    return RolloutExporter(folder, rank=0, world_size=1, strict=True, **settings)


def test_what_generate_returned_is_cut_at_its_padding_and_its_end(tmp_path):
    values = torch.arange(8.0).reshape(2, 4)
    with exporter(tmp_path) as to:
        log_generated(
            to, 3, SEQUENCES, 3, eos_ids={EOS}, attention_mask=PROMPT_MASK,
            rewards=torch.tensor([1.0, -1.0]), meta={"group_id": ["g", "g"]}, values=values,
        )  # fmt: skip
        to.end_step(3, loss=0.5)
    both = {"step": 3, "group_id": "g"}
    ended = {"prompt_ids": [5, 6], "response_ids": [7, 8, EOS], "values": [0, 1, 2]}
    cut = {"prompt_ids": [4, 5, 6], "response_ids": [9, 9, 2, 3], "values": [4, 5, 6, 7]}
    ended |= {"is_truncated": 0, "reward": 1}
    cut |= {"is_truncated": 1, "reward": -1}
    assert_rollouts(tmp_path, both | ended, both | cut)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logits_give_the_logprob_and_entropy_of_the_token_after(tmp_path, temperature):
    logits = torch.randn(2, 7, V, generator=torch.Generator().manual_seed(0))
    with exporter(tmp_path) as to:
        log_generated(to, 1, SEQUENCES, 3, eos_ids={EOS}, logits=logits, temperature=temperature)
    distribution = (logits.double() / temperature).log_softmax(-1)
    for row, rollout in enumerate(opened(tmp_path)):
        for i, token in enumerate(rollout["response_ids"]):
            before = distribution[row, 3 + i - 1]
            assert rollout["logprobs"][i] == pytest.approx(float(before[token]), rel=1e-4)
            entropy = float(-(before.exp() * before).sum())
            assert rollout["entropy"][i] == pytest.approx(entropy, rel=1e-4)


def test_texts_are_decoded_without_padding(tmp_path):
    class Letters:
        def batch_decode(self, rows: list[list[int]], skip_special_tokens: bool) -> list[str]:
            return ["".join(chr(96 + i) for i in row if i > 1) for row in rows]

    with exporter(tmp_path) as to:
        log_generated(
            to, 1, SEQUENCES, 3, eos_ids={EOS}, attention_mask=PROMPT_MASK, tokenizer=Letters()
        )
    texts = [{"prompt": "ef", "response": "gh"}, {"prompt": "def", "response": "iibc"}]
    assert_rollouts(tmp_path, *texts)


def test_a_step_that_is_not_wanted_is_not_prepared(tmp_path):
    with exporter(tmp_path, every_n_steps=2) as to:
        log_generated(to, 1, "no tensor", 3, eos_ids={EOS})  # not looked at
        assert to.counts["records"] == 0


def test_what_does_not_fit_is_counted_and_does_not_raise(tmp_path):
    with RolloutExporter(tmp_path, rank=0, world_size=1, strict=False) as to:
        log_generated(to, 1, SEQUENCES, 3, eos_ids={EOS}, logits=torch.zeros(2, 5, V))
        log_generated(to, 1, SEQUENCES, 3, eos_ids={EOS})
        to.flush()
        assert to.counts["errors:log_generated"] == 1
        assert to.counts["records"] == 2


def test_a_response_goes_up_to_and_with_its_first_end():
    responses = torch.tensor([[5, 1, 7, 1], [5, 2, 7, 7], [1, 1, 1, 1], [5, 6, 7, 8]])
    mask = up_to_end(responses, {1, 2})
    assert mask.sum(1).tolist() == [2, 2, 1, 4]
    assert without_end(responses, mask, {1, 2}).tolist() == [False, False, False, True]
