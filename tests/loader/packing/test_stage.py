"""The packing stage: exact restores at every pack, with lengths from columns and from functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.contracts.savable import shape_of
from tests.loader.packing.fakes import Fake, comparable, draw_packs
from wdsctl.core.errors import LoaderError
from wdsctl.core.hashing import hash_one_value
from wdsctl.loader.packing import Packing
from wdsctl.loader.runtime.failures import SkipSample
from wdsctl.loader.runtime.stage import Hook


def lengths(pick: int) -> tuple[int, ...]:
    """Token lengths, some above 64, and image counts from 0 to 3."""
    return hash_one_value(5, pick) % 40 + (60 if hash_one_value(6, pick) % 17 == 0 else 1), hash_one_value(7, pick) % 4


def number_of_tokens(sample: Any) -> int:
    return len(sample["tokens"])


def twice(samples: list[Any]) -> Iterator[Any]:
    for copy in range(2):
        yield {"__key__": "x", "__restore_key__": (), "keys": [each["__key__"] for each in samples], "copy": copy}


def column_packing(**options: Any) -> Packing:
    return Packing(**{"length": "tokens", "capacity": 64, "window": 16, "too_long": "drop", **options})


def function_packing(**options: Any) -> Packing:
    return column_packing(length=number_of_tokens, **options)


BUDGETS = {"length": {"text": "tokens", "images": "images"}, "capacity": {"text": 100, "images": 6}}
MIXED = {**BUDGETS, "length": {"text": number_of_tokens, "images": "images"}}

LANES = {
    "columns": Fake(lengths, column_packing()),
    "columns, split": Fake(lengths, column_packing(too_long="split")),
    "columns, truncate": Fake(lengths, column_packing(too_long="truncate")),
    "columns, in order": Fake(lengths, column_packing(method="sequential")),
    "columns, budgets": Fake(lengths, column_packing(**BUDGETS, method="knapsack")),
    "columns, skips and doubled": Fake(lengths, column_packing(), skipped=range(3, 900, 7), doubled=range(5, 900, 11)),
    "columns, two of each pack": Fake(lengths, column_packing(), pack=Hook("pack", twice, 1)),
    "columns, few samples": Fake(lengths, column_packing(), rows=24),
    "columns, finite": Fake(lengths, column_packing(), end=100),
    "function": Fake(lengths, function_packing()),
    "function, few samples": Fake(lengths, function_packing(), rows=24),
    "function, split": Fake(lengths, function_packing(too_long="split"), doubled=range(5, 900, 11)),
    "function, two of each pack": Fake(
        lengths, function_packing(), pack=Hook("pack", twice, 1), skipped=range(3, 900, 7)
    ),
    "function, finite": Fake(lengths, function_packing(method="first_fit_decreasing"), end=100, doubled=(50,)),
    "mixed": Fake(lengths, column_packing(**MIXED), doubled=range(5, 900, 11)),
}


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest) -> Fake:
    return replace(LANES[request.param], errors=[])


def test_restored_lane_continues_exactly_at_every_pack(lane: Fake) -> None:
    uninterrupted = lane.open()
    expected = [comparable(item) for item in draw_packs(uninterrupted, 24)]

    cursor, states = lane.open(), []
    for _ in expected:
        states.append(json.dumps(cursor.state()))
        cursor.next()

    assert len({shape_of_position(state) for state in states}) == 1
    assert any(json.loads(state)["carried"] for state in states), "something was carried"
    assert len({json.dumps(json.loads(state)["upstream"]) for state in states}) >= 3, "windows were crossed"
    for position, state in enumerate(states):
        restored = lane.open(json.loads(state))
        assert json.dumps(restored.state()) == state
        assert [comparable(item) for item in draw_packs(restored, len(expected) - position)] == expected[position:], (
            position
        )
    assert not lane.errors


def test_restored_lane_has_same_draw_count(lane: Fake) -> None:
    cursor = lane.open()
    for _ in range(20):
        cursor.next()
        picks, state = lane.refs.draws, cursor.state()
        restored = replace(lane, errors=[])
        restored.open(state)
        assert restored.refs.draws == picks


def test_stats_before_and_after_restore_add_up(lane: Fake) -> None:
    whole = lane.open()
    draw_packs(whole, 30)
    expected = lane.stats
    first = lane.open()
    draw_packs(first, 17)
    before, state = lane.stats, first.state()

    second = lane.open(state)
    draw_packs(second, 30 - 17)

    actual = before.plus(lane.stats)
    assert (actual.packed, actual.pack_capacity, actual.too_long) == (
        expected.packed,
        expected.pack_capacity,
        expected.too_long,
    )


@pytest.mark.parametrize("name", ["columns, few samples", "function, few samples"])
def test_pack_has_no_sample_twice_where_passes_meet(name: str) -> None:
    lane = replace(LANES[name], errors=[])
    packs = [[(source, row) for source, _, row in item.restore_keys] for item in draw_packs(lane.open(), 60)]
    assert all(len(set(pack)) == len(pack) for pack in packs)


def test_pack_has_no_piece_of_a_sample_twice() -> None:
    lane = Fake(lambda _: (96, 0), column_packing(too_long="split"), rows=1, end=4)
    pieces = [len(item.restore_keys) for item in draw_packs(lane.open())]
    assert pieces == [1] * 8  # two pieces of 32 would fit


def test_rebuild_returns_same_packs_before_and_after_restore(lane: Fake) -> None:
    cursor = lane.open()
    items = draw_packs(cursor, 30)
    state = cursor.state()

    assert [comparable(cursor.rebuild(item.address)) for item in items] == [comparable(item) for item in items]
    assert cursor.state() == state
    assert [comparable(lane.open(state).rebuild(item.address)) for item in items] == [
        comparable(item) for item in items
    ]


@pytest.mark.parametrize("packing", [column_packing(), function_packing()], ids=["columns", "function"])
@pytest.mark.parametrize("end", [0, 1, 15, 16, 17, 32, 100])
def test_finite_lane_packs_every_fitting_sample_once(packing: Packing, end: int) -> None:
    lane = Fake(lengths, packing, end=end)

    packs = [pack.value for pack in draw_packs(lane.open())]

    packed_picks = [pick for pick in range(end) if lengths(pick)[0] <= 64]
    tokens = sorted(token for pack in packs for token in pack["tokens"].tolist())
    assert tokens == sorted(1000 * pick + i for pick in packed_picks for i in range(lengths(pick)[0]))
    assert all(len(pack["tokens"]) <= 64 for pack in packs)
    assert lane.stats.too_long == end - len(packed_picks)


def test_column_packing_loads_only_samples_of_next_pack() -> None:
    lane = Fake(lengths, column_packing())
    cursor = lane.open()

    for _ in range(30):
        before = len(lane.samples.loaded)
        (item,) = draw_packs(cursor, 1)
        assert lane.samples.loaded[before:] == item.address["samples"]


def test_restore_loads_no_samples_of_emitted_packs() -> None:
    lane = Fake(lengths, column_packing())
    cursor = lane.open()
    draw_packs(cursor, 5)

    restored = lane.open(cursor.state())
    (item,) = draw_packs(restored, 1)

    assert lane.samples.loaded == item.address["samples"]


@pytest.mark.parametrize("packing", [column_packing(), function_packing()], ids=["columns", "function"])
def test_references_are_taken_at_most_one_window_ahead(packing: Packing) -> None:
    lane = Fake(lengths, packing)
    cursor, packed = lane.open(), 0

    for _ in range(50):
        (item,) = draw_packs(cursor, 1)
        packed += len(item.address["samples"])
        assert lane.refs.furthest <= packed + lane.stats.too_long + 16 + 16 // 4


def test_column_and_function_lengths_give_same_packs() -> None:
    by_column, by_function = Fake(lengths, column_packing()), Fake(lengths, function_packing())

    assert list(map(comparable, draw_packs(by_column.open(), 60))) == list(
        map(comparable, draw_packs(by_function.open(), 60))
    )


def test_too_long_error_names_sample_with_column_lengths() -> None:
    lane = Fake(lambda pick: (65,) if pick == 7 else (10,), column_packing(too_long="error"))

    with pytest.raises(LoaderError, match="length 65 of 64") as raised:
        lane.open().next()

    assert (raised.value.code, raised.value.where) == ("WDS509", "key 7")


def test_too_long_error_names_sample_with_function_lengths() -> None:
    lane = Fake(lambda pick: (65,) if pick == 7 else (10,), function_packing(too_long="error"))

    with pytest.raises(LoaderError, match="length 65 of 64") as raised:
        lane.open().next()

    assert raised.value.where.endswith("key 7.0")


@pytest.mark.parametrize("packing", [column_packing(too_long="split"), function_packing(too_long="split")])
def test_too_long_split_keeps_every_token(packing: Packing) -> None:
    lane = Fake(lambda pick: (150,) if pick == 3 else (10,), packing, end=24)

    packs = draw_packs(lane.open())

    tokens = [token for pack in packs for token in pack.value["tokens"].tolist() if 3000 <= token < 4000]
    assert sorted(tokens) == list(range(3000, 3150))
    pieces = sorted(origin[4:] for pack in packs for origin in pack.restore_keys if origin[2] == 3)
    assert pieces == [(0, 64, 150), (64, 128, 150), (128, 150, 150)]
    assert lane.stats.too_long == 1
    assert all(len(pack.value["tokens"]) <= 64 for pack in packs)


def test_too_long_truncate_keeps_first_tokens() -> None:
    lane = Fake(lambda pick: (150,) if pick == 3 else (10,), column_packing(too_long="truncate"), end=24)

    tokens = [token for pack in draw_packs(lane.open()) for token in pack.value["tokens"].tolist()]

    assert [token for token in tokens if 3000 <= token < 4000] == list(range(3000, 3064))


def test_restore_key_of_pack_lists_origins_of_samples() -> None:
    (item,) = draw_packs(Fake(lengths, column_packing()).open(), 1)

    assert item.value["__restore_key__"] == ("pack", 0, *item.restore_keys)
    assert item.restore_keys == tuple((0, 0, pick) for pick in item.address["samples"])


def test_packing_efficiency_counts_emitted_packs() -> None:
    lane = Fake(lengths, column_packing())
    packs = draw_packs(lane.open(), 20)

    assert lane.stats.packed == sum(len(pack.value["tokens"]) for pack in packs)
    assert lane.stats.pack_capacity == 20 * 64
    assert lane.stats.packing_efficiency > 0.9


def test_banned_samples_are_omitted_and_counted_once() -> None:
    lane = Fake(lengths, column_packing(), end=100)
    cursor = lane.open()
    lane.samples.ban_check = lambda _ref, pick: pick is not None and pick % 10 == 0

    packs = draw_packs(cursor)

    assert not any(pick % 10 == 0 for pack in packs for pick in pack.address["samples"])
    assert lane.stats.banned == 10


def test_postencode_hook_runs_on_samples_of_pack() -> None:
    def post(sample: Any) -> Any:
        if sample["__key__"] == "1.0":
            raise SkipSample
        return {**sample, "tokens": torch.cat((sample["tokens"], torch.tensor([-1])))}

    lane = Fake(lambda _: (4,), column_packing(), end=3, post=Hook("postencode_sample", post, 0))

    (pack,) = draw_packs(lane.open())

    assert pack.value["tokens"].tolist() == [0, 1, 2, 3, -1, 2000, 2001, 2002, 2003, -1]
    assert pack.value["cu_lengths"].tolist() == [0, 5, 10]


def test_invalid_length_of_function_skips_sample_and_reports_error() -> None:
    def failing_length(sample: Any) -> int:
        return -1 if sample["__key__"] == "1.0" else 4

    lane = Fake(lambda _: (4,), column_packing(length=failing_length), end=3)

    (pack,) = draw_packs(lane.open())

    assert pack.address["samples"] == [0, 2]
    assert lane.stats.failed == 1
    assert "a length is -1" in str(lane.errors[0])


def test_missing_column_length_skips_sample_and_reports_once() -> None:
    lane = Fake(lambda pick: (-1,) if pick == 1 else (40,), column_packing(), end=4)
    cursor = lane.open()
    draw_packs(cursor, 1)
    state, reported = cursor.state(), len(lane.errors)

    rest = draw_packs(lane.open(state))

    assert [pack.address["samples"] for pack in rest] == [[2], [3]]
    assert (reported, len(lane.errors)) == (1, 1)
    assert lane.errors[0].where == "key 1"


def test_lane_without_packable_samples_raises_error() -> None:
    with pytest.raises(LoaderError) as raised:
        Fake(lambda _: (65,), column_packing(), max_empty_draws=100).open().next()

    assert raised.value.code == "WDS505"


def test_unmergeable_pack_is_reported_and_skipped() -> None:
    lane = Fake(lambda _: (4,), column_packing(), end=3)
    cursor = lane.open()
    lane.samples._lengths = lambda _: (5,)

    assert cursor.next() is None
    assert "the lengths are 4, 4, 4" in str(lane.errors[0])
    assert lane.stats.packed == 0


def shape_of_position(state: str) -> str:
    shape = shape_of(json.loads(state))
    shape["carried"] = []  # picks, or pieces of them
    return json.dumps(shape)
