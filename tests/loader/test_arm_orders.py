"""Which sizes are chosen, and which seeds: what must be the same again on a resume, and what must differ."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from wdsctl.core.blend_file import Arm
from wdsctl.loader import WorkerConfig, get_train_dataset, get_val_dataset
from wdsctl.loader.arm_orders import SLICE_LOCAL, SLICE_REMOTE, Sizes, orders_of, sizes_of
from wdsctl.loader.arms import Piece

SIZES = Sizes(lanes=2, slice_samples=4, window_samples=16, parallel=1)
ENTRY: Any = SimpleNamespace(multiplier=1)
SAVED = {"lanes": 24, "slice": 7}


def sources(*roots: str) -> Any:
    return [SimpleNamespace(root=root) for root in roots]


def a_piece(digest: str, samples: int = 100) -> Piece:
    source: Any = SimpleNamespace(digest=digest)
    return Piece(source, 0, samples, samples)


def seeds(*digests: str, grown: Mapping[int, int] | None = None, kept: Mapping[int, int] | None = None) -> list[int]:
    dataset = get_train_dataset("data", seed=3)
    entries: list[Arm] = [ENTRY] * len(digests)
    pieces = [[a_piece(digest)] for digest in digests]
    orders = orders_of(dataset, entries, pieces, SIZES, grown or {}, kept or {})
    return [order.seed for order in orders]


def test_far_stores_are_read_in_longer_slices_and_one_decides_for_all() -> None:
    dataset = get_train_dataset("data", worker_config=WorkerConfig(0, 3, 0))

    assert sizes_of(dataset, sources("/"), None) == Sizes(24, SLICE_LOCAL, 1000, 1)
    assert sizes_of(dataset, sources("/", "s3://bucket"), None).slice_samples == SLICE_REMOTE


@pytest.mark.parametrize(
    ("options", "lanes", "slice_samples"), [({}, 24, 7), ({"lanes": 5}, 5, 7), ({"max_samples_per_sequence": 9}, 24, 9)]
)
def test_what_a_run_began_with_holds_where_the_recipe_says_nothing(
    options: dict[str, Any], lanes: int, slice_samples: int
) -> None:
    sizes = sizes_of(get_train_dataset("data", **options), sources("s3://bucket"), SAVED)

    assert (sizes.lanes, sizes.slice_samples) == (lanes, slice_samples)


def test_a_validation_has_no_slices_to_shuffle() -> None:
    assert sizes_of(get_val_dataset("data"), sources("s3://bucket"), SAVED) == Sizes(24, 1, 1, 1)


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
