"""The packing stage: exact after a restore at every pack, by columns and by functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.contracts.savable import shape_of
from tests.loader.packing.fakes import Fake, drawn, plain
from wdsctl.core.errors import LoaderError
from wdsctl.core.hashing import hash_one_value
from wdsctl.loader.packing import Packing
from wdsctl.loader.runtime.failures import SkipSample
from wdsctl.loader.runtime.stage import Hook


def lengths(pick: int) -> tuple[int, ...]:
    """Of some picks above 64, and of images from 0 to 3."""
    return hash_one_value(5, pick) % 40 + (60 if hash_one_value(6, pick) % 17 == 0 else 1), hash_one_value(7, pick) % 4


def number_of_tokens(sample: Any) -> int:
    return len(sample["tokens"])


def twice(samples: list[Any]) -> Iterator[Any]:
    for copy in range(2):
        yield {"__key__": "x", "__restore_key__": (), "keys": [each["__key__"] for each in samples], "copy": copy}


def of_columns(**given: Any) -> Packing:
    return Packing(**{"length": "tokens", "capacity": 64, "window": 16, "too_long": "drop", **given})


def of_function(**given: Any) -> Packing:
    return of_columns(length=number_of_tokens, **given)


BUDGETS = {"length": {"text": "tokens", "images": "images"}, "capacity": {"text": 100, "images": 6}}
MIXED = {**BUDGETS, "length": {"text": number_of_tokens, "images": "images"}}

LANES = {
    "columns": Fake(lengths, of_columns()),
    "columns, split": Fake(lengths, of_columns(too_long="split")),
    "columns, truncate": Fake(lengths, of_columns(too_long="truncate")),
    "columns, in order": Fake(lengths, of_columns(method="sequential")),
    "columns, budgets": Fake(lengths, of_columns(**BUDGETS, method="knapsack")),
    "columns, skips and twins": Fake(lengths, of_columns(), skipped=range(3, 900, 7), twins=range(5, 900, 11)),
    "columns, two of each pack": Fake(lengths, of_columns(), pack=Hook("pack", twice, 1)),
    "columns, finite": Fake(lengths, of_columns(), end=100),
    "function": Fake(lengths, of_function()),
    "function, split": Fake(lengths, of_function(too_long="split"), twins=range(5, 900, 11)),
    "function, two of each pack": Fake(lengths, of_function(), pack=Hook("pack", twice, 1), skipped=range(3, 900, 7)),
    "function, finite": Fake(lengths, of_function(method="first_fit_decreasing"), end=100, twins=(50,)),
    "mixed": Fake(lengths, of_columns(**MIXED), twins=range(5, 900, 11)),
}
every_lane = pytest.mark.parametrize("lane", LANES.values(), ids=LANES.keys())


@every_lane
def test_a_lane_goes_on_exactly_after_a_restore_at_every_pack(lane: Fake) -> None:
    undisturbed = lane.open()
    truth = [plain(item) for item in drawn(undisturbed, 32)]

    cursor, states = lane.open(), []
    for _ in truth:
        states.append(json.dumps(cursor.state()))
        cursor.next()

    assert len({shape_of_position(state) for state in states}) == 1
    assert any(json.loads(state)["carried"] for state in states), "something was carried"
    assert len({json.dumps(json.loads(state)["upstream"]) for state in states}) >= 3, "windows were crossed"
    for position, state in enumerate(states):
        restored = lane.open(json.loads(state))
        assert json.dumps(restored.state()) == state
        assert [plain(item) for item in drawn(restored, len(truth) - position)] == truth[position:], position


@every_lane
def test_a_restored_lane_has_taken_as_many_references(lane: Fake) -> None:
    cursor = lane.open()
    for _ in range(20):
        cursor.next()
        picks, state = lane.refs.draws, cursor.state()
        fresh = Fake(lane.lengths, lane.packing, lane.end, lane.skipped, lane.twins, lane.pack)
        fresh.open(state)
        assert fresh.refs.draws == picks


@every_lane
def test_what_a_restored_lane_counts_is_what_was_left_to_count(lane: Fake) -> None:
    whole = lane.open()
    drawn(whole, 30)
    wanted = lane.stats
    first = lane.open()
    drawn(first, 17)
    before, state = lane.stats, first.state()

    second = lane.open(state)
    drawn(second, 30 - 17)

    found = before.plus(lane.stats)
    assert (found.packed, found.pack_capacity, found.too_long) == (wanted.packed, wanted.pack_capacity, wanted.too_long)


@every_lane
def test_a_pack_that_waits_is_made_again(lane: Fake) -> None:
    cursor = lane.open()
    items = drawn(cursor, 30)
    state = cursor.state()

    assert [plain(cursor.rebuild(item.address)) for item in items] == [plain(item) for item in items]
    assert cursor.state() == state
    assert [plain(lane.open(state).rebuild(item.address)) for item in items] == [plain(item) for item in items]


@pytest.mark.parametrize("packing", [of_columns(), of_function()], ids=["columns", "function"])
@pytest.mark.parametrize("end", [0, 1, 15, 16, 17, 32, 100])
def test_a_finite_lane_gives_every_sample_once(packing: Packing, end: int) -> None:
    lane = Fake(lengths, packing, end=end)

    packs = [pack.value for pack in drawn(lane.open())]

    kept = [pick for pick in range(end) if lengths(pick)[0] <= 64]
    tokens = sorted(token for pack in packs for token in pack["tokens"].tolist())
    assert tokens == sorted(1000 * pick + i for pick in kept for i in range(lengths(pick)[0]))
    assert all(len(pack["tokens"]) <= 64 for pack in packs)
    assert lane.stats.too_long == end - len(kept)


def test_with_columns_nothing_is_read_before_its_pack_is_made() -> None:
    lane = Fake(lengths, of_columns())
    cursor = lane.open()

    for _ in range(30):
        before = len(lane.samples.loaded)
        (item,) = drawn(cursor, 1)
        assert lane.samples.loaded[before:] == item.address["samples"]


def test_a_restore_reads_no_sample_of_a_pack_that_has_left() -> None:
    lane = Fake(lengths, of_columns())
    cursor = lane.open()
    drawn(cursor, 5)

    again = lane.open(cursor.state())
    (item,) = drawn(again, 1)

    assert lane.samples.loaded == item.address["samples"]


@pytest.mark.parametrize("packing", [of_columns(), of_function()], ids=["columns", "function"])
def test_the_order_runs_no_further_ahead_than_a_window(packing: Packing) -> None:
    lane = Fake(lengths, packing)
    cursor, packed = lane.open(), 0

    for _ in range(50):
        (item,) = drawn(cursor, 1)
        packed += len(item.address["samples"])
        assert lane.refs.furthest <= packed + lane.stats.too_long + 16 + 16 // 4


def test_columns_and_functions_that_agree_give_the_same_packs() -> None:
    by_column, by_function = Fake(lengths, of_columns()), Fake(lengths, of_function())

    assert list(map(plain, drawn(by_column.open(), 60))) == list(map(plain, drawn(by_function.open(), 60)))


def test_a_sample_that_is_too_long_is_an_error_that_names_it() -> None:
    lane = Fake(lambda pick: (65,) if pick == 7 else (10,), of_columns(too_long="error"))

    with pytest.raises(LoaderError, match="length 65 of 64") as told:
        lane.open().next()

    assert (told.value.code, told.value.where) == ("WDS509", "key 7")


def test_a_sample_that_is_too_long_is_named_by_a_function_too() -> None:
    lane = Fake(lambda pick: (65,) if pick == 7 else (10,), of_function(too_long="error"))

    with pytest.raises(LoaderError, match="length 65 of 64") as told:
        lane.open().next()

    assert told.value.where.endswith("key 7.0")


@pytest.mark.parametrize("packing", [of_columns(too_long="split"), of_function(too_long="split")])
def test_split_keeps_every_token_and_truncate_the_first_ones(packing: Packing) -> None:
    lane = Fake(lambda pick: (150,) if pick == 3 else (10,), packing, end=24)

    packs = drawn(lane.open())

    tokens = [token for pack in packs for token in pack.value["tokens"].tolist() if 3000 <= token < 4000]
    assert sorted(tokens) == list(range(3000, 3150))
    pieces = sorted(origin[4:] for pack in packs for origin in pack.restore_keys if origin[2] == 3)
    assert pieces == [(0, 64, 150), (64, 128, 150), (128, 150, 150)]
    assert lane.stats.too_long == 1
    assert all(len(pack.value["tokens"]) <= 64 for pack in packs)


def test_truncate_keeps_the_first_tokens() -> None:
    lane = Fake(lambda pick: (150,) if pick == 3 else (10,), of_columns(too_long="truncate"), end=24)

    tokens = [token for pack in drawn(lane.open()) for token in pack.value["tokens"].tolist()]

    assert [token for token in tokens if 3000 <= token < 4000] == list(range(3000, 3064))


def test_a_pack_has_the_origins_of_its_samples_as_its_restore_key() -> None:
    (item,) = drawn(Fake(lengths, of_columns()).open(), 1)

    assert item.value["__restore_key__"] == ("pack", 0, *item.restore_keys)
    assert item.restore_keys == tuple((0, 0, pick) for pick in item.address["samples"])


def test_efficiency_is_counted_over_what_has_left() -> None:
    lane = Fake(lengths, of_columns())
    packs = drawn(lane.open(), 20)

    assert lane.stats.packed == sum(len(pack.value["tokens"]) for pack in packs)
    assert lane.stats.pack_capacity == 20 * 64
    assert lane.stats.packing_efficiency > 0.9


def test_banned_picks_are_left_out_and_counted_once() -> None:
    lane = Fake(lengths, of_columns(), end=100)
    cursor = lane.open()
    lane.samples.ban_check = lambda _ref, pick: pick is not None and pick % 10 == 0

    packs = drawn(cursor)

    assert not any(pick % 10 == 0 for pack in packs for pick in pack.address["samples"])
    assert lane.stats.banned == 10


def test_post_runs_on_the_samples_of_a_pack() -> None:
    def post(sample: Any) -> Any:
        if sample["__key__"] == "1.0":
            raise SkipSample
        return {**sample, "tokens": torch.cat((sample["tokens"], torch.tensor([-1])))}

    lane = Fake(lambda _: (4,), of_columns(), end=3, post=Hook("postencode_sample", post, 0))

    (pack,) = drawn(lane.open())

    assert pack.value["tokens"].tolist() == [0, 1, 2, 3, -1, 2000, 2001, 2002, 2003, -1]
    assert pack.value["cu_lengths"].tolist() == [0, 5, 10]


def test_a_length_function_that_fails_leaves_its_sample_out_and_is_told() -> None:
    def fails(sample: Any) -> int:
        return -1 if sample["__key__"] == "1.0" else 4

    lane = Fake(lambda _: (4,), of_columns(length=fails), end=3)

    (pack,) = drawn(lane.open())

    assert pack.address["samples"] == [0, 2]
    assert lane.stats.failed == 1
    assert "a length is -1" in str(lane.told[0])


def test_a_column_without_a_length_leaves_its_sample_out_and_is_told_once() -> None:
    lane = Fake(lambda pick: (-1,) if pick == 1 else (40,), of_columns(), end=4)
    cursor = lane.open()
    drawn(cursor, 1)
    state, told = cursor.state(), len(lane.told)

    rest = drawn(lane.open(state))

    assert [pack.address["samples"] for pack in rest] == [[2], [3]]
    assert (told, len(lane.told)) == (1, 1)
    assert lane.told[0].where == "key 1"


def test_a_lane_of_which_nothing_can_be_packed_gives_up() -> None:
    with pytest.raises(LoaderError) as told:
        Fake(lambda _: (65,), of_columns(), patience=100).open().next()

    assert told.value.code == "WDS505"


def test_a_pack_that_cannot_be_merged_is_told_and_left_out() -> None:
    lane = Fake(lambda _: (4,), of_columns(), end=3)
    cursor = lane.open()
    lane.samples._lengths = lambda _: (5,)

    assert cursor.next() is None
    assert "the lengths are 4, 4, 4" in str(lane.told[0])
    assert lane.stats.packed == 0


def shape_of_position(state: str) -> str:
    shape = shape_of(json.loads(state))
    shape["carried"] = []  # picks, or pieces of them
    return json.dumps(shape)
