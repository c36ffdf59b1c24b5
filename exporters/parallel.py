"""Which ranks write: one of all those that hold the same rollouts.

Tensor-, context- and expert-parallel ranks hold copies (or slices) of the same rollouts; of them the
first writes. Of the stages of a pipeline only the last has logits, so it writes. Data-parallel ranks
hold rollouts of their own, and each writes its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

_DATA = ("dp", "dp_replicate", "dp_shard", "ddp", "fsdp", "hsdp", "data", "replicate", "shard")
_PIPELINE = ("pp", "pipe", "pipeline")
_COPIES = ("tp", "tensor", "model", "cp", "context", "sp", "ulysses", "ring", "ep", "expert", "etp")


class Mesh(Protocol):
    """What is needed of a `torch.distributed.DeviceMesh`."""

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The name of each dimension."""
        ...

    def get_coordinate(self) -> Sequence[int] | None:
        """The coordinate of this rank in each dimension; None outside of the mesh."""
        ...

    def size(self, mesh_dim: int | None = None) -> int:
        """How many ranks a dimension has."""
        ...


@dataclass(frozen=True, slots=True)
class DataShard:
    """A rank's share of the data, in the words of `RolloutExporter`.

    rank, world_size: which shard of how many. is_writer: whether this rank is the one that writes it.
    """

    rank: int
    world_size: int
    is_writer: bool


def shard_of_mesh(mesh: Mesh, *, data: Collection[str] = ()) -> DataShard:
    """The shard of this rank in a mesh whose dimensions are named.

        shard = shard_of_mesh(mesh)
        exporter = RolloutExporter(
            path, rank=shard.rank, world_size=shard.world_size, enabled=shard.is_writer, attempt=...
        )

    `data` names the dimensions along which ranks hold rollouts of their own, in place of the usual
    names (dp, dp_replicate, dp_shard, fsdp, ...). Raises ValueError where dimensions have no names or
    one that says nothing: a guess would write rollouts twice or not at all.
    """
    names = mesh.mesh_dim_names
    if not names:
        raise ValueError("mesh: its dimensions have no names; use shard_of_ranks")
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return DataShard(0, 1, is_writer=False)
    _check_names(names, data)
    rank, world_size, writes = 0, 1, True
    for dimension, (name, at) in enumerate(zip(names, coordinate, strict=True)):
        size = mesh.size(dimension)
        if name in (data or _DATA):
            rank, world_size = rank * size + at, world_size * size
        else:
            writes = writes and at == (size - 1 if name in _PIPELINE else 0)
    return DataShard(rank, world_size, writes)


def shard_of_ranks(
    *,
    data_rank: int,
    data_size: int,
    tensor_rank: int = 0,
    context_rank: int = 0,
    expert_rank: int = 0,
    pipeline_rank: int = 0,
    pipeline_size: int = 1,
) -> DataShard:
    """The shard of a rank whose place in each kind of parallelism is known by number.

    Raises ValueError for a rank that is not below its size.
    """
    for name, rank, size in (
        ("data_rank", data_rank, data_size),
        ("pipeline_rank", pipeline_rank, pipeline_size),
    ):
        if not 0 <= rank < size:
            raise ValueError(f"{name}: expected 0 to {size - 1}, found {rank}")
    is_first = tensor_rank == context_rank == expert_rank == 0
    return DataShard(data_rank, data_size, is_first and pipeline_rank == pipeline_size - 1)


def is_writer(
    mesh: Mesh | None = None,
    *,
    data: Collection[str] = (),
    tensor_rank: int = 0,
    context_rank: int = 0,
    expert_rank: int = 0,
    pipeline_rank: int = 0,
    pipeline_size: int = 1,
) -> bool:
    """Whether this rank writes its data shard: by a mesh as in `shard_of_mesh`, or by explicit ranks."""
    if mesh is not None:
        return shard_of_mesh(mesh, data=data).is_writer
    return shard_of_ranks(
        data_rank=0,
        data_size=1,
        tensor_rank=tensor_rank,
        context_rank=context_rank,
        expert_rank=expert_rank,
        pipeline_rank=pipeline_rank,
        pipeline_size=pipeline_size,
    ).is_writer


def _check_names(names: Sequence[str], data: Collection[str]) -> None:
    known = {*(data or _DATA), *_PIPELINE, *_COPIES}
    for name in names:
        if not data and name not in known:
            raise ValueError(
                f"mesh: the dimension {name!r} is not known; name those of the data, e.g. "
                f"data=('dp', {name!r}) or data=('dp',)"
            )
    for name in data:
        if name not in names:
            raise ValueError(f"data: {name!r} is not a dimension of the mesh; it has {list(names)}")
