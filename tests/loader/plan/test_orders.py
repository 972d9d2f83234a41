"""Which sizes are chosen, and which seeds: what must be the same again on a resume, and what must differ."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from wdsctl.core.blend import BlendComponent
from wdsctl.loader import WorkerConfig, get_train_dataset, get_val_dataset
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.plan.component_orders import (
    LOCAL_SLICE_SAMPLES,
    REMOTE_SLICE_SAMPLES,
    OrderSizes,
    choose_order_sizes,
    component_orders,
    warn_about_batch_size,
    warn_about_window_size,
)
from wdsctl.loader.plan.components import SourceRange

pytestmark = pytest.mark.usefixtures("unopened")

SIZES = OrderSizes(
    lanes=2, slice_samples=4, window_samples=16, min_window_slices=1, max_batch_samples=1, turn_samples=(1,)
)
ENTRY: Any = SimpleNamespace(multiplier=1)
SAVED = {"lanes": 24, "max_samples_per_sequence": 7, "turn_samples": "32", "max_batch_samples": 32}
ONE = [Fraction(1)]


def sources(*roots: str) -> Any:
    return [SimpleNamespace(root=root) for root in roots]


def a_piece(digest: str, samples: int = 100) -> SourceRange:
    source: Any = SimpleNamespace(digest=digest)
    return SourceRange(source, 0, samples, samples)


def seeds(*digests: str, grown: Mapping[int, int] | None = None, kept: Mapping[int, int] | None = None) -> list[int]:
    dataset = get_train_dataset("data", seed=3)
    entries: list[BlendComponent] = [ENTRY] * len(digests)
    pieces = [[a_piece(digest)] for digest in digests]
    orders = component_orders(dataset, entries, pieces, SIZES, [1] * len(digests), grown or {}, kept or {})
    return [order.seed for order in orders]


def test_far_stores_are_read_in_longer_slices_and_one_decides_for_all() -> None:
    dataset = get_train_dataset("data", worker_config=WorkerConfig(0, 3, 0))

    assert choose_order_sizes(dataset, sources("/"), None, ONE) == OrderSizes(24, LOCAL_SLICE_SAMPLES, 1000, 1, 1, (1,))
    assert choose_order_sizes(dataset, sources("/", "s3://bucket"), None, ONE).slice_samples == REMOTE_SLICE_SAMPLES


@pytest.mark.parametrize(
    ("options", "lanes", "slice_samples"), [({}, 24, 7), ({"lanes": 5}, 5, 7), ({"max_samples_per_sequence": 9}, 24, 9)]
)
def test_what_a_run_began_with_holds_where_the_recipe_says_nothing(
    options: dict[str, Any], lanes: int, slice_samples: int
) -> None:
    sizes = choose_order_sizes(get_train_dataset("data", **options), sources("s3://bucket"), SAVED, ONE)

    assert (sizes.lanes, sizes.slice_samples) == (lanes, slice_samples)


def test_lanes_take_turns_of_a_batch_where_a_batch_is_so_many_samples_of_one_source() -> None:
    def of(*weights: int, **options: Any) -> tuple[tuple[int, ...], int]:
        sizes = choose_order_sizes(get_train_dataset("data", **options), sources("/"), None, [*map(Fraction, weights)])
        return sizes.turn_samples, sizes.max_batch_samples

    assert of(1, batch_size=32) == ((32,), 32)
    assert of(3, 1, 0, 1000, batch_size=32) == ((1, 1, 1, 32), 32)
    assert of(3, 1, batch_size=32) == ((24, 8), 32)
    assert of(1, 1) == ((1, 1), 1)
    assert of(1, batch_size=4, packing=Packing(length="tokens", capacity=10)) == ((1,), 1)


def test_as_they_lie_lanes_read_neighbours_where_no_batch_is_so_many_samples() -> None:
    packs = get_train_dataset("data", batch_size=4, packing=Packing(length="tokens", capacity=10))
    weights = [Fraction(1), Fraction(1)]

    assert choose_order_sizes(packs, sources("/"), None, weights, {1}).turn_samples == (1, LOCAL_SLICE_SAMPLES)
    assert choose_order_sizes(get_train_dataset("data"), sources("/"), None, weights, {1}).turn_samples == (1, 1)


def test_another_batch_size_leaves_the_order_as_it_was() -> None:
    sizes = choose_order_sizes(get_train_dataset("data", batch_size=64), sources("/"), SAVED, ONE)

    assert (sizes.turn_samples, sizes.max_batch_samples) == ((32,), 32)


def test_a_validation_has_no_slices_to_shuffle() -> None:
    assert choose_order_sizes(get_val_dataset("data"), sources("s3://bucket"), SAVED, ONE) == OrderSizes(
        24, 1, 1, 1, 1, (1,)
    )


@pytest.mark.parametrize("world", [1, 3, 64])
def test_a_validation_has_as_many_lanes_on_any_ranks(world: int) -> None:
    workers = WorkerConfig(0, world)

    assert choose_order_sizes(get_val_dataset("data", worker_config=workers), sources("/"), None, ONE).lanes == 48
    assert (
        choose_order_sizes(get_val_dataset("data", lanes=5, worker_config=workers), sources("/"), SAVED, ONE).lanes == 5
    )


def test_the_same_data_twice_has_two_orders_and_other_data_leaves_them_alone() -> None:
    first, second, other = seeds("a", "a", "b")

    assert len({first, second, other}) == 3
    assert seeds("b", "a", "c", "a")[1::2] == [first, second]


def test_data_that_has_grown_has_another_order_from_each_slot_on() -> None:
    slots: list[dict[int, int]] = [{}, {1: 8}, {1: 16}]
    found = [seeds("a", "b", grown=grown) for grown in slots]

    assert len({of_b for _, of_b in found}) == 3
    assert len({of_a for of_a, _ in found}) == 1


def test_a_seed_that_a_state_keeps_is_that_of_its_arm_alone() -> None:
    first, second = seeds("a", "a")

    assert seeds("b", "a", kept={1: second})[1] == second
    assert seeds("b", "a")[1] == first
    assert seeds("b", "a", kept={1: second})[0] == seeds("b", "a")[0]


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ({"shuffle_buffer_size": 100, "max_samples_per_sequence": 100}, True),
        ({"shuffle_buffer_size": 399, "max_samples_per_sequence": 100}, True),
        ({"shuffle_buffer_size": 400, "max_samples_per_sequence": 100}, False),
        ({"shuffle_buffer_size": 100, "max_samples_per_sequence": 100, "parallel_shard_iters": 16}, False),
        ({"shuffle_buffer_size": 100, "max_samples_per_sequence": 100, "shuffle": False}, False),
        ({"shuffle_buffer_size": None, "max_samples_per_sequence": 100}, False),
        ({"shuffle_buffer_size": 100}, False),
        ({}, False),
    ],
)
def test_sizes_that_leave_batches_of_neighbours_are_told(
    options: dict[str, Any], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = get_train_dataset("data", **options)
    entry: Any = SimpleNamespace(multiplier=dataset.shuffle_over_epochs_multiplier)
    sizes = choose_order_sizes(dataset, sources("/"), None, ONE)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        warn_about_window_size(
            dataset, component_orders(dataset, [entry], [[a_piece("a", 100_000)]], sizes, [1], {}, {})
        )

    assert bool(caplog.messages) == is_told
    assert all("parallel_shard_iters=16" in message for message in caplog.messages)


@pytest.mark.parametrize(
    ("options", "is_told"),
    [({"batch_size": 9}, False), ({"batch_size": 10}, True), ({"batch_size": 10, "repeat": False}, False), ({}, False)],
)
def test_a_batch_that_is_larger_than_the_dataset_is_told(
    options: dict[str, Any], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = get_train_dataset("data", **options)
    sizes = choose_order_sizes(dataset, [], None, ONE)
    orders = component_orders(dataset, [ENTRY, ENTRY], [[a_piece("a", 4)], [a_piece("b", 5)]], sizes, [1, 1], {}, {})
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        warn_about_batch_size(dataset, orders)

    assert any("9 samples, fewer than a batch of 10" in message for message in caplog.messages) == is_told


def test_a_dataset_that_is_one_window_is_mixed_whole(caplog: pytest.LogCaptureFixture) -> None:
    dataset = get_train_dataset("data", shuffle_buffer_size=100, max_samples_per_sequence=100, lanes=1)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        for samples in (5, 100):
            piece = a_piece("a", samples)
            warn_about_window_size(
                dataset,
                component_orders(dataset, [ENTRY], [[piece]], choose_order_sizes(dataset, [], None, ONE), [1], {}, {}),
            )

    assert caplog.messages == []
