"""Chosen order sizes and seeds: which values a resume keeps, and which must differ."""

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

pytestmark = pytest.mark.usefixtures("unopened_datasets")

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


def test_choose_order_sizes_uses_longer_slices_for_remote_sources() -> None:
    dataset = get_train_dataset("data", worker_config=WorkerConfig(0, 3, 0))

    assert choose_order_sizes(dataset, sources("/"), None, ONE) == OrderSizes(24, LOCAL_SLICE_SAMPLES, 1000, 1, 1, (1,))
    assert choose_order_sizes(dataset, sources("/", "s3://bucket"), None, ONE).slice_samples == REMOTE_SLICE_SAMPLES


@pytest.mark.parametrize(
    ("options", "lanes", "slice_samples"), [({}, 24, 7), ({"lanes": 5}, 5, 7), ({"max_samples_per_sequence": 9}, 24, 9)]
)
def test_choose_order_sizes_keeps_saved_sizes_unless_recipe_sets_them(
    options: dict[str, Any], lanes: int, slice_samples: int
) -> None:
    sizes = choose_order_sizes(get_train_dataset("data", **options), sources("s3://bucket"), SAVED, ONE)

    assert (sizes.lanes, sizes.slice_samples) == (lanes, slice_samples)


def test_choose_order_sizes_divides_batch_into_turns_by_weight() -> None:
    def turns_of(*weights: int, **options: Any) -> tuple[tuple[int, ...], int]:
        sizes = choose_order_sizes(get_train_dataset("data", **options), sources("/"), None, [*map(Fraction, weights)])
        return sizes.turn_samples, sizes.max_batch_samples

    assert turns_of(1, batch_size=32) == ((32,), 32)
    assert turns_of(3, 1, 0, 1000, batch_size=32) == ((1, 1, 1, 32), 32)
    assert turns_of(3, 1, batch_size=32) == ((24, 8), 32)
    assert turns_of(1, 1) == ((1, 1), 1)
    assert turns_of(1, batch_size=4, packing=Packing(length="tokens", capacity=10)) == ((1,), 1)


def test_turns_of_sequential_component_are_slices_for_packed_batches() -> None:
    packs = get_train_dataset("data", batch_size=4, packing=Packing(length="tokens", capacity=10))
    weights = [Fraction(1), Fraction(1)]

    assert choose_order_sizes(packs, sources("/"), None, weights, {1}).turn_samples == (1, LOCAL_SLICE_SAMPLES)
    assert choose_order_sizes(get_train_dataset("data"), sources("/"), None, weights, {1}).turn_samples == (1, 1)


def test_choose_order_sizes_keeps_saved_turns_with_another_batch_size() -> None:
    sizes = choose_order_sizes(get_train_dataset("data", batch_size=64), sources("/"), SAVED, ONE)

    assert (sizes.turn_samples, sizes.max_batch_samples) == ((32,), 32)


def test_choose_order_sizes_uses_single_samples_for_validation() -> None:
    assert choose_order_sizes(get_val_dataset("data"), sources("s3://bucket"), SAVED, ONE) == OrderSizes(
        24, 1, 1, 1, 1, (1,)
    )


@pytest.mark.parametrize("world", [1, 3, 64])
def test_validation_lane_count_is_independent_of_rank_count(world: int) -> None:
    workers = WorkerConfig(0, world)

    assert choose_order_sizes(get_val_dataset("data", worker_config=workers), sources("/"), None, ONE).lanes == 48
    assert (
        choose_order_sizes(get_val_dataset("data", lanes=5, worker_config=workers), sources("/"), SAVED, ONE).lanes == 5
    )


def test_repeated_dataset_gets_two_seeds_independent_of_other_datasets() -> None:
    first, second, other = seeds("a", "a", "b")

    assert len({first, second, other}) == 3
    assert seeds("b", "a", "c", "a")[1::2] == [first, second]


def test_grown_component_gets_another_seed_for_each_slot() -> None:
    slots: list[dict[int, int]] = [{}, {1: 8}, {1: 16}]
    actual = [seeds("a", "b", grown=grown) for grown in slots]

    assert len({of_b for _, of_b in actual}) == 3
    assert len({of_a for of_a, _ in actual}) == 1


def test_seed_kept_by_state_applies_to_its_component_only() -> None:
    first, second = seeds("a", "a")

    assert seeds("b", "a", kept={1: second})[1] == second
    assert seeds("b", "a")[1] == first
    assert seeds("b", "a", kept={1: second})[0] == seeds("b", "a")[0]


@pytest.mark.parametrize(
    ("options", "warns"),
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
def test_warn_about_window_size_reports_poorly_mixed_batches(
    options: dict[str, Any], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = get_train_dataset("data", **options)
    entry: Any = SimpleNamespace(multiplier=dataset.shuffle_over_epochs_multiplier)
    sizes = choose_order_sizes(dataset, sources("/"), None, ONE)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        warn_about_window_size(
            dataset, component_orders(dataset, [entry], [[a_piece("a", 100_000)]], sizes, [1], {}, {})
        )

    assert bool(caplog.messages) == warns
    assert all("parallel_shard_iters=16" in message for message in caplog.messages)


@pytest.mark.parametrize(
    ("options", "warns"),
    [({"batch_size": 9}, False), ({"batch_size": 10}, True), ({"batch_size": 10, "repeat": False}, False), ({}, False)],
)
def test_warn_about_batch_size_reports_batch_larger_than_dataset(
    options: dict[str, Any], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = get_train_dataset("data", **options)
    sizes = choose_order_sizes(dataset, [], None, ONE)
    orders = component_orders(dataset, [ENTRY, ENTRY], [[a_piece("a", 4)], [a_piece("b", 5)]], sizes, [1, 1], {}, {})
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        warn_about_batch_size(dataset, orders)

    assert any("9 samples, fewer than a batch of 10" in message for message in caplog.messages) == warns


def test_warn_about_window_size_accepts_dataset_of_one_window(caplog: pytest.LogCaptureFixture) -> None:
    dataset = get_train_dataset("data", shuffle_buffer_size=100, max_samples_per_sequence=100, lanes=1)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        for samples in (5, 100):
            piece = a_piece("a", samples)
            warn_about_window_size(
                dataset,
                component_orders(dataset, [ENTRY], [[piece]], choose_order_sizes(dataset, [], None, ONE), [1], {}, {}),
            )

    assert caplog.messages == []
