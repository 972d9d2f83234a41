"""The data-parallel rank of a process of a job that is parallel in other ways too.

Processes that work on one batch together (tensor, pipeline and context parallel peers) read the same data: they have
one data-parallel rank. Only that rank is for a loader. Context-parallel peers each take a part of the sequences of one
batch, so that a rank that counts them too ("dp-cp") would give each of them other sequences.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from wdsctl.core.errors import UsageError

#: Megatron's order of dimensions, the fastest first: neighbours in the job are tensor-parallel peers.
ORDER = "tp-cp-ep-dp-pp"

_NAMES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
_DATA = ("dp_replicate", "dp_shard")


def data_parallel(rank: int, world_size: int, sizes: Mapping[str, int], order: str = ORDER) -> tuple[int, int]:
    """Rank and size of the data-parallel group of process `rank` of `world_size`.

    `sizes`: of tp, pp, cp and ep. As in Megatron-Core, the layout that a batch follows is that of the dense layers,
    where `ep` takes no room: the experts' layout lays other groups over the same processes. Raises UsageError.
    """
    sizes = {name: operator.index(size) for name, size in sizes.items()}
    dims = _dims(order, sizes)
    rank, world_size = operator.index(rank), operator.index(world_size)
    for name, size in sizes.items():
        if size < 1:
            raise UsageError(f"{_NAMES[name]} is {size}", hint="sizes are 1 or more")
    if not 0 <= rank < world_size:
        raise UsageError(f"there is no process {rank} among {world_size}", hint="give the rank in the whole job")
    together = sizes["tp"] * sizes["pp"] * sizes["cp"]
    if world_size % together:
        raise UsageError(
            f"{world_size} processes are not divided by tensor {sizes['tp']} x pipeline {sizes['pp']} x context "
            f"{sizes['cp']} = {together}",
            hint="give the world size of the whole job, and the sizes that it was started with",
        )
    data = world_size // together
    if world_size // sizes["pp"] % sizes["ep"]:
        raise UsageError(
            f"{world_size // sizes['pp']} processes of a pipeline stage are not divided by expert {sizes['ep']}",
            hint="give the sizes that the job was started with",
        )
    stride = prod(sizes[name] for name in dims[: dims.index("dp")])
    return rank // stride % data, data


def mesh_rank(mesh: Any, dims: Sequence[str]) -> tuple[int, int]:
    """Rank and size over some dimensions of a device mesh, the first varying slowest. Raises UsageError."""
    there = tuple(mesh.mesh_dim_names or ())
    wanted = tuple(name for name in dims if name in there) if tuple(dims) == _DATA else tuple(dims)
    missing = [name for name in wanted if name not in there]
    if not wanted or missing or len(set(wanted)) < len(wanted):
        raise UsageError(
            f"the mesh has the dimensions {', '.join(there) or 'without names'}, and not {', '.join(dims)}",
            hint="name those over which the data is shared out: dims=('dp',), say; init_device_mesh(..., "
            "mesh_dim_names=...) names them",
        )
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise UsageError("this process is not in the mesh", hint="make the loader only where the mesh has a rank")
    rank, total = 0, 1
    for name in wanted:
        size = mesh.size(there.index(name))
        rank, total = rank * size + coordinate[there.index(name)], total * size
    return rank, total


def _dims(order: str, sizes: Mapping[str, int]) -> list[str]:
    """The dimensions in their order, without `ep`. Those of size 1 may be left out, as Megatron allows."""
    dims = order.lower().split("-")
    known = {*sizes, "dp"}
    odd = sorted(set(dims) - known)
    if odd or len(set(dims)) < len(dims):
        raise UsageError(
            f"the order {order!r} {'names ' + ', '.join(map(repr, odd)) if odd else 'names a dimension twice'}",
            hint=f"join tp, cp, ep, dp and pp by hyphens, the fastest first: {ORDER!r}",
        )
    left_out = sorted(name for name in known - set(dims) if sizes.get(name, 2) > 1)
    if left_out:
        raise UsageError(f"the order {order!r} leaves out {', '.join(left_out)}", hint=f"name it, as {ORDER!r} does")
    return [name for name in dims if name != "ep"]
