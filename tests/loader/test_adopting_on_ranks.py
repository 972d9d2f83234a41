"""Grown data on ranks, lanes and workers: all adopt it at one slot and yield the batches of a single process."""

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
    resume_loader,
    whole_epochs,
)
from tests.loader.running import Packs, digests, restore_keys, save_state_after, take_batches, take_rounds
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import WorkerConfig, merge_states


@pytest.mark.parametrize("encoder", [Raw(), Skips()], ids=["plain", "skips"])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 4), (4, 1)])
def test_adoption_on_ranks_that_divide_lanes_keeps_global_batches(
    before: int, after: int, encoder: Raw, tmp_path: Path
) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    world = [loader_of(root, rank, before, encoder=encoder) for rank in range(before)]
    take_rounds(world, 8 // before)
    state = merge_states([loader.state_dict() for loader in world])
    grow(root)

    expected = [digest(batch) for batch in take_rounds([resume_loader(root, state, encoder=encoder)], 40)]
    actual = take_rounds(
        [resume_loader(root, state, rank, after, encoder=encoder) for rank in range(after)], 40 // after
    )

    assert [digest(batch) for batch in actual] == expected


@pytest.mark.parametrize("encoder", [Raw(), Packs()], ids=["plain", "packs"])
def test_adoption_between_lane_splits_covers_every_sample_once(encoder: Raw, tmp_path: Path) -> None:
    options: dict[str, Any] = {"encoder": encoder}
    options |= {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root, **options)
    batches = take_batches(loader, 3)
    three = [resume_loader(root, merge_states([loader.state_dict()]), rank, 3, **options) for rank in range(3)]
    batches += take_rounds(three, 2)
    grow(root)
    state = merge_states([each.state_dict() for each in three])
    two = [resume_loader(root, state, rank, 2, **options) for rank in range(2)]
    batches += take_rounds(two, 3)
    state = merge_states([each.state_dict() for each in two])
    five = [resume_loader(root, state, rank, 5, **options) for rank in range(5)]
    batches += take_rounds(five, 3)
    states = [each.state_dict() for each in five]

    rest = take_rounds(five, 100)

    # Child lanes without an open window are ahead of those with one.
    old, new = whole_epochs(restore_keys(batches + rest), 0, SAMPLES, SAMPLES + NEW, under_way=20)
    assert old > 0
    assert new > 2
    reloaded = [resume_loader(root, states, rank, 5, **options) for rank in range(5)]
    assert [digest(batch) for batch in take_rounds(reloaded, 30)] == [digest(batch) for batch in rest[:150]]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_adopt_growth_like_single_process(method: Any, tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(root), 5)
    grow(root)
    expected = digests(resume_loader(root, state), 40)

    workers = WorkerConfig(num_workers=2, start_method=method)
    with resume_loader(root, state, worker_config=workers) as loader:
        batches = take_batches(loader, 40)
    assert [digest(batch) for batch in batches] == expected
    keys = {info.index for batch in batches for info in batch["__sources__"]}
    assert len(keys) == SAMPLES + NEW, "rows of the catalog of now"


def test_adoption_requires_states_of_all_ranks(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    world = [loader_of(root, rank, 2) for rank in range(2)]
    take_rounds(world, 3)
    states = [loader.state_dict() for loader in world]
    resume_loader(root, states[0], 0, 2)  # nothing has grown yet
    grow(root)

    with pytest.raises(StateMismatch, match="the states of all ranks") as raised:
        resume_loader(root, states[0], 0, 2)

    assert "merge_states" in raised.value.hint
    resume_loader(root, states, 0, 2)
