"""Unfinished work in a state continues with the stages and options it began with, or the state is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import digests, json_round_trip, make_training_loader, save_state_after
from wdsctl.core.errors import StateMismatch
from wdsctl.core.index.index import index
from wdsctl.loader import Loader, merge_states
from wdsctl.loader.packing import Packing
from wdsctl.loader.pipeline.state_layout import check_state_layout, layout_entry

SAMPLES = 96


def length(sample: Any) -> int:
    return int(sample["number"])


class Texts(Raw):
    """Adds the length of the text to each sample."""

    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "number": len(sample["txt"])}


class HookPacks(Texts):
    """Packs of two neighbours, which keep the restore keys of their samples."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[i : i + 2] for i in range(0, len(samples), 2)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [tuple(each["__restore_key__"]) for each in samples]}


class LengthPacks(Texts):
    """Packs by length, which keep the restore keys of their samples."""

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [tuple(each["__restore_key__"]) for each in samples]}


class Grouped(Texts):
    def batch_group_criterion(self, sample: Any) -> tuple[int, None]:
        return sample["number"] % 3, None


class Halves(Texts):
    """Yields two batches per batch."""

    def encode_batch(self, batch: Any) -> Iterator[Any]:
        for half in range(2):
            yield {**batch, "half": half}


class OneBatch(Texts):
    """Returns one batch per batch."""

    def encode_batch(self, batch: Any) -> Any:
        return {**batch, "noted": True}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    def parts(i: int) -> dict[str, bytes]:
        return {"txt": b"x" * (1 + i * 37 % 40), "json": json.dumps({"n": i}).encode()}

    root = a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, parts=parts)
    index(root, columns={"tokens": "size:txt"})
    return root


BY_COLUMN: dict[str, Any] = {"length": "tokens", "capacity": 64, "window": 64}


def packed_loader(dataset: str, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    packing = Packing(**{**BY_COLUMN, **options})
    return make_training_loader(dataset, rank, world, LengthPacks(), lanes=2, batch_size=1, packing=packing)


def hooked_loader(dataset: str, buffer: int, encoder: Any = None, **options: Any) -> Loader:
    options = {"lanes": 2, "batch_size": 1, "packing_buffer_size": buffer, **options}
    return make_training_loader(dataset, encoder=encoder or HookPacks(), **options)


def members(loader: Loader, count: int) -> list[Any]:
    return [key for batch, _ in zip(loader, range(count), strict=False) for pack in batch["members"] for key in pack]


# Unfinished work.


@pytest.mark.parametrize("place", range(1, 20, 3))
def test_buffer_size_change_is_refused_within_buffer(place: int, dataset: str) -> None:
    state = save_state_after(hooked_loader(dataset, 12), place)

    with pytest.warns(UserWarning, match="packing"), pytest.raises(StateMismatch) as raised:
        hooked_loader(dataset, 16).load_state_dict(state)

    assert "pack: 12 in the state, 16 here" in str(raised.value)
    assert "of the run that saved the state" in raised.value.hint
    same = hooked_loader(dataset, 12)
    same.load_state_dict(state, strict=True)
    assert digests(same, 20) == digests(hooked_loader(dataset, 12), place + 20)[place:]


CHANGES: list[dict[str, Any]] = [
    {"capacity": 80},
    {"capacity": 48},
    {"method": "sequential"},
    {"window": 70},
    {"window": 32},
    {"too_long": "split"},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: " ".join(map(str, change.items())))
@pytest.mark.parametrize("place", [1, 8, 33])
def test_packing_change_is_refused_within_window(place: int, change: Any, dataset: str) -> None:
    lanes = {**BY_COLUMN, "window": 40}
    state = save_state_after(packed_loader(dataset, **lanes), place)

    with (
        pytest.warns(UserWarning, match="packing"),
        pytest.raises(StateMismatch, match="unfinished packs") as raised,
    ):
        packed_loader(dataset, **{**lanes, **change}).load_state_dict(state)

    assert raised.value.hint
    assert raised.value.code == "WDS501"


def test_window_over_share_of_lane_may_change(dataset: str) -> None:
    uninterrupted, other = packed_loader(dataset, window=1000), packed_loader(dataset, window=5000)
    state = save_state_after(uninterrupted, 5)

    with pytest.warns(UserWarning, match="packing"):
        other.load_state_dict(state)

    assert members(other, 20) == members(uninterrupted, 20)


def test_packing_may_change_before_first_batch(dataset: str) -> None:
    pairs = [
        (hooked_loader(dataset, 12), hooked_loader(dataset, 16), hooked_loader(dataset, 16)),
        (packed_loader(dataset), packed_loader(dataset, capacity=48), packed_loader(dataset, capacity=48)),
    ]
    for before, after, expected in pairs:
        with pytest.warns(UserWarning, match="packing"):
            after.load_state_dict(json_round_trip(before.state_dict()))
        assert digests(after, 20) == digests(expected, 20)


def test_one_unfinished_lane_refuses_packing_change(dataset: str) -> None:
    state = save_state_after(hooked_loader(dataset, 12), 1)
    started = [cursor for cursor in state["cursors"].values() if cursor["draws"]]
    assert len(started) == 1

    with pytest.warns(UserWarning, match="packing"), pytest.raises(StateMismatch, match="unfinished packs"):
        hooked_loader(dataset, 16).load_state_dict(state)


def test_change_from_length_packing_to_hook_packing_is_refused(dataset: str) -> None:
    state = save_state_after(packed_loader(dataset, length=length), 3)

    with pytest.warns(UserWarning, match="packing"), pytest.raises(StateMismatch, match="unfinished packs"):
        hooked_loader(dataset, 64).load_state_dict(state)


@pytest.mark.parametrize("encoder", [Halves(), OneBatch()], ids=["two of each", "one of each"])
@pytest.mark.parametrize("place", [0, 1, 2, 4, 5])
def test_batch_size_may_change_without_unfinished_batch(place: int, encoder: Any, dataset: str) -> None:
    state = save_state_after(make_training_loader(dataset, encoder=encoder, lanes=2, batch_size=4), place)
    is_under_way = any(cursor["stream"]["emitted"] for cursor in state["cursors"].values())
    assert is_under_way == (isinstance(encoder, Halves) and place > 0)
    other = make_training_loader(dataset, encoder=encoder, lanes=2, batch_size=6)

    if is_under_way:
        with (
            pytest.warns(UserWarning, match="batch size"),
            pytest.raises(StateMismatch, match="batch: 4 in the state, 6 here"),
        ):
            other.load_state_dict(state)
        return
    with pytest.warns(UserWarning, match="batch size"):
        other.load_state_dict(state)
    assert len(next(iter(other))["__key__"]) == 6


@pytest.mark.parametrize(("before", "after"), [(8, 3), (3, 8)])
def test_batch_size_change_repeats_and_misses_no_grouped_samples(before: int, after: int, dataset: str) -> None:
    def make_loader(size: int) -> Loader:
        return make_training_loader(dataset, encoder=Grouped(), lanes=2, batch_size=size)

    loader, resumed = make_loader(before), make_loader(after)
    first = [next(iter(loader)) for _ in range(9)]
    with pytest.warns(UserWarning, match="batch size"):
        resumed.load_state_dict(json_round_trip(loader.state_dict()))
    rest = [next(iter(resumed)) for _ in range(3 * SAMPLES // after)]

    assert {len(batch["__key__"]) for batch in rest} == {after}
    counts = Counter(tuple(key) for batch in [*first, *rest] for key in batch["__restore_key__"])
    assert set(counts.values()) == {1}
    passes = Counter(key[1] for key in counts)
    assert passes[0] == passes[1] == SAMPLES


def test_packing_state_restores_after_lane_split_and_refuses_change(dataset: str) -> None:
    loader = packed_loader(dataset)
    before = members(loader, 7)
    merged = merge_states([json_round_trip(loader.state_dict())])
    world = [packed_loader(dataset, rank, 3) for rank in range(3)]
    for each in world:
        each.load_state_dict(merged)
    streams = [iter(each) for each in world]
    after = [key for _ in range(20) for each in streams for pack in next(each)["members"] for key in pack]

    assert set(Counter([*before, *after]).values()) == {1}
    with pytest.warns(UserWarning, match="packing"), pytest.raises(StateMismatch, match="unfinished packs"):
        make_training_loader(
            dataset, 0, 3, LengthPacks(), lanes=2, batch_size=1, packing=Packing(**{**BY_COLUMN, "capacity": 48})
        ).load_state_dict(merged)


# check_state_layout.


def a_cursor(emitted: int = 0, packs: int = 0, carried: Any = ()) -> dict[str, Any]:
    return {
        "stream": {
            "upstream": {"upstream": {"upstream": 3, "packs": packs, "emitted": 0, "carried": carried}},
            "emitted": emitted,
        }
    }


def test_check_state_layout_allows_change_without_unfinished_work() -> None:
    check_state_layout(["pack:12", "group", "batch:4"], ["pack:16", "group", "batch:8"], [a_cursor(), a_cursor()])


@pytest.mark.parametrize(
    ("cursor", "message"),
    [
        (a_cursor(packs=1), "pack: 12 in the state, 16 here"),
        (a_cursor(carried=[3]), "pack: 12 in the state, 16 here"),
        (a_cursor(emitted=1), "batch: 4 in the state, none here"),
    ],
)
def test_check_state_layout_refuses_change_with_unfinished_work(cursor: Any, message: str) -> None:
    with pytest.raises(StateMismatch, match=message):
        check_state_layout(["pack:12", "group", "batch:4"], [layout_entry("pack", 16), "group"], [a_cursor(), cursor])
    check_state_layout(["pack:12", "group", "batch:4"], ["pack:12", "group", "batch:4"], [cursor])


@pytest.mark.parametrize("stages", [[], ["pack:12"], ["group"]])
def test_check_state_layout_refuses_added_or_removed_stages(stages: list[str]) -> None:
    with pytest.raises(StateMismatch, match="the stages"):
        check_state_layout(["pack:12", "group"], stages, [a_cursor()])


def test_check_state_layout_ignores_damaged_cursor() -> None:
    check_state_layout(["pack:12", "group"], ["pack:16", "group"], [{"stream": {"upstream": 7}}])
