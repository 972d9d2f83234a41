"""A pass that ranks saved at one step, wherever in it, goes on on any ranks: nothing is lost and nothing repeated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import Packs, restore_keys, taken, through_json
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset, merge_states
from wdsctl.loader.packing import Packing

SAMPLES = 41
LANES = 4


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=15, parts=numbered)


class Groups(Raw):
    def batch_group_criterion(self, sample: Any) -> tuple[int, None]:
        return int(sample["__key__"]) % 3, None


class Lengths(Raw):
    """Packs by length that keep the restore keys of their samples."""

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [sample["__restore_key__"] for sample in samples]}


PACKING = Packing(length=lambda sample: 3 + int(sample["__key__"]) % 5, capacity=11, window=8)
KINDS: dict[str, dict[str, Any]] = {
    "runs": {"task_encoder": Raw()},
    "groups": {"task_encoder": Groups()},
    "packs": {"task_encoder": Packs(), "packing_buffer_size": 6},
    "packs by length": {"task_encoder": Lengths(), "packing": PACKING},
}
GETS: dict[str, Callable[..., Any]] = {
    "a training": lambda path, **options: get_train_dataset(path, repeat=False, shuffle_buffer_size=8, **options),
    "a validation": lambda path, **options: get_val_dataset(path, split_part="train", **options),
}


def loaders(path: str, get: str, kind: str, world: int, workers: int = 0, **options: Any) -> list[Loader]:
    options = {"batch_size": 3, "lanes": LANES, **KINDS[kind], **options}
    return [
        get_loader(GETS[get](path, worker_config=WorkerConfig(rank, world, workers), **options))
        for rank in range(world)
    ]


def samples_of(batches: list[Any]) -> list[int]:
    return sorted(key[2] for key in restore_keys(batches))


def whole_pass(world: list[Loader]) -> list[int]:
    return samples_of([batch for loader in world for batch in loader])


def close(*worlds: list[Loader]) -> None:
    for world in worlds:
        for loader in world:
            loader.close()


def assert_goes_on(
    path: str, get: str, kind: str, worlds: tuple[int, int], place: tuple[int, int], **options: Any
) -> None:
    """Saved by `worlds[0]` ranks in pass `place[0]`, when each had been asked for `place[1]` batches of it."""
    before, after = (loaders(path, get, kind, world, **options) for world in worlds)
    for _ in range(place[0]):
        whole = whole_pass(before)
        assert len(set(whole)) == len(whole) == SAMPLES
    first = [batch for loader in before for batch in taken(loader, place[1])]
    merged = through_json(merge_states([through_json(loader.state_dict()) for loader in before]))
    for loader in after:
        loader.load_state_dict(merged)

    rest = whole_pass(after)

    # One rank that finds nothing left begins the next pass.
    is_over = merged["end"] == "passed" or (len(samples_of(first)) == SAMPLES and rest)
    came = [rest] if is_over else [sorted(samples_of(first) + rest)]
    came.append(whole_pass(after))
    assert [len(set(each)) == len(each) == SAMPLES for each in came] == [True, True]
    close(before, after)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(GETS)),
    st.sampled_from(sorted(KINDS)),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(0, 1), st.integers(0, 9)),
)
def test_any_ranks_go_on_with_a_pass_that_any_ranks_saved_at_any_step(
    dataset: str, get: str, kind: str, worlds: tuple[int, int], place: tuple[int, int]
) -> None:
    assert_goes_on(dataset, get, kind, worlds, place)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [(1, 3), (2, 1), (3, 2)])
def test_any_ranks_with_workers_do_so_too(kind: str, worlds: tuple[int, int], dataset: str) -> None:
    longest = max(len(list(loader)) for loader in loaders(dataset, "a validation", kind, worlds[0]))
    for step in (1, longest):
        assert_goes_on(dataset, "a validation", kind, worlds, (0, step), workers=2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("get", GETS)
def test_the_last_uneven_step_of_a_pass_is_one_step(get: str, kind: str, dataset: str) -> None:
    """A rank that has no more was asked for more, or, where it knows how many it has, its trainer counted."""
    uneven = 0
    for world in (2, 3):
        counts = [len(list(loader)) for loader in loaders(dataset, get, kind, world, batch_size=1)]
        uneven += len(set(counts)) > 1
        for asks in (True, False) if kind == "runs" else (True,):
            ranks = loaders(dataset, get, kind, world, batch_size=1)
            first = [taken(loader, max(counts) if asks else count) for loader, count in zip(ranks, counts, strict=True)]
            assert [len(batches) for batches in first] == counts

            merged = merge_states([through_json(loader.state_dict()) for loader in ranks])

            assert merged["batches_handed_out"] == max(counts)
            for after in (1, world):
                resumed = loaders(dataset, get, kind, after, batch_size=1)
                for loader in resumed:
                    loader.load_state_dict(merged)
                assert len(whole_pass(resumed)) in {0, SAMPLES}
                assert len(whole_pass(resumed)) == SAMPLES
    assert uneven


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_all_ended_a_pass_begin_the_next_one_together(kind: str, dataset: str) -> None:
    ranks = loaders(dataset, "a training", kind, 3)
    for loader in ranks:
        list(loader)
    states = [through_json(loader.state_dict()) for loader in ranks]
    truth = [[digest(batch) for batch in loader] for loader in ranks]
    own, listed = (loaders(dataset, "a training", kind, 3) for _ in range(2))
    for rank in range(3):
        own[rank].load_state_dict(states[rank])
        listed[rank].load_state_dict(states)

    assert merge_states(states)["end"] == "passed"
    assert [[digest(batch) for batch in loader] for loader in own] == truth
    assert [[digest(batch) for batch in loader] for loader in listed] == truth


@pytest.mark.parametrize("kind", ["groups", "packs", "packs by length"])
def test_a_rank_that_ended_before_others_waits_for_them_where_it_knows_of_them(kind: str, dataset: str) -> None:
    """Lanes are dealt to three ranks as 2, 1 and 1."""
    ranks = loaders(dataset, "a validation", kind, 3)
    counts = [len(list(loader)) for loader in loaders(dataset, "a validation", kind, 3)]
    assert max(counts) > min(counts) + 1
    for loader in ranks:
        taken(loader, min(counts) + 1)
    states = [through_json(loader.state_dict()) for loader in ranks]
    listed = loaders(dataset, "a validation", kind, 3)
    for loader in listed:
        loader.load_state_dict(states)

    passes = [[len(list(loader)) for loader in listed] for _ in range(2)]

    assert passes == [[max(0, count - min(counts) - 1) for count in counts], counts]


def test_ranks_of_one_pass_that_are_at_other_steps_are_refused(dataset: str) -> None:
    for kind in KINDS:
        ranks = loaders(dataset, "a training", kind, 2)
        taken(ranks[0], 1)
        taken(ranks[1], 2)
        with pytest.raises(StateMismatch, match="saved at different steps"):
            merge_states([loader.state_dict() for loader in ranks])


def own_samples(world: list[Loader], count: int) -> list[int]:
    """Of so many batches of each rank, without those that only even out the ranks."""
    return [
        key[2]
        for loader in world
        for batch in islice(loader, count)
        if not loader.is_padding
        for key in restore_keys([batch])
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["drop", "pad"]),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(0, 1), st.integers(0, 9)),
)
def test_a_pass_that_is_evened_out_goes_on_too_without_what_only_even_ranks_drop(
    dataset: str, uneven: str, worlds: tuple[int, int], place: tuple[int, int]
) -> None:
    before, after = (loaders(dataset, "a training", "runs", world, uneven=uneven) for world in worlds)
    for _ in range(place[0]):
        own_samples(before, 99)
    first = own_samples(before, place[1])
    merged = through_json(merge_states([through_json(loader.state_dict()) for loader in before]))
    for loader in after:
        loader.load_state_dict(merged)
    rest = own_samples(after, 99)

    # What is left out is less than a batch of each rank, in the last round of the old ranks or of the new ones.
    least = SAMPLES if uneven == "pad" else SAMPLES - 3 * max(worlds) + 1
    together = first + rest
    is_one_pass = len(set(together)) == len(together)
    came = together if is_one_pass else rest
    assert len(set(came)) == len(came) >= least
    assert is_one_pass or len(first) >= least
    assert len(set(own_samples(after, 99))) >= least
