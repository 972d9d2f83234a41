"""One pass of a training (`repeat=False`), a validation with a limit, and finite streams that pack or group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import Packs, ids, json_round_trip, make_training_loader, restore_keys, take_batches
from wdsctl.core.errors import UsageError
from wdsctl.core.trace import read_trace
from wdsctl.loader import (
    Loader,
    SkipSample,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    merge_states,
)

SAMPLES = 50


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=15, parts=numbered)


class Groups(Raw):
    def batch_group_criterion(self, sample: Any) -> tuple[Hashable, int | None]:
        return int(sample["__key__"]) % 3, None


class FewOfTwoLanes(Groups):
    """Skips samples so that two of four lanes of an unshuffled pass in slices of one end long before the others."""

    def encode_sample(self, sample: Any) -> Any:
        number = int(sample["__key__"])
        if number > 8 and number % 4 in {1, 2}:
            raise SkipSample
        return sample


def finite_loader(path: str, rank: int = 0, world: int = 1, encoder: Any = None, **options: Any) -> Loader:
    return make_training_loader(path, rank, world, encoder, **{"repeat": False, "lanes": 4, **options})


def keys_of(batches: list[Any]) -> list[str]:
    return [key for batch in batches for key in batch["__key__"]]


# One pass.


def test_finite_training_shuffles_every_sample_once_per_pass(dataset: str) -> None:
    loader = finite_loader(dataset)

    first, second = (keys_of(list(loader)) for _ in range(2))

    assert first != sorted(first)
    assert sorted(first) == sorted(second) == [f"{i:06}" for i in range(SAMPLES)]
    assert len(loader) == 13


@pytest.mark.parametrize("encoder", [Raw(), Groups(), Packs()], ids=["runs", "groups", "packs"])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_every_pass_has_its_own_order_and_restore_keys(encoder: Raw, multiplier: int, dataset: str) -> None:
    size = {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    loader = finite_loader(dataset, encoder=encoder, shuffle_over_epochs_multiplier=multiplier, **size)

    passes = [restore_keys(list(loader)) for _ in range(3)]

    assert len({tuple(sample for *_, sample in keys) for keys in passes}) == 3
    for number, keys in enumerate(passes):
        assert {key[1] for key in keys} == {number * multiplier + i for i in range(multiplier)}
        assert len(set(keys)) == len(keys) == SAMPLES * multiplier


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_yield_same_order_in_every_pass(workers: int, dataset: str) -> None:
    for encoder in (Raw(), Groups()):
        inline = finite_loader(dataset, encoder=encoder)
        with finite_loader(dataset, encoder=encoder, worker_config=WorkerConfig(num_workers=workers)) as loader:
            for _ in range(3):
                assert [digest(batch) for batch in loader] == [digest(batch) for batch in inline]


@pytest.mark.parametrize("encoder", [Raw(), Groups()], ids=["runs", "groups"])
def test_state_of_later_pass_resumes_on_other_rank_count(encoder: Raw, dataset: str) -> None:
    loader, whole = finite_loader(dataset, encoder=encoder), finite_loader(dataset, encoder=encoder)
    list(loader), list(whole)
    first = take_batches(loader, 3)
    state = json_round_trip(merge_states([loader.state_dict()]))
    world = [finite_loader(dataset, rank, 3, encoder) for rank in range(3)]
    for each in world:
        each.load_state_dict(state)

    rest = [batch for each in world for batch in each]

    assert sorted(ids(first + rest)) == sorted(ids(list(whole)))


def test_unshuffled_pass_keeps_dataset_order(dataset: str) -> None:
    assert keys_of(list(finite_loader(dataset, shuffle=False))) == [f"{i:06}" for i in range(SAMPLES)]


@pytest.mark.parametrize("lanes", [None, 4])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (1, 3), (4, 3)])
def test_pass_resumed_on_other_rank_count_covers_every_sample_once(
    lanes: int | None, before: int, after: int, dataset: str
) -> None:
    world = [finite_loader(dataset, rank, before, lanes=lanes) for rank in range(before)]
    first = [batch for loader in world for batch in islice(loader, 2)]
    state = json_round_trip(merge_states([loader.state_dict() for loader in world]))
    resumed = [finite_loader(dataset, rank, after, lanes=lanes) for rank in range(after)]
    for loader in resumed:
        loader.load_state_dict(state)

    rest = [batch for loader in resumed for batch in loader]

    assert sorted(keys_of(first + rest)) == [f"{i:06}" for i in range(SAMPLES)]


@pytest.mark.parametrize("multiplier", [2, 3])
def test_multiplier_makes_one_pass_of_several_epochs(multiplier: int, dataset: str) -> None:
    loaders = [
        finite_loader(dataset, encoder=each, shuffle_over_epochs_multiplier=multiplier) for each in (Raw(), Groups())
    ]

    for loader in loaders:
        counts = Counter(keys_of(list(loader)))
        assert len(counts) == SAMPLES
        assert set(counts.values()) == {multiplier}


def test_finite_training_rejects_drawing_with_replacement() -> None:
    with pytest.raises(UsageError, match="with replacement"):
        get_train_dataset("anywhere", repeat=False, shuffle_over_epochs_multiplier=-1)


def test_loop_after_break_continues_pass(dataset: str) -> None:
    expected = [digest(batch) for batch in finite_loader(dataset)]
    loader = finite_loader(dataset)

    pieces = [[digest(batch) for batch in islice(loader, count)] for count in (3, 1, 99)]

    assert pieces == [expected[:3], expected[3:4], expected[4:]]


# Limits.


@pytest.mark.parametrize("world", [1, 2])
def test_limit_shortens_every_pass_on_every_rank(world: int, dataset: str) -> None:
    for rank in range(world):
        options: dict[str, Any] = {"split_part": "train", "batch_size": 4, "task_encoder": Raw()}
        workers = WorkerConfig(rank, world)
        whole = get_loader(get_val_dataset(dataset, worker_config=workers, **options))
        loader = get_loader(get_val_dataset(dataset, worker_config=workers, limit=3, **options))

        expected = [digest(batch) for batch in islice(whole, 3)]

        assert [[digest(batch) for batch in loader] for _ in range(2)] == [expected, expected]
        assert len(loader) == 3


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_limit_includes_batches_before_restore(place: int, dataset: str) -> None:
    def make_loader() -> Loader:
        return get_loader(get_val_dataset(dataset, split_part="train", batch_size=4, limit=3, task_encoder=Raw()))

    loader = make_loader()
    take_batches(loader, place)
    resumed = make_loader()
    resumed.load_state_dict(json_round_trip(loader.state_dict()))

    assert [len(list(resumed)), len(list(resumed))] == [3 - place if place < 3 else 3, 3]


def test_limit_above_length_changes_nothing(dataset: str) -> None:
    loader = get_loader(get_val_dataset(dataset, split_part="train", batch_size=4, limit=99, task_encoder=Raw()))

    assert len(list(loader)) == len(loader) == 13


@pytest.mark.parametrize("encoder", [Groups(), Packs()], ids=["groups", "packs"])
def test_limit_applies_if_hooks_decide_batch_count(encoder: Raw, dataset: str) -> None:
    buffer = {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    loader = get_loader(
        get_val_dataset(dataset, split_part="train", batch_size=2, limit=4, task_encoder=encoder, **buffer)  # type: ignore[arg-type]
    )

    assert [len(list(loader)), len(list(loader))] == [4, 4]


# Streams whose number of batches depends on hooks.


FINITE: dict[str, Callable[..., Loader]] = {
    "groups, a training": lambda path, **options: finite_loader(path, encoder=Groups(), **options),
    "packs, a training": lambda path, **options: finite_loader(path, encoder=Packs(), packing_buffer_size=9, **options),
    "groups, a validation": lambda path, rank=0, world=1, **options: get_loader(
        get_val_dataset(
            path,
            split_part="train",
            batch_size=4,
            task_encoder=Groups(),
            worker_config=WorkerConfig(rank, world),
            **options,
        )
    ),
}


def members(batches: list[Any]) -> list[int]:
    """Returns the numbers of the samples in batches, including those in packs."""
    result = []
    for batch in batches:
        for i, key in enumerate(batch["__restore_key__"]):
            member_keys = batch["members"][i] if "members" in list(batch.keys()) else [key]
            result += [each[2] for each in member_keys]
    return sorted(result)


@pytest.mark.parametrize("kind", FINITE)
@pytest.mark.parametrize("world", [1, 2, 3])
def test_packs_and_groups_cover_every_sample_once_over_all_ranks(kind: str, world: int, dataset: str) -> None:
    loaders = [FINITE[kind](dataset, rank=rank, world=world) for rank in range(world)]

    for _ in range(2):
        batches = [batch for loader in loaders for batch in loader]
        assert len(set(members(batches))) == len(members(batches)) == SAMPLES
    with pytest.raises(TypeError, match="the length is unknown"):
        len(loaders[0])


@pytest.mark.parametrize("kind", FINITE)
def test_state_after_any_batch_of_packed_pass_resumes_exactly(kind: str, dataset: str) -> None:
    whole = FINITE[kind](dataset)
    expected, following = [digest(batch) for batch in whole], [digest(batch) for batch in whole]

    loader = FINITE[kind](dataset)
    states = [json_round_trip(loader.state_dict())]
    states += [json_round_trip(loader.state_dict()) for _ in islice(loader, len(expected))]
    assert len(states) == len(expected) + 1
    for place, state in enumerate(states):
        resumed = FINITE[kind](dataset)
        resumed.load_state_dict(state)

        if place < len(expected):
            assert [digest(batch) for batch in resumed] == expected[place:], f"saved after batch {place}"
        if place in {0, 1, len(expected) - 1, len(expected)}:
            assert [digest(batch) for batch in resumed] == following


@pytest.mark.parametrize("workers", [1, 2])
def test_lanes_that_end_early_do_not_stop_others_with_workers(workers: int, dataset: str) -> None:
    options: dict[str, Any] = {"encoder": FewOfTwoLanes(), "shuffle": False, "max_samples_per_sequence": 1}
    inline = finite_loader(dataset, **options, batch_size=2)
    with finite_loader(dataset, **options, batch_size=2, worker_config=WorkerConfig(num_workers=workers)) as loader:
        for _ in range(2):
            expected = [digest(batch) for batch in inline]
            assert [digest(batch) for batch in loader] == expected


@pytest.mark.parametrize("encoder", [FewOfTwoLanes(), Packs()], ids=["groups", "packs"])
def test_pass_has_same_batches_on_rank_counts_that_divide_lanes(encoder: Raw, dataset: str, tmp_path: Path) -> None:
    """Two of its lanes end long before the others, and other rank counts can resume from there."""
    options: dict[str, Any] = {"encoder": encoder, "shuffle": False, "max_samples_per_sequence": 1, "batch_size": 2}
    if isinstance(encoder, Packs):
        options["packing_buffer_size"] = 9

    def batches(folder: Path) -> list[Any]:
        return [(batch.number, batch.origins.tolist()) for batch in read_trace(str(folder)).batches(pass_number=0)]

    def ranks(folder: Path, world: int, workers: int = 0) -> list[Loader]:
        configs = [WorkerConfig(rank, world, workers) for rank in range(world)]
        return [finite_loader(dataset, trace=folder, worker_config=config, **options) for config in configs]

    def order(world: int, workers: int) -> list[Any]:
        folder = tmp_path / f"{world}-{workers}"
        for loader in ranks(folder, world, workers):
            with loader:
                list(loader)
        return batches(folder)

    def resumed(before: int, steps: int, after: int) -> list[Any]:
        folder = tmp_path / f"{before}-{steps}-{after}"
        world = ranks(folder, before)
        for loader in world:
            take_batches(loader, steps)
            loader.close()
        state = json_round_trip(merge_states([loader.state_dict() for loader in world]))
        for loader in ranks(folder, after):
            with loader:
                loader.load_state_dict(state)
                list(loader)
        return batches(folder)

    expected = order(1, 0)
    assert [order(2, 0), order(4, 0), order(2, 2)] == [expected] * 3
    for worlds in ((4, 2), (4, 1), (2, 4)):
        for steps in (1, 3, 4, 5):
            assert resumed(worlds[0], steps, worlds[1]) == expected, f"{worlds[0]} ranks, {steps} batches each"


# Ranks with unequal numbers of batches.


def test_ranks_keep_uneven_batches_by_default(dataset: str) -> None:
    loaders = [finite_loader(dataset, rank, 2) for rank in range(2)]

    assert [len(list(loader)) for loader in loaders] == [len(loader) for loader in loaders] == [7, 6]


@pytest.mark.parametrize("uneven", ["keep", "pad", "drop"])
def test_single_rank_is_never_padded(uneven: Any, dataset: str) -> None:
    loader = finite_loader(dataset, uneven=uneven)

    assert len(loader) == 13
    padded = [loader.is_padding for _ in loader]

    assert padded == [False] * 13
    assert len(ids(list(loader))) == SAMPLES
