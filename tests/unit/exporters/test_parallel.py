from collections import Counter
from itertools import product

import pytest

from exporters import DataShard, is_writer, shard_of_mesh, shard_of_ranks


class FakeMesh:
    """A rank's view of a `DeviceMesh`, without a process group."""

    def __init__(self, at: tuple[int, ...] | None, **sizes: int) -> None:
        self.mesh_dim_names = tuple(sizes) or None
        self._sizes, self._at = tuple(sizes.values()), at

    def get_coordinate(self) -> tuple[int, ...] | None:
        return self._at

    def size(self, mesh_dim: int | None = None) -> int:
        return self._sizes[mesh_dim]


def test_each_data_shard_of_a_mesh_has_exactly_one_writer():
    sizes = {"pp": 2, "dp_replicate": 2, "dp_shard": 3, "cp": 2, "tp": 2}
    places = product(*(range(size) for size in sizes.values()))
    shards = [shard_of_mesh(FakeMesh(at, **sizes)) for at in places]
    assert {shard.world_size for shard in shards} == {6}
    assert Counter(s.rank for s in shards if s.is_writer) == dict.fromkeys(range(6), 1)


def test_the_last_stage_of_a_pipeline_writes_because_it_has_the_logits():
    writers = [at for at in range(3) if is_writer(FakeMesh((at,), pp=3))]
    assert writers == [2]
    assert [is_writer(pipeline_rank=at, pipeline_size=3) for at in range(3)] == [False, False, True]


def test_a_rank_outside_of_the_mesh_writes_nothing():
    assert not shard_of_mesh(FakeMesh(None, dp=2)).is_writer


def test_a_dimension_of_an_unknown_name_is_asked_about_rather_than_guessed():
    mesh = FakeMesh((1, 0), dp=2, mine=2)
    with pytest.raises(ValueError, match="'mine'"):
        shard_of_mesh(mesh)
    assert shard_of_mesh(mesh, data=("dp",)) == DataShard(1, 2, is_writer=True)
    assert shard_of_mesh(mesh, data=("dp", "mine")) == DataShard(2, 4, is_writer=True)
    with pytest.raises(ValueError, match="'none'"):
        shard_of_mesh(mesh, data=("none",))


def test_a_mesh_without_names_is_an_error_that_says_what_to_use():
    with pytest.raises(ValueError, match="shard_of_ranks"):
        shard_of_mesh(FakeMesh((0,)))


def test_of_explicit_ranks_the_first_of_each_copy_writes():
    writing = shard_of_ranks(data_rank=1, data_size=2)
    assert writing == DataShard(1, 2, is_writer=True)
    for copy in ("tensor_rank", "context_rank", "expert_rank"):
        assert not shard_of_ranks(data_rank=1, data_size=2, **{copy: 1}).is_writer


@pytest.mark.parametrize("wrong", [{"data_rank": 2}, {"pipeline_rank": 1}])
def test_a_rank_beyond_its_size_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        shard_of_ranks(**({"data_rank": 0, "data_size": 2} | wrong))


def test_a_real_device_mesh_is_understood():
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("torch without distributed")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        assert shard_of_mesh(mesh) == DataShard(0, 1, is_writer=True)
    finally:
        torch.distributed.destroy_process_group()
