"""Grown data on ranks, lanes and workers: all go over at one slot, and make the batches that one alone makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest
from tests.loader.growing import (
    NEW,
    SAMPLES,
    Skips,
    grow,
    loader_of,
    resumed,
    whole_epochs,
)
from tests.loader.running import Packs, digests, restore_keys, rounds, saved_after, taken
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import WorkerConfig, merge_states


@pytest.mark.parametrize("encoder", [Raw(), Skips()], ids=["plain", "skips"])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 4), (4, 1)])
def test_ranks_that_divide_the_lanes_go_over_with_the_same_global_batches(
    before: int, after: int, encoder: Raw, tmp_path: Path
) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    world = [loader_of(root, rank, before, encoder=encoder) for rank in range(before)]
    rounds(world, 8 // before)
    state = merge_states([loader.state_dict() for loader in world])
    grow(root)

    truth = [digest(batch) for batch in rounds([resumed(root, state, encoder=encoder)], 40)]
    found = rounds([resumed(root, state, rank, after, encoder=encoder) for rank in range(after)], 40 // after)

    assert [digest(batch) for batch in found] == truth


@pytest.mark.parametrize("encoder", [Raw(), Packs()], ids=["plain", "packs"])
def test_lanes_that_split_before_and_after_repeat_nothing_and_miss_nothing(encoder: Raw, tmp_path: Path) -> None:
    options: dict[str, Any] = {"encoder": encoder}
    options |= {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root, **options)
    batches = taken(loader, 3)
    three = [resumed(root, merge_states([loader.state_dict()]), rank, 3, **options) for rank in range(3)]
    batches += rounds(three, 2)
    grow(root)
    state = merge_states([each.state_dict() for each in three])
    two = [resumed(root, state, rank, 2, **options) for rank in range(2)]
    batches += rounds(two, 3)
    state = merge_states([each.state_dict() for each in two])
    five = [resumed(root, state, rank, 5, **options) for rank in range(5)]
    batches += rounds(five, 3)
    states = [each.state_dict() for each in five]

    rest = rounds(five, 200)

    # Children that took over no open window are ahead of those that did.
    old, new = whole_epochs(restore_keys(batches + rest), 0, SAMPLES, SAMPLES + NEW, under_way=20)
    assert old > 0
    assert new > 2
    again = [resumed(root, states, rank, 5, **options) for rank in range(5)]
    assert [digest(batch) for batch in rounds(again, 200)] == [digest(batch) for batch in rest]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_go_over_as_the_process_does(method: Any, tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = saved_after(loader_of(root), 5)
    grow(root)
    truth = digests(resumed(root, state), 40)

    workers = WorkerConfig(num_workers=2, start_method=method)
    with resumed(root, state, worker_config=workers) as loader:
        batches = taken(loader, 40)
    assert [digest(batch) for batch in batches] == truth
    keys = {info.index for batch in batches for info in batch["__sources__"]}
    assert len(keys) == SAMPLES + NEW, "rows of the catalog of now"


def test_a_rank_alone_does_not_know_where_all_go_over(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    world = [loader_of(root, rank, 2) for rank in range(2)]
    rounds(world, 3)
    states = [loader.state_dict() for loader in world]
    resumed(root, states[0], 0, 2)  # nothing has grown yet
    grow(root)

    with pytest.raises(StateMismatch, match="the states of all ranks") as raised:
        resumed(root, states[0], 0, 2)

    assert "merge_states" in raised.value.hint
    resumed(root, states, 0, 2)
