from __future__ import annotations

import inspect

from exporters import NullExporter, RolloutExporter

CALLS = ("log", "log_packed", "log_ragged", "end_step", "flush", "close", "wants")


def test_the_null_exporter_has_every_public_name_of_the_real_one(tmp_path):
    with RolloutExporter(tmp_path) as real:
        names = {name for name in dir(real) if not name.startswith("_")} - {"disable_in_child"}
    assert names <= {name for name in dir(NullExporter()) if not name.startswith("_")}


def test_the_null_exporter_takes_every_argument_of_the_real_one():
    for name in CALLS:
        real = inspect.signature(getattr(RolloutExporter, name)).parameters
        null = inspect.signature(getattr(NullExporter, name)).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in null.values())
        positional = [n for n, p in real.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert list(null)[: len(positional)] == positional, name
        assert takes_all or set(real) <= set(null), name


def test_the_null_exporter_does_nothing():
    with NullExporter() as exporter:
        exporter.log(1, prompt_ids=None, response_ids=None)
        exporter.log_packed(1, input_ids=None, seq_lens=None, loss_mask=None)
        exporter.log_ragged(1, token_ids=None)
        exporter.end_step(1, loss=0.5)
        assert exporter.flush()
        assert not exporter.wants(1)
    assert exporter.counts == {"records": 0, "lost": 0}
    assert exporter.path is None
