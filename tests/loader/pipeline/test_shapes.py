"""What waits in a state goes on with the stages and options it began with, or is refused: never lost or repeated."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import digests, saved_after, through_json, training_of
from wdsctl.core.errors import StateMismatch
from wdsctl.core.index.index import index
from wdsctl.loader import Loader
from wdsctl.loader.packing import Packing
from wdsctl.loader.pipeline.state_layout import check_state_layout, layout_entry

SAMPLES = 96


def length(sample: Any) -> int:
    return int(sample["number"])


class Texts(Raw):
    """A sample is its bytes and the number of them."""

    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "number": len(sample["txt"])}


class ByHooks(Texts):
    """Packs of neighbours, two by two, of which the restore keys are kept."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[i : i + 2] for i in range(0, len(samples), 2)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [tuple(each["__restore_key__"]) for each in samples]}


class ByLengths(Texts):
    """Packs by length, of which the restore keys are kept."""

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [tuple(each["__restore_key__"]) for each in samples]}


class Grouped(Texts):
    def batch_group_criterion(self, sample: Any) -> tuple[int, None]:
        return sample["number"] % 3, None


class Halves(Texts):
    """Two batches are made of one."""

    def encode_batch(self, batch: Any) -> Iterator[Any]:
        for half in range(2):
            yield {**batch, "half": half}


class Noted(Texts):
    """One batch is made of one."""

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


def packed(dataset: str, rank: int = 0, world: int = 1, **given: Any) -> Loader:
    packing = Packing(**{**BY_COLUMN, **given})
    return training_of(dataset, rank, world, ByLengths(), lanes=2, batch_size=1, packing=packing)


def hooked(dataset: str, buffer: int, encoder: Any = None, **options: Any) -> Loader:
    options = {"lanes": 2, "batch_size": 1, "packing_buffer_size": buffer, **options}
    return training_of(dataset, encoder=encoder or ByHooks(), **options)


def members(loader: Loader, count: int) -> list[Any]:
    return [key for batch, _ in zip(loader, range(count), strict=False) for pack in batch["members"] for key in pack]


# What is under way.


@pytest.mark.parametrize("place", range(1, 20, 3))
def test_another_buffer_size_is_refused_in_the_middle_of_a_buffer(place: int, dataset: str) -> None:
    state = saved_after(hooked(dataset, 12), place)

    with pytest.warns(UserWarning, match="packing"), pytest.raises(StateMismatch) as raised:
        hooked(dataset, 16).load_state_dict(state)

    assert "pack: 12 in the state, 16 here" in str(raised.value)
    assert "of the run that saved the state" in raised.value.hint
    same = hooked(dataset, 12)
    same.load_state_dict(state, strict=True)
    assert digests(same, 20) == digests(hooked(dataset, 12), place + 20)[place:]


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
def test_another_packing_is_refused_in_the_middle_of_a_window(place: int, change: Any, dataset: str) -> None:
    lanes = {**BY_COLUMN, "window": 40}
    state = saved_after(packed(dataset, **lanes), place)

    with (
        pytest.warns(UserWarning, match="packing"),
        pytest.raises(StateMismatch, match="unfinished packs") as told,
    ):
        packed(dataset, **{**lanes, **change}).load_state_dict(state)

    assert told.value.hint
    assert told.value.code == "WDS501"


def test_a_window_that_is_cut_to_the_lanes_share_may_be_any_longer_one(dataset: str) -> None:
    undisturbed, other = packed(dataset, window=1000), packed(dataset, window=5000)
    state = saved_after(undisturbed, 5)

    with pytest.warns(UserWarning, match="packing"):
        other.load_state_dict(state)

    assert members(other, 20) == members(undisturbed, 20)


def test_before_the_first_batch_any_packing_may_follow(dataset: str) -> None:
    pairs = [
        (hooked(dataset, 12), hooked(dataset, 16), hooked(dataset, 16)),
        (packed(dataset), packed(dataset, capacity=48), packed(dataset, capacity=48)),
    ]
    for before, after, truth in pairs:
        with pytest.warns(UserWarning, match="packing"):
            after.load_state_dict(through_json(before.state_dict()))
        assert digests(after, 20) == digests(truth, 20)


def test_one_lane_in_the_middle_is_enough_to_refuse(dataset: str) -> None:
    state = saved_after(hooked(dataset, 12), 1)
    began = [cursor for cursor in state["cursors"].values() if cursor["draws"]]
    assert len(began) == 1

    with pytest.warns(UserWarning, match="packing"), pytest.raises(StateMismatch, match="unfinished packs"):
        hooked(dataset, 16).load_state_dict(state)


def test_packs_of_hooks_and_packs_by_length_are_not_taken_for_one_another(dataset: str) -> None:
    state = saved_after(packed(dataset, length=length), 3)

    with pytest.warns(UserWarning, match="packing"), pytest.raises(StateMismatch, match="unfinished packs"):
        hooked(dataset, 64).load_state_dict(state)


@pytest.mark.parametrize("encoder", [Halves(), Noted()], ids=["two of each", "one of each"])
@pytest.mark.parametrize("place", [0, 1, 2, 4, 5])
def test_another_batch_size_goes_on_where_no_batch_is_under_way(place: int, encoder: Any, dataset: str) -> None:
    state = saved_after(training_of(dataset, encoder=encoder, lanes=2, batch_size=4), place)
    is_under_way = any(cursor["stream"]["emitted"] for cursor in state["cursors"].values())
    assert is_under_way == (isinstance(encoder, Halves) and place > 0)
    other = training_of(dataset, encoder=encoder, lanes=2, batch_size=6)

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
def test_another_batch_size_repeats_and_misses_nothing_that_waits_in_groups(
    before: int, after: int, dataset: str
) -> None:
    def fresh(size: int) -> Loader:
        return training_of(dataset, encoder=Grouped(), lanes=2, batch_size=size)

    loader, resumed = fresh(before), fresh(after)
    first = [next(iter(loader)) for _ in range(9)]
    with pytest.warns(UserWarning, match="batch size"):
        resumed.load_state_dict(through_json(loader.state_dict()))
    rest = [next(iter(resumed)) for _ in range(3 * SAMPLES // after)]

    assert {len(batch["__key__"]) for batch in rest} == {after}
    counts = Counter(tuple(key) for batch in [*first, *rest] for key in batch["__restore_key__"])
    assert set(counts.values()) == {1}
    passes = Counter(key[1] for key in counts)
    assert passes[0] == passes[1] == SAMPLES


def test_states_of_packing_go_on_after_a_split_and_refuse_another_packing_there_too(dataset: str) -> None:
    loader = packed(dataset)
    before = members(loader, 7)
    merged = {**through_json(loader.state_dict()), "kind": "world", "rank": -1}
    world = [packed(dataset, rank, 3) for rank in range(3)]
    for each in world:
        each.load_state_dict(merged)
    streams = [iter(each) for each in world]
    after = [key for _ in range(20) for each in streams for pack in next(each)["members"] for key in pack]

    assert set(Counter([*before, *after]).values()) == {1}
    with pytest.warns(UserWarning, match="packing"), pytest.raises(StateMismatch, match="unfinished packs"):
        training_of(
            dataset, 0, 3, ByLengths(), lanes=2, batch_size=1, packing=Packing(**{**BY_COLUMN, "capacity": 48})
        ).load_state_dict(merged)


# The rule itself.


def a_cursor(left: int = 0, packs: int = 0, carried: Any = ()) -> dict[str, Any]:
    return {
        "stream": {
            "upstream": {"upstream": {"upstream": 3, "packs": packs, "emitted": 0, "carried": carried}},
            "emitted": left,
        }
    }


def test_options_may_change_where_nothing_is_under_way_in_any_lane() -> None:
    check_state_layout(["pack:12", "group", "batch:4"], ["pack:16", "group", "batch:8"], [a_cursor(), a_cursor()])


@pytest.mark.parametrize(
    ("cursor", "words"),
    [
        (a_cursor(packs=1), "pack: 12 in the state, 16 here"),
        (a_cursor(carried=[3]), "pack: 12 in the state, 16 here"),
        (a_cursor(left=1), "batch: 4 in the state, none here"),
    ],
)
def test_options_may_not_change_where_something_is(cursor: Any, words: str) -> None:
    with pytest.raises(StateMismatch, match=words):
        check_state_layout(["pack:12", "group", "batch:4"], [layout_entry("pack", 16), "group"], [a_cursor(), cursor])
    check_state_layout(["pack:12", "group", "batch:4"], ["pack:12", "group", "batch:4"], [cursor])


@pytest.mark.parametrize("stages", [[], ["pack:12"], ["group"]])
def test_stages_may_not_come_or_go_even_where_they_are_empty(stages: list[str]) -> None:
    with pytest.raises(StateMismatch, match="the stages"):
        check_state_layout(["pack:12", "group"], stages, [a_cursor()])


def test_a_stream_that_is_damaged_is_left_to_those_who_load_it() -> None:
    check_state_layout(["pack:12", "group"], ["pack:16", "group"], [{"stream": {"upstream": 7}}])
