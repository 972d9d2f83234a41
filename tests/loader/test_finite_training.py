"""One pass of a training (`repeat=False`), a validation with a limit, and finite streams that pack or group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import Packs, ids, restore_keys, taken, through_json, training_of
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
    """Of a pass as it lies, slice by slice of one: two of its four lanes end long before the others."""

    def encode_sample(self, sample: Any) -> Any:
        number = int(sample["__key__"])
        if number > 8 and number % 4 in {1, 2}:
            raise SkipSample
        return sample


def once(path: str, rank: int = 0, world: int = 1, encoder: Any = None, **options: Any) -> Loader:
    return training_of(path, rank, world, encoder, **{"repeat": False, "lanes": 4, **options})


def keys_of(batches: list[Any]) -> list[str]:
    return [key for batch in batches for key in batch["__key__"]]


# One pass.


def test_one_pass_has_every_sample_once_shuffled_and_then_the_next_pass_begins(dataset: str) -> None:
    loader = once(dataset)

    first, second = (keys_of(list(loader)) for _ in range(2))

    assert first != sorted(first)
    assert sorted(first) == sorted(second) == [f"{i:06}" for i in range(SAMPLES)]
    assert len(loader) == 13


@pytest.mark.parametrize("encoder", [Raw(), Groups(), Packs()], ids=["runs", "groups", "packs"])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_every_pass_has_the_order_of_the_next_epoch_and_its_own_restore_keys(
    encoder: Raw, multiplier: int, dataset: str
) -> None:
    size = {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    loader = once(dataset, encoder=encoder, shuffle_over_epochs_multiplier=multiplier, **size)

    passes = [restore_keys(list(loader)) for _ in range(3)]

    assert len({tuple(sample for *_, sample in keys) for keys in passes}) == 3
    for number, keys in enumerate(passes):
        assert {key[1] for key in keys} == {number * multiplier + i for i in range(multiplier)}
        assert len(set(keys)) == len(keys) == SAMPLES * multiplier


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_have_the_order_of_the_next_epoch_too(workers: int, dataset: str) -> None:
    for encoder in (Raw(), Groups()):
        alone = once(dataset, encoder=encoder)
        with once(dataset, encoder=encoder, worker_config=WorkerConfig(num_workers=workers)) as loader:
            for _ in range(3):
                assert [digest(batch) for batch in loader] == [digest(batch) for batch in alone]


@pytest.mark.parametrize("encoder", [Raw(), Groups()], ids=["runs", "groups"])
def test_a_state_of_a_later_pass_goes_on_in_its_order_on_other_ranks(encoder: Raw, dataset: str) -> None:
    loader, whole = once(dataset, encoder=encoder), once(dataset, encoder=encoder)
    list(loader), list(whole)
    first = taken(loader, 3)
    state = through_json(merge_states([loader.state_dict()]))
    world = [once(dataset, rank, 3, encoder) for rank in range(3)]
    for each in world:
        each.load_state_dict(state)

    rest = [batch for each in world for batch in each]

    assert sorted(ids(first + rest)) == sorted(ids(list(whole)))


def test_one_pass_that_is_not_shuffled_comes_as_it_lies(dataset: str) -> None:
    assert keys_of(list(once(dataset, shuffle=False))) == [f"{i:06}" for i in range(SAMPLES)]


@pytest.mark.parametrize("lanes", [None, 4])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (1, 3), (4, 3)])
def test_one_pass_goes_on_on_other_ranks_and_has_every_sample_once(
    lanes: int | None, before: int, after: int, dataset: str
) -> None:
    world = [once(dataset, rank, before, lanes=lanes) for rank in range(before)]
    first = [batch for loader in world for batch in islice(loader, 2)]
    state = through_json(merge_states([loader.state_dict() for loader in world]))
    resumed = [once(dataset, rank, after, lanes=lanes) for rank in range(after)]
    for loader in resumed:
        loader.load_state_dict(state)

    rest = [batch for loader in resumed for batch in loader]

    assert sorted(keys_of(first + rest)) == [f"{i:06}" for i in range(SAMPLES)]


@pytest.mark.parametrize("multiplier", [2, 3])
def test_passes_that_are_shuffled_together_are_one(multiplier: int, dataset: str) -> None:
    loaders = [once(dataset, encoder=each, shuffle_over_epochs_multiplier=multiplier) for each in (Raw(), Groups())]

    for loader in loaders:
        counts = Counter(keys_of(list(loader)))
        assert len(counts) == SAMPLES
        assert set(counts.values()) == {multiplier}


def test_one_pass_cannot_be_drawn_with_replacement() -> None:
    with pytest.raises(UsageError, match="with replacement"):
        get_train_dataset("anywhere", repeat=False, shuffle_over_epochs_multiplier=-1)


def test_breaking_out_of_a_pass_goes_on_where_it_was(dataset: str) -> None:
    truth = [digest(batch) for batch in once(dataset)]
    loader = once(dataset)

    pieces = [[digest(batch) for batch in islice(loader, count)] for count in (3, 1, 99)]

    assert pieces == [truth[:3], truth[3:4], truth[4:]]


# Limits.


@pytest.mark.parametrize("world", [1, 2])
def test_a_limit_cuts_every_pass_short_on_every_rank(world: int, dataset: str) -> None:
    for rank in range(world):
        options: dict[str, Any] = {"split_part": "train", "batch_size": 4, "task_encoder": Raw()}
        workers = WorkerConfig(rank, world)
        whole = get_loader(get_val_dataset(dataset, worker_config=workers, **options))
        loader = get_loader(get_val_dataset(dataset, worker_config=workers, limit=3, **options))

        truth = [digest(batch) for batch in islice(whole, 3)]

        assert [[digest(batch) for batch in loader] for _ in range(2)] == [truth, truth]
        assert len(loader) == 3


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_limit_counts_on_after_a_restore(place: int, dataset: str) -> None:
    def fresh() -> Loader:
        return get_loader(get_val_dataset(dataset, split_part="train", batch_size=4, limit=3, task_encoder=Raw()))

    loader = fresh()
    taken(loader, place)
    resumed = fresh()
    resumed.load_state_dict(through_json(loader.state_dict()))

    assert [len(list(resumed)), len(list(resumed))] == [3 - place if place < 3 else 3, 3]


def test_a_limit_above_the_length_changes_nothing(dataset: str) -> None:
    loader = get_loader(get_val_dataset(dataset, split_part="train", batch_size=4, limit=99, task_encoder=Raw()))

    assert len(list(loader)) == len(loader) == 13


@pytest.mark.parametrize("encoder", [Groups(), Packs()], ids=["groups", "packs"])
def test_a_limit_holds_where_hooks_decide_how_many_batches_there_are(encoder: Raw, dataset: str) -> None:
    buffer = {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    loader = get_loader(
        get_val_dataset(dataset, split_part="train", batch_size=2, limit=4, task_encoder=encoder, **buffer)  # type: ignore[arg-type]
    )

    assert [len(list(loader)), len(list(loader))] == [4, 4]


# Streams whose hooks decide how many batches there are.


FINITE: dict[str, Callable[..., Loader]] = {
    "groups, a training": lambda path, **given: once(path, encoder=Groups(), **given),
    "packs, a training": lambda path, **given: once(path, encoder=Packs(), packing_buffer_size=9, **given),
    "groups, a validation": lambda path, rank=0, world=1, **given: get_loader(
        get_val_dataset(
            path,
            split_part="train",
            batch_size=4,
            task_encoder=Groups(),
            worker_config=WorkerConfig(rank, world),
            **given,
        )
    ),
}


def members(batches: list[Any]) -> list[int]:
    """The numbers of the samples that are in batches, of packs too."""
    found = []
    for batch in batches:
        for i, key in enumerate(batch["__restore_key__"]):
            made_of = batch["members"][i] if "members" in list(batch.keys()) else [key]
            found += [each[2] for each in made_of]
    return sorted(found)


@pytest.mark.parametrize("kind", FINITE)
@pytest.mark.parametrize("world", [1, 2, 3])
def test_packs_and_groups_of_a_pass_have_every_sample_once_over_all_ranks(kind: str, world: int, dataset: str) -> None:
    loaders = [FINITE[kind](dataset, rank=rank, world=world) for rank in range(world)]

    for _ in range(2):
        batches = [batch for loader in loaders for batch in loader]
        assert len(set(members(batches))) == len(members(batches)) == SAMPLES
    with pytest.raises(TypeError, match="the length is unknown"):
        len(loaders[0])


@pytest.mark.parametrize("kind", FINITE)
def test_a_state_of_any_batch_of_such_a_pass_gives_the_rest_of_it_and_the_next_pass(kind: str, dataset: str) -> None:
    whole = FINITE[kind](dataset)
    truth, following = [digest(batch) for batch in whole], [digest(batch) for batch in whole]

    for place in range(len(truth) + 1):
        loader = FINITE[kind](dataset)
        first = [digest(batch) for batch in islice(loader, place)]
        resumed = FINITE[kind](dataset)
        resumed.load_state_dict(through_json(loader.state_dict()))

        if place < len(truth):
            assert first + [digest(batch) for batch in resumed] == truth, f"saved after batch {place}"
        assert [digest(batch) for batch in resumed] == following


@pytest.mark.parametrize("workers", [1, 2])
def test_lanes_that_end_early_end_no_other_one_with_workers(workers: int, dataset: str) -> None:
    options: dict[str, Any] = {"encoder": FewOfTwoLanes(), "shuffle": False, "max_samples_per_sequence": 1}
    alone = once(dataset, **options, batch_size=2)
    with once(dataset, **options, batch_size=2, worker_config=WorkerConfig(num_workers=workers)) as loader:
        for _ in range(2):
            truth = [digest(batch) for batch in alone]
            assert [digest(batch) for batch in loader] == truth


@pytest.mark.parametrize("encoder", [FewOfTwoLanes(), Packs()], ids=["groups", "packs"])
def test_a_pass_is_one_list_of_batches_on_all_ranks_that_divide_its_lanes(
    encoder: Raw, dataset: str, tmp_path: Path
) -> None:
    """Two of its lanes end long before the others, and other ranks may go on from there."""
    options: dict[str, Any] = {"encoder": encoder, "shuffle": False, "max_samples_per_sequence": 1, "batch_size": 2}
    if isinstance(encoder, Packs):
        options["packing_buffer_size"] = 9

    def batches(folder: Path) -> list[Any]:
        return [(batch.number, batch.origins.tolist()) for batch in read_trace(str(folder)).batches(pass_number=0)]

    def ranks(folder: Path, world: int, workers: int = 0) -> list[Loader]:
        configs = [WorkerConfig(rank, world, workers) for rank in range(world)]
        return [once(dataset, trace=folder, worker_config=config, **options) for config in configs]

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
            taken(loader, steps)
            loader.close()
        state = through_json(merge_states([loader.state_dict() for loader in world]))
        for loader in ranks(folder, after):
            with loader:
                loader.load_state_dict(state)
                list(loader)
        return batches(folder)

    truth = order(1, 0)
    assert [order(2, 0), order(4, 0), order(2, 2)] == [truth] * 3
    for worlds in ((4, 2), (4, 1), (2, 4)):
        for steps in (1, 3, 4, 5):
            assert resumed(worlds[0], steps, worlds[1]) == truth, f"{worlds[0]} ranks, {steps} batches each"


# Ranks that have not equally many.


def test_ranks_keep_what_they_have_unless_told_otherwise(dataset: str) -> None:
    loaders = [once(dataset, rank, 2) for rank in range(2)]

    assert [len(list(loader)) for loader in loaders] == [len(loader) for loader in loaders] == [7, 6]


@pytest.mark.parametrize("uneven", ["keep", "pad", "drop"])
def test_one_rank_alone_is_never_uneven(uneven: Any, dataset: str) -> None:
    loader = once(dataset, uneven=uneven)

    assert len(loader) == 13
    padded = [loader.is_padding for _ in loader]

    assert padded == [False] * 13
    assert len(ids(list(loader))) == SAMPLES
