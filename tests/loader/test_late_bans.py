"""A ban given at a restore removes samples held in windows, buffers and groups; all others come unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Parts, Raw, a_dataset, at_place
from tests.loader.running import digests, json_round_trip, make_training_loader, save_state_after, take_batches
from tests.places import in_folder_and_memory
from wdsctl.core.index.index import index
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE
from wdsctl.core.trace.trace import TraceOptions, query_trace
from wdsctl.loader import Loader, merge_states
from wdsctl.loader.packing import Packing

SAMPLES = 90
BEFORE = 3  # batches before a ban is given


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


def letter_count(sample: Any) -> int:
    return len(sample["letters"])


#: Loader options under which different stages hold samples between two batches.
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
        "packing": Packing(length=letter_count, capacity=30, window=24, method="sequential"),
    },
    "windows of pieces": {
        "encoder": Letters(),
        "batch_size": 1,
        "packing": Packing(length="letters", capacity=9, window=24, too_long="split"),
    },
    "windows of pieces by functions": {
        "encoder": Letters(),
        "batch_size": 1,
        "packing": Packing(length=letter_count, capacity=9, window=24, too_long="split"),
    },
    "groups of packs of windows": {
        "encoder": GroupedPacks(),
        "batch_size": None,
        "packing": Packing(length="letters", capacity=30, window=24),
    },
}
each_holder = pytest.mark.parametrize("options", HOLDERS.values(), ids=HOLDERS)


def loader_of(path: str, options: dict[str, Any], rank: int = 0, world: int = 1, **more: Any) -> Loader:
    return make_training_loader(path, rank, world, **{"lanes": 2, **options, **more})


def restore_keys(batches: list[Any]) -> list[Any]:
    """Return the restore keys of all samples, including those in packs."""
    keys = [key for batch in batches for key in batch["__restore_key__"]]
    return [each for key in keys for each in (key[2:] if key[0] == "pack" else [key])]


def sample_ids(keys: list[Any]) -> set[Any]:
    return {(source, sample) for source, _, sample, *_ in keys}


@each_holder
def test_late_ban_removes_exactly_banned_samples_from_buffers(options: Any, dataset: str) -> None:
    loader = loader_of(dataset, options, repeat=False)
    take_batches(loader, BEFORE)
    state = json_round_trip(loader.state_dict())
    rest = take_batches(loader, 1000)
    ban = [*restore_keys(rest[1:4]), *restore_keys(rest)[-20::3]]
    resumed = loader_of(dataset, options, repeat=False, ban=ban)
    resumed.load_state_dict(state)

    actual = Counter(restore_keys(take_batches(resumed, 1000)))

    assert actual == Counter(key for key in restore_keys(rest) if (key[0], key[2]) not in sample_ids(ban))
    assert resumed.stats.banned >= len(sample_ids(ban))


@each_holder
def test_states_saved_after_late_ban_resume_exactly(options: Any, dataset: str) -> None:
    loader = loader_of(dataset, options)
    state, ban = save_state_after(loader, BEFORE), restore_keys(take_batches(loader, 4))
    uninterrupted = loader_of(dataset, options, ban=ban)
    uninterrupted.load_state_dict(state)
    states, truth = [json_round_trip(uninterrupted.state_dict())], []
    for _ in range(20):
        truth += digests(uninterrupted, 1)
        states.append(json_round_trip(uninterrupted.state_dict()))

    for place in range(0, 16, 3):
        resumed = loader_of(dataset, options)
        resumed.load_state_dict(states[place])
        assert digests(resumed, 4) == truth[place : place + 4]


@each_holder
def test_late_ban_has_same_effect_on_any_number_of_ranks(options: Any, dataset: str) -> None:
    loader = loader_of(dataset, options)
    state, ban = merge_states([save_state_after(loader, BEFORE)]), restore_keys(take_batches(loader, 4))
    streams = []
    for world in (1, 2):
        ranks = [loader_of(dataset, options, rank, world, ban=ban) for rank in range(world)]
        for each in ranks:
            each.load_state_dict(state)
        steps = zip(*(digests(each, 12 // world) for each in ranks), strict=True)
        streams.append([batch for step in steps for batch in step])

    assert streams[0] == streams[1]


@pytest.mark.parametrize("holder", ["buffers", "windows of functions"])
def test_second_late_ban_applies_to_samples_kept_by_first(holder: str, dataset: str) -> None:
    options = HOLDERS[holder]
    loader = loader_of(dataset, options)
    state = save_state_after(loader, BEFORE)
    first, second = (restore_keys(take_batches(loader, 2)) for _ in range(2))
    once = loader_of(dataset, options, ban=first)
    once.load_state_dict(state)
    twice = loader_of(dataset, options, ban=second)
    twice.load_state_dict(save_state_after(once, 1))

    actual = take_batches(twice, 30)

    assert not sample_ids(restore_keys(actual)) & sample_ids(first + second)
    assert len(twice.state_dict()["bans"]) == 2


@each_holder
def test_samples_that_trace_reports_for_step_can_be_banned(
    options: Any, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, dataset)
    with loader_of(dataset, options, trace=tmp_path / "trace") as loader:
        state = save_state_after(loader, BEFORE)
        batches = take_batches(loader, 4)
    report = query_trace(str(tmp_path / "trace"), TraceOptions(step=BEFORE + 2))
    samples = [sample for batch in report.batches or () for sample in batch.samples]
    resumed = loader_of(dataset, options, ban=[sample.restore_key for sample in samples])
    resumed.load_state_dict(state)

    assert all(sample.key for sample in samples)
    assert sample_ids(list(map(attrgetter("restore_key"), samples))) == sample_ids(restore_keys(batches[2:3]))
    assert not sample_ids(restore_keys(take_batches(resumed, 12))) & sample_ids(restore_keys(batches[2:3]))


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_pack_keeps_other_samples_when_one_is_banned(dataset: str) -> None:
    options = HOLDERS["windows of columns"]
    loader = loader_of(dataset, options, lanes=1)
    state = save_state_after(loader, BEFORE)
    (pack,) = packs_of(take_batches(loader, 1))
    resumed = loader_of(dataset, options, lanes=1, ban=[pack[0]])
    resumed.load_state_dict(state)

    assert packs_of(take_batches(resumed, 1)) == [pack[1:]]
    assert resumed.stats.banned == 1


def packs_of(batches: list[Any]) -> list[list[Any]]:
    return [list(key[2:]) for batch in batches for key in batch["__restore_key__"]]


class Halves(Raw):
    """Two batches from each list of samples."""

    def batch(self, samples: list[Any]) -> Iterator[Any]:
        yield super().batch(samples[:2])
        yield super().batch(samples[2:])


def test_partly_emitted_batch_is_finished_before_ban_takes_effect(dataset: str) -> None:
    options: dict[str, Any] = {"encoder": Halves(), "batch_size": 4, "lanes": 1}
    loader = loader_of(dataset, options)
    state = save_state_after(loader, 3)
    half, *later = take_batches(loader, 40)
    ban = restore_keys([half, later[0]])
    resumed = loader_of(dataset, options, ban=ban)
    resumed.load_state_dict(state)
    again = loader_of(dataset, options, ban=ban)
    again.load_state_dict(json_round_trip(resumed.state_dict()))

    actual = take_batches(resumed, 31)

    assert restore_keys(actual[:1]) == restore_keys([half])
    assert (
        restore_keys(actual[1:])
        == [key for key in restore_keys(later) if (key[0], key[2]) not in sample_ids(ban)][: 2 * 30]
    )
    assert restore_keys(take_batches(again, 31)) == restore_keys(actual)


def test_finite_pass_finishes_partly_emitted_batch_despite_ban(dataset: str) -> None:
    options: dict[str, Any] = {"encoder": Halves(), "batch_size": 4, "repeat": False}
    loader = loader_of(dataset, options)
    last = take_batches(loader, 3)[-1]
    state = json_round_trip(loader.state_dict())
    rest, ban = restore_keys(take_batches(loader, 1000)), restore_keys([last])
    resumed = loader_of(dataset, options, ban=ban)
    resumed.load_state_dict(state)
    again = loader_of(dataset, options)
    again.load_state_dict(json_round_trip(resumed.state_dict()))

    assert restore_keys(take_batches(resumed, 1000)) == restore_keys(take_batches(again, 1000)) == rest
    assert not sample_ids(restore_keys(take_batches(resumed, 1000))) & sample_ids(ban), "the next pass"


class Thrice(Raw):
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for copy in range(3):
            yield {**sample, "copy": copy}


@pytest.mark.parametrize("batch_size", [None, 2])
def test_ban_drops_remaining_outputs_of_partly_emitted_sample(batch_size: int | None, dataset: str) -> None:
    options = {"encoder": Thrice(), "batch_size": batch_size, "lanes": 1}
    loader = loader_of(dataset, options)
    (first,) = take_batches(loader, 1)
    key = first["__key__"] if batch_size is None else first["__key__"][0]
    state = json_round_trip(loader.state_dict())
    truth = keys_of(take_batches(loader, 30))
    resumed = loader_of(dataset, options, ban=[key])
    resumed.load_state_dict(state)

    expected = [each for each in truth if each != key]

    assert keys_of(take_batches(resumed, 20)) == expected[: 20 * (batch_size or 1)]


def keys_of(batches: list[Any]) -> list[str]:
    keys = [batch["__key__"] for batch in batches]
    return [each for key in keys for each in ([key] if isinstance(key, str) else key)]
