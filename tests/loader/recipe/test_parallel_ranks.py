"""The data-parallel rank against an independent enumeration of all processes, and against torch's own meshes."""

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


def enumerated(order: str, sizes: dict[str, int]) -> list[int]:
    """The data-parallel rank of every process: all coordinates written out, the slowest dimension first."""
    dims = order.split("-")[::-1]
    grid = product(*(range(sizes.get(dim, 1)) for dim in dims))
    return [dict(zip(dims, place, strict=True))["dp"] for place in grid]


@pytest.mark.parametrize("order", ["-".join(order) for order in permutations(("tp", "cp", "pp", "dp"))])
def test_ranks_are_those_of_the_enumeration(order: str) -> None:
    for sizes in SIZES:
        truth = enumerated(order, sizes)
        model = {name: size for name, size in sizes.items() if name != "dp"} | {"ep": 1}

        found = [data_parallel_rank(rank, len(truth), model, order) for rank in range(len(truth))]

        assert found == [(rank, sizes["dp"]) for rank in truth], (order, sizes)


@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "TP-CP-EP-DP-PP"])
def test_experts_change_nobodys_data(order: str) -> None:
    sizes = {"tp": 2, "cp": 2, "pp": 2}

    for rank in range(32):
        with_experts = data_parallel_rank(rank, 32, {**sizes, "ep": 4}, order)
        assert with_experts == data_parallel_rank(rank, 32, {**sizes, "ep": 1}, order.lower().replace("-ep", ""))


def test_peers_that_work_on_one_batch_share_a_rank_and_the_groups_are_as_large_as_they_should_be() -> None:
    sizes = {"tp": 4, "cp": 2, "pp": 2, "ep": 1}
    ranks = [data_parallel_rank(rank, 64, sizes)[0] for rank in range(64)]

    assert sorted(ranks) == sorted(list(range(4)) * 16)
    assert ranks[:8] == [0] * 8, "tensor and context peers are neighbours"
    assert ranks[32:] == ranks[:32], "both stages of the pipeline read the same data"


def test_dimensions_of_size_1_need_no_place_in_the_order() -> None:
    assert data_parallel_rank(5, 8, {"tp": 2, "cp": 1, "pp": 1, "ep": 1}, "tp-dp") == (2, 4)


@pytest.mark.parametrize(
    ("rank", "world", "sizes", "order", "words"),
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
def test_sizes_that_do_not_fit_are_refused(
    rank: int, world: int, sizes: dict[str, int], order: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        data_parallel_rank(rank, world, {"tp": 1, "cp": 1, "pp": 1, "ep": 1, **sizes}, order)

    assert raised.value.hint


@contextmanager
def as_process(rank: int, world: int) -> Iterator[None]:
    """torch.distributed as this process of so many has it, without the others."""
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def in_each(world: int, shape: tuple[int, ...], names: tuple[str, ...], **options: Any) -> list[tuple[int, int]]:
    found = []
    for rank in range(world):
        with as_process(rank, world):
            config = WorkerConfig.from_device_mesh(init_device_mesh("cpu", shape, mesh_dim_names=names), **options)
            found.append((config.rank, config.world_size))
    return found


def test_the_ranks_of_a_mesh_are_those_of_its_data_dimensions_laid_flat() -> None:
    found = in_each(8, (2, 2, 2), ("dp_replicate", "dp_shard", "tp"))

    assert found == [(rank // 2, 4) for rank in range(8)]


def test_of_the_default_dimensions_the_one_that_is_there_does() -> None:
    assert in_each(4, (2, 2), ("dp_shard", "cp")) == [(0, 2), (0, 2), (1, 2), (1, 2)]


def test_the_dimensions_of_a_mesh_may_be_named() -> None:
    assert in_each(4, (2, 2), ("pp", "dp"), dims="dp", num_workers=2) == [(0, 2), (1, 2), (0, 2), (1, 2)]
    assert in_each(4, (2, 2), ("a", "b"), dims=("b", "a")) == [(0, 4), (2, 4), (1, 4), (3, 4)]


def test_a_mesh_laid_flat_agrees_with_torch() -> None:
    for rank in range(8):
        with as_process(rank, 8):
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
def test_dimensions_that_a_mesh_does_not_have_are_refused(names: tuple[str, ...], dims: tuple[str, ...]) -> None:
    with as_process(0, 4), pytest.raises(UsageError, match="the mesh has dimensions dp, tp"):
        mesh_rank(init_device_mesh("cpu", (2, 2), mesh_dim_names=names), dims)


def test_a_process_outside_the_mesh_is_refused() -> None:
    class Elsewhere:
        mesh_dim_names = ("dp",)

        def get_coordinate(self) -> None:
            return None

    with pytest.raises(UsageError, match="not in the mesh"):
        mesh_rank(Elsewhere(), ("dp",))
