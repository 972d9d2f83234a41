"""The data-parallel rank against an independent enumeration of all processes and against torch's meshes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations, product
from typing import Any

import pytest
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from wdsctl.core.errors import UsageError
from wdsctl.loader import WorkerConfig
from wdsctl.loader.recipe.worker_config import data_parallel_rank, mesh_rank

SIZES = [dict(zip(("tp", "cp", "pp", "dp"), each, strict=True)) for each in product((1, 2, 3), repeat=4)]


def enumerate_ranks(order: str, sizes: dict[str, int]) -> list[int]:
    """Returns the data-parallel rank of every process by listing all coordinates, slowest dimension first."""
    dims = order.split("-")[::-1]
    grid = product(*(range(sizes.get(dim, 1)) for dim in dims))
    return [dict(zip(dims, place, strict=True))["dp"] for place in grid]


@pytest.mark.parametrize("order", ["-".join(order) for order in permutations(("tp", "cp", "pp", "dp"))])
def test_data_parallel_rank_matches_enumeration(order: str) -> None:
    for sizes in SIZES:
        expected = enumerate_ranks(order, sizes)
        model = {name: size for name, size in sizes.items() if name != "dp"} | {"ep": 1}

        actual = [data_parallel_rank(rank, len(expected), model, order) for rank in range(len(expected))]

        assert actual == [(rank, sizes["dp"]) for rank in expected], (order, sizes)


@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "TP-CP-EP-DP-PP"])
def test_data_parallel_rank_ignores_expert_parallelism(order: str) -> None:
    sizes = {"tp": 2, "cp": 2, "pp": 2}

    for rank in range(32):
        with_experts = data_parallel_rank(rank, 32, {**sizes, "ep": 4}, order)
        assert with_experts == data_parallel_rank(rank, 32, {**sizes, "ep": 1}, order.lower().replace("-ep", ""))


def test_model_parallel_peers_share_data_parallel_rank() -> None:
    sizes = {"tp": 4, "cp": 2, "pp": 2, "ep": 1}
    ranks = [data_parallel_rank(rank, 64, sizes)[0] for rank in range(64)]

    assert sorted(ranks) == sorted(list(range(4)) * 16)
    assert ranks[:8] == [0] * 8, "tensor and context peers are neighbours"
    assert ranks[32:] == ranks[:32], "both stages of the pipeline read the same data"


def test_dimensions_of_size_1_may_be_missing_from_order() -> None:
    assert data_parallel_rank(5, 8, {"tp": 2, "cp": 1, "pp": 1, "ep": 1}, "tp-dp") == (2, 4)


@pytest.mark.parametrize(
    ("rank", "world", "sizes", "order", "message"),
    [
        (0, 6, {"tp": 4}, "tp-cp-ep-dp-pp", "world size 6 is not a multiple of tensor 4"),
        (6, 6, {}, "tp-cp-ep-dp-pp", "rank 6 is out of range for world size 6"),
        (0, 4, {"tp": 0}, "tp-cp-ep-dp-pp", "tensor is 0"),
        (0, 4, {"ep": 3}, "tp-cp-ep-dp-pp", "not a multiple of expert 3"),
        (0, 4, {}, "tp-sp-dp", "unknown dimensions 'sp'"),
        (0, 4, {}, "tp-tp-dp", "repeats a dimension"),
        (0, 4, {"cp": 2}, "tp-dp-pp", "lacks cp"),
        (0, 4, {}, "tp-pp", "lacks dp"),
    ],
)
def test_data_parallel_rank_rejects_invalid_sizes(
    rank: int, world: int, sizes: dict[str, int], order: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        data_parallel_rank(rank, world, {"tp": 1, "cp": 1, "pp": 1, "ep": 1, **sizes}, order)

    assert raised.value.hint


@contextmanager
def fake_process_group(rank: int, world: int) -> Iterator[None]:
    """Initializes torch.distributed as in this process of `world` processes, without the others."""
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def mesh_ranks(world: int, shape: tuple[int, ...], names: tuple[str, ...], **options: Any) -> list[tuple[int, int]]:
    actual = []
    for rank in range(world):
        with fake_process_group(rank, world):
            config = WorkerConfig.from_device_mesh(init_device_mesh("cpu", shape, mesh_dim_names=names), **options)
            actual.append((config.rank, config.world_size))
    return actual


def test_mesh_rank_flattens_data_dimensions() -> None:
    actual = mesh_ranks(8, (2, 2, 2), ("dp_replicate", "dp_shard", "tp"))

    assert actual == [(rank // 2, 4) for rank in range(8)]


def test_mesh_rank_uses_default_dimension_that_exists() -> None:
    assert mesh_ranks(4, (2, 2), ("dp_shard", "cp")) == [(0, 2), (0, 2), (1, 2), (1, 2)]


def test_mesh_rank_uses_given_dimensions() -> None:
    assert mesh_ranks(4, (2, 2), ("pp", "dp"), dims="dp", num_workers=2) == [(0, 2), (1, 2), (0, 2), (1, 2)]
    assert mesh_ranks(4, (2, 2), ("a", "b"), dims=("b", "a")) == [(0, 4), (2, 4), (1, 4), (3, 4)]


def test_mesh_rank_matches_torch_flatten() -> None:
    for rank in range(8):
        with fake_process_group(rank, 8):
            mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp_replicate", "dp_shard", "tp"))
            flat = mesh["dp_replicate", "dp_shard"]._flatten("dp")

            assert mesh_rank(mesh, ("dp_replicate", "dp_shard")) == (flat.get_local_rank(), flat.size())


@pytest.mark.parametrize(
    ("names", "dims"),
    [
        (("dp", "tp"), ("dp_replicate", "dp_shard")),
        (("dp", "tp"), ("dp", "cp")),
        (("dp", "tp"), ("dp", "dp")),
        (("dp", "tp"), ()),
    ],
)
def test_mesh_rank_rejects_invalid_dimensions(names: tuple[str, ...], dims: tuple[str, ...]) -> None:
    with fake_process_group(0, 4), pytest.raises(UsageError, match="the mesh has dimensions dp, tp"):
        mesh_rank(init_device_mesh("cpu", (2, 2), mesh_dim_names=names), dims)


def test_mesh_rank_rejects_process_outside_mesh() -> None:
    class Elsewhere:
        mesh_dim_names = ("dp",)

        def get_coordinate(self) -> None:
            return None

    with pytest.raises(UsageError, match="not in the mesh"):
        mesh_rank(Elsewhere(), ("dp",))
