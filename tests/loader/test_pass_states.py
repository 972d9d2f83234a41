"""A pass saved by all ranks at one step resumes on any number of ranks: nothing is lost and nothing repeated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import Packs, json_round_trip, restore_keys, take_batches
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
FACTORIES: dict[str, Callable[..., Any]] = {
    "a training": lambda path, **options: get_train_dataset(path, repeat=False, shuffle_buffer_size=8, **options),
    "a validation": lambda path, **options: get_val_dataset(path, split_part="train", **options),
}


def loaders(path: str, get: str, kind: str, world: int, workers: int = 0, **options: Any) -> list[Loader]:
    options = {"batch_size": 3, "lanes": LANES, **KINDS[kind], **options}
    return [
        get_loader(FACTORIES[get](path, worker_config=WorkerConfig(rank, world, workers), **options))
        for rank in range(world)
    ]


def samples_of(batches: list[Any]) -> list[int]:
    return sorted(key[2] for key in restore_keys(batches))


def samples_of_pass(world: list[Loader]) -> list[int]:
    return samples_of([batch for loader in world for batch in loader])


def close(*worlds: list[Loader]) -> None:
    for world in worlds:
        for loader in world:
            loader.close()


def assert_resumes(
    path: str, get: str, kind: str, worlds: tuple[int, int], place: tuple[int, int], **options: Any
) -> None:
    """Save on `worlds[0]` ranks in pass `place[0]` after `place[1]` batches per rank; resume on `worlds[1]` ranks."""
    before, after = (loaders(path, get, kind, world, **options) for world in worlds)
    for _ in range(place[0]):
        whole = samples_of_pass(before)
        assert len(set(whole)) == len(whole) == SAMPLES
    first = [batch for loader in before for batch in take_batches(loader, place[1])]
    merged = json_round_trip(merge_states([json_round_trip(loader.state_dict()) for loader in before]))
    for loader in after:
        loader.load_state_dict(merged)

    rest = samples_of_pass(after)

    # A single rank that finds nothing left begins the next pass.
    is_over = merged["end"] == "passed" or (len(samples_of(first)) == SAMPLES and rest)
    passes_seen = [rest] if is_over else [sorted(samples_of(first) + rest)]
    passes_seen.append(samples_of_pass(after))
    assert [len(set(each)) == len(each) == SAMPLES for each in passes_seen] == [True, True]
    close(before, after)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(FACTORIES)),
    st.sampled_from(sorted(KINDS)),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(0, 1), st.integers(0, 9)),
)
def test_pass_saved_at_any_step_resumes_on_any_number_of_ranks(
    dataset: str, get: str, kind: str, worlds: tuple[int, int], place: tuple[int, int]
) -> None:
    assert_resumes(dataset, get, kind, worlds, place)


@pytest.mark.parametrize(
    ("kind", "worlds", "saved_at_end"),
    [
        ("runs", (1, 3), False),
        ("groups", (3, 2), False),
        ("packs", (2, 1), True),
        ("packs by length", (1, 3), True),
    ],
)
def test_pass_resumes_on_other_ranks_with_workers(
    kind: str, worlds: tuple[int, int], saved_at_end: bool, dataset: str
) -> None:
    """Kinds and rank counts are combined without workers, above."""
    longest = max(len(list(loader)) for loader in loaders(dataset, "a validation", kind, worlds[0]))
    assert_resumes(dataset, "a validation", kind, worlds, (0, longest if saved_at_end else 1), workers=2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("get", FACTORIES)
def test_uneven_last_step_of_pass_merges_as_one_step(get: str, kind: str, dataset: str) -> None:
    """Ranks stop either because their iterator is exhausted or, with a known length, because the trainer counts."""
    uneven = 0
    for world in (2, 3):
        counts = [len(list(loader)) for loader in loaders(dataset, get, kind, world, batch_size=1)]
        uneven += len(set(counts)) > 1
        for exhausts in (True, False) if kind == "runs" else (True,):
            ranks = loaders(dataset, get, kind, world, batch_size=1)
            first = [
                take_batches(loader, max(counts) if exhausts else count)
                for loader, count in zip(ranks, counts, strict=True)
            ]
            assert [len(batches) for batches in first] == counts

            merged = merge_states([json_round_trip(loader.state_dict()) for loader in ranks])

            assert merged["batches_handed_out"] == max(counts)
            for after in (1, world):
                resumed = loaders(dataset, get, kind, after, batch_size=1)
                for loader in resumed:
                    loader.load_state_dict(merged)
                assert len(samples_of_pass(resumed)) in {0, SAMPLES}
                assert len(samples_of_pass(resumed)) == SAMPLES
    assert uneven


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_all_ended_pass_resume_with_next_pass(kind: str, dataset: str) -> None:
    ranks = loaders(dataset, "a training", kind, 3)
    for loader in ranks:
        list(loader)
    states = [json_round_trip(loader.state_dict()) for loader in ranks]
    expected = [[digest(batch) for batch in loader] for loader in ranks]
    own, listed = (loaders(dataset, "a training", kind, 3) for _ in range(2))
    for rank in range(3):
        own[rank].load_state_dict(states[rank])
        listed[rank].load_state_dict(states)

    assert merge_states(states)["end"] == "passed"
    assert [[digest(batch) for batch in loader] for loader in own] == expected
    assert [[digest(batch) for batch in loader] for loader in listed] == expected


@pytest.mark.parametrize("kind", ["groups", "packs", "packs by length"])
def test_rank_that_ended_early_waits_for_others_when_given_all_states(kind: str, dataset: str) -> None:
    """The three ranks have 2, 1 and 1 lanes."""
    ranks = loaders(dataset, "a validation", kind, 3)
    counts = [len(list(loader)) for loader in loaders(dataset, "a validation", kind, 3)]
    assert max(counts) > min(counts) + 1
    for loader in ranks:
        take_batches(loader, min(counts) + 1)
    states = [json_round_trip(loader.state_dict()) for loader in ranks]
    listed = loaders(dataset, "a validation", kind, 3)
    for loader in listed:
        loader.load_state_dict(states)

    passes = [[len(list(loader)) for loader in listed] for _ in range(2)]

    assert passes == [[max(0, count - min(counts) - 1) for count in counts], counts]


def test_merge_states_refuses_ranks_at_different_steps_of_pass(dataset: str) -> None:
    for kind in KINDS:
        ranks = loaders(dataset, "a training", kind, 2)
        take_batches(ranks[0], 1)
        take_batches(ranks[1], 2)
        with pytest.raises(StateMismatch, match="saved at different steps"):
            merge_states([loader.state_dict() for loader in ranks])


def own_samples(world: list[Loader], count: int) -> list[int]:
    """Return the samples of `count` batches of each rank, without padding batches."""
    return [
        key[2]
        for loader in world
        for batch in islice(loader, count)
        if not loader.is_padding
        for key in restore_keys([batch])
    ]


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["drop", "pad"]),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(0, 1), st.integers(0, 9)),
)
def test_pass_with_uneven_drop_or_pad_resumes_on_other_ranks(
    dataset: str, uneven: str, worlds: tuple[int, int], place: tuple[int, int]
) -> None:
    before, after = (loaders(dataset, "a training", "runs", world, uneven=uneven) for world in worlds)
    for _ in range(place[0]):
        own_samples(before, 99)
    first = own_samples(before, place[1])
    merged = json_round_trip(merge_states([json_round_trip(loader.state_dict()) for loader in before]))
    for loader in after:
        loader.load_state_dict(merged)
    rest = own_samples(after, 99)

    # Less than one batch per rank is dropped, in the last round of the old ranks or of the new ones.
    least = SAMPLES if uneven == "pad" else SAMPLES - 3 * max(worlds) + 1
    all_samples = first + rest
    is_one_pass = len(set(all_samples)) == len(all_samples)
    passes_seen = all_samples if is_one_pass else rest
    assert len(set(passes_seen)) == len(passes_seen) >= least
    assert is_one_pass or len(first) >= least
    assert len(set(own_samples(after, 99))) >= least
