"""A ban that is given at a restore reaches what windows, buffers and groups hold, and the rest comes as it would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Parts, Raw, a_dataset, at_place
from tests.loader.running import digests, saved_after, taken, through_json, training_of
from wdsctl.core.index.index import index
from wdsctl.core.trace.trace import TraceOptions, query_trace
from wdsctl.loader import Loader, merge_states
from wdsctl.loader.packing import Packing

SAMPLES = 90
BEFORE = 3  # batches that have come when a ban is given


def lettered(i: int) -> Parts:
    """5 to 15 letters."""
    return {"txt": b"x" * (5 + i * 7 % 11), "json": b"{}"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=30, parts=lettered)
    index(path, columns={"letters": "size:txt"})
    return path


@pytest.fixture
def dataset(whole: str) -> str:
    path = at_place(whole)
    if path != whole:
        index(path, columns={"letters": "size:txt"})
    return path


class Letters(Raw):
    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "letters": torch.arange(len(sample["txt"]))}


class Grouped(Raw):
    def batch_group_criterion(self, sample: Any) -> Any:
        return len(sample["txt"]) % 4, 3


class Buffered(Raw):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[i::5] for i in range(5)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "texts": [sample["txt"] for sample in samples]}


class GroupedPacks(Letters):
    def batch_group_criterion(self, sample: Any) -> Any:
        return len(sample["cu_lengths"]) % 3, 2


class GroupedBuffers(Buffered):
    def batch_group_criterion(self, sample: Any) -> Any:
        return len(sample["texts"][0]) % 3, 2


def held(sample: Any) -> int:
    return len(sample["letters"])


#: What holds samples between two batches.
HOLDERS: dict[str, dict[str, Any]] = {
    "nothing": {"encoder": Raw()},
    "groups": {"encoder": Grouped(), "batch_size": None},
    "buffers": {"encoder": Buffered(), "batch_size": 1, "packing_buffer_size": 20},
    "groups of packs of buffers": {"encoder": GroupedBuffers(), "batch_size": None, "packing_buffer_size": 20},
    "windows of columns": {
        "encoder": Letters(),
        "batch_size": 1,
        "packing": Packing(length="letters", capacity=30, window=24),
    },
    "windows of functions": {
        "encoder": Letters(),
        "batch_size": 1,
        "packing": Packing(length=held, capacity=30, window=24, method="sequential"),
    },
    "windows of pieces": {
        "encoder": Letters(),
        "batch_size": 1,
        "packing": Packing(length="letters", capacity=9, window=24, too_long="split"),
    },
    "windows of pieces by functions": {
        "encoder": Letters(),
        "batch_size": 1,
        "packing": Packing(length=held, capacity=9, window=24, too_long="split"),
    },
    "groups of packs of windows": {
        "encoder": GroupedPacks(),
        "batch_size": None,
        "packing": Packing(length="letters", capacity=30, window=24),
    },
}
each_holder = pytest.mark.parametrize("options", HOLDERS.values(), ids=HOLDERS)


def loader_of(path: str, options: dict[str, Any], rank: int = 0, world: int = 1, **more: Any) -> Loader:
    return training_of(path, rank, world, **{"lanes": 2, **options, **more})


def inside(batches: list[Any]) -> list[Any]:
    """The restore keys of all samples, of those in packs too."""
    keys = [key for batch in batches for key in batch["__restore_key__"]]
    return [each for key in keys for each in (key[2:] if key[0] == "pack" else [key])]


def names(keys: list[Any]) -> set[Any]:
    return {(source, sample) for source, _, sample, *_ in keys}


@each_holder
def test_what_is_held_and_banned_does_not_come_and_nothing_else_is_missing(options: Any, dataset: str) -> None:
    loader = loader_of(dataset, options, repeat=False)
    taken(loader, BEFORE)
    state = through_json(loader.state_dict())
    rest = taken(loader, 1000)
    ban = [*inside(rest[1:4]), *inside(rest)[-20::3]]
    resumed = loader_of(dataset, options, repeat=False, ban=ban)
    resumed.load_state_dict(state)

    came = Counter(inside(taken(resumed, 1000)))

    assert came == Counter(key for key in inside(rest) if (key[0], key[2]) not in names(ban))
    assert resumed.stats.banned >= len(names(ban))


@each_holder
def test_after_a_ban_a_state_of_any_batch_goes_on_exactly(options: Any, dataset: str) -> None:
    loader = loader_of(dataset, options)
    state, ban = saved_after(loader, BEFORE), inside(taken(loader, 4))
    undisturbed = loader_of(dataset, options, ban=ban)
    undisturbed.load_state_dict(state)
    states, truth = [through_json(undisturbed.state_dict())], []
    for _ in range(20):
        truth += digests(undisturbed, 1)
        states.append(through_json(undisturbed.state_dict()))

    for place in range(0, 16, 3):
        resumed = loader_of(dataset, options)
        resumed.load_state_dict(states[place])
        assert digests(resumed, 4) == truth[place : place + 4]


@each_holder
def test_a_ban_means_the_same_on_any_number_of_ranks(options: Any, dataset: str) -> None:
    loader = loader_of(dataset, options)
    state, ban = merge_states([saved_after(loader, BEFORE)]), inside(taken(loader, 4))
    streams = []
    for world in (1, 2):
        ranks = [loader_of(dataset, options, rank, world, ban=ban) for rank in range(world)]
        for each in ranks:
            each.load_state_dict(state)
        steps = zip(*(digests(each, 12 // world) for each in ranks), strict=True)
        streams.append([batch for step in steps for batch in step])

    assert streams[0] == streams[1]


@pytest.mark.parametrize("holder", ["buffers", "windows of functions"])
def test_a_later_ban_reaches_what_an_earlier_one_left(holder: str, dataset: str) -> None:
    options = HOLDERS[holder]
    loader = loader_of(dataset, options)
    state = saved_after(loader, BEFORE)
    first, second = (inside(taken(loader, 2)) for _ in range(2))
    once = loader_of(dataset, options, ban=first)
    once.load_state_dict(state)
    twice = loader_of(dataset, options, ban=second)
    twice.load_state_dict(saved_after(once, 1))

    came = taken(twice, 30)

    assert not names(inside(came)) & names(first + second)
    assert len(twice.state_dict()["bans"]) == 2


@each_holder
def test_what_a_trace_tells_of_a_step_can_be_banned(options: Any, dataset: str, tmp_path: Path) -> None:
    with loader_of(dataset, options, trace=tmp_path / "trace") as loader:
        state = saved_after(loader, BEFORE)
        batches = taken(loader, 4)
    report = query_trace(str(tmp_path / "trace"), TraceOptions(step=BEFORE + 2))
    samples = [sample for batch in report.batches or () for sample in batch.samples]
    resumed = loader_of(dataset, options, ban=[sample.restore_key for sample in samples])
    resumed.load_state_dict(state)

    assert all(sample.key for sample in samples)
    assert names(list(map(attrgetter("restore_key"), samples))) == names(inside(batches[2:3]))
    assert not names(inside(taken(resumed, 12))) & names(inside(batches[2:3]))


@pytest.mark.usefixtures("place")
def test_a_pack_without_what_is_banned_keeps_its_other_samples(dataset: str) -> None:
    options = HOLDERS["windows of columns"]
    loader = loader_of(dataset, options, lanes=1)
    state = saved_after(loader, BEFORE)
    (pack,) = inside_packs(taken(loader, 1))
    resumed = loader_of(dataset, options, lanes=1, ban=[pack[0]])
    resumed.load_state_dict(state)

    assert inside_packs(taken(resumed, 1)) == [pack[1:]]
    assert resumed.stats.banned == 1


def inside_packs(batches: list[Any]) -> list[list[Any]]:
    return [list(key[2:]) for batch in batches for key in batch["__restore_key__"]]


class Halves(Raw):
    """Two batches of each."""

    def batch(self, samples: list[Any]) -> Iterator[Any]:
        yield super().batch(samples[:2])
        yield super().batch(samples[2:])


def test_a_batch_of_which_a_part_has_left_is_finished_before_a_ban_begins(dataset: str) -> None:
    options: dict[str, Any] = {"encoder": Halves(), "batch_size": 4, "lanes": 1}
    loader = loader_of(dataset, options)
    state = saved_after(loader, 3)
    half, *later = taken(loader, 40)
    ban = inside([half, later[0]])
    resumed = loader_of(dataset, options, ban=ban)
    resumed.load_state_dict(state)
    again = loader_of(dataset, options, ban=ban)
    again.load_state_dict(through_json(resumed.state_dict()))

    came = taken(resumed, 31)

    assert inside(came[:1]) == inside([half])
    assert inside(came[1:]) == [key for key in inside(later) if (key[0], key[2]) not in names(ban)][: 2 * 30]
    assert inside(taken(again, 31)) == inside(came)


def test_of_a_pass_a_batch_whose_first_part_is_banned_has_its_other_part(dataset: str) -> None:
    options: dict[str, Any] = {"encoder": Halves(), "batch_size": 4, "repeat": False}
    loader = loader_of(dataset, options)
    left = taken(loader, 3)[-1]
    state = through_json(loader.state_dict())
    rest, ban = inside(taken(loader, 1000)), inside([left])
    resumed = loader_of(dataset, options, ban=ban)
    resumed.load_state_dict(state)
    again = loader_of(dataset, options)
    again.load_state_dict(through_json(resumed.state_dict()))

    assert inside(taken(resumed, 1000)) == inside(taken(again, 1000)) == rest
    assert not names(inside(taken(resumed, 1000))) & names(ban), "the next pass"


class Thrice(Raw):
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for copy in range(3):
            yield {**sample, "copy": copy}


@pytest.mark.parametrize("batch_size", [None, 2])
def test_the_rest_of_a_sample_that_was_under_way_does_not_come(batch_size: int | None, dataset: str) -> None:
    options = {"encoder": Thrice(), "batch_size": batch_size, "lanes": 1}
    loader = loader_of(dataset, options)
    (first,) = taken(loader, 1)
    key = first["__key__"] if batch_size is None else first["__key__"][0]
    state = through_json(loader.state_dict())
    truth = keys_of(taken(loader, 30))
    resumed = loader_of(dataset, options, ban=[key])
    resumed.load_state_dict(state)

    wanted = [each for each in truth if each != key]

    assert keys_of(taken(resumed, 20)) == wanted[: 20 * (batch_size or 1)]


def keys_of(batches: list[Any]) -> list[str]:
    keys = [batch["__key__"] for batch in batches]
    return [each for key in keys for each in ([key] if isinstance(key, str) else key)]
