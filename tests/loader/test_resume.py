"""Saved anywhere, resumed anywhere: the rest of the stream is the rest of the undisturbed run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.contracts.savable import shape_of
from tests.loader.datasets import Raw, a_dataset, at_place, digest, numbered
from tests.loader.running import ids, rounds, taken, through_json, training_of
from wdsctl.loader import Loader, SkipSample, merge_states

SAMPLES, BATCH, WINDOW = 240, 7, 8
EPOCHS = 2
STEPS = EPOCHS * SAMPLES // BATCH + 12  # into the third pass


class Hooked(Raw):
    """Hooks that skip, repeat and draw: whatever a state could forget shows in what comes after it."""

    def encode_sample(self, sample: Any) -> Any:
        number = int(sample["__key__"])
        if number % 11 == 3:
            raise SkipSample
        for copy in range(number % 3):
            yield {**sample, "copy": copy, "noise": torch.rand(2)}

    def encode_batch(self, batch: Any) -> Any:
        batch["level"] = torch.rand(1)
        return batch


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=50, parts=numbered)


@pytest.fixture
def dataset(whole: str) -> str:
    return at_place(whole)


def loader_of(path: str, rank: int = 0, world: int = 1, encoder: Any = None, **options: Any) -> Loader:
    return training_of(path, rank, world, encoder, **{"batch_size": BATCH, "max_samples_per_sequence": 4, **options})


def assert_crossed_windows_shards_and_epochs(batches: list[Any], state: Any) -> None:
    keys = [key[1:3] for key in ids(batches)]
    assert {epoch for epoch, _ in keys} >= set(range(EPOCHS + 1)), "must cross epochs"
    assert len({number >> 28 for _, number in keys}) == 5, "must cross shards"
    assert all(cursor["draws"] > 2 * WINDOW for cursor in state["cursors"].values()), "every lane must cross windows"


@pytest.mark.parametrize("encoder", [Raw(), Hooked()], ids=["bytes", "hooks that skip, repeat and draw"])
def test_a_state_of_any_batch_gives_all_the_batches_after_it(dataset: str, encoder: Any) -> None:
    loader = loader_of(dataset, encoder=encoder)
    states, truth, batches = [], [], []
    for batch in islice(loader, STEPS):
        batches.append(batch)
        truth.append(digest(batch))
        states.append(through_json(loader.state_dict()))
    assert_crossed_windows_shards_and_epochs(batches, states[-1])

    for step, state in enumerate(states[:-1], 1):
        resumed = loader_of(dataset, encoder=encoder)
        resumed.load_state_dict(state)
        assert [digest(batch) for batch in taken(resumed, STEPS - step)] == truth[step:], f"saved after batch {step}"


def test_a_state_is_known_at_once_after_a_restore_and_before_the_first_batch(dataset: str) -> None:
    loader = loader_of(dataset)
    fresh = through_json(loader.save_state_rank())
    truth = [digest(batch) for batch in taken(loader, 20)]
    state = through_json(loader.save_state_rank())

    for saved, expected in ((fresh, truth[:5]), (state, None)):
        resumed = loader_of(dataset)
        resumed.restore_state_rank(saved)
        assert through_json(resumed.save_state_rank()) == saved
        again = loader_of(dataset)
        again.restore_state_rank(resumed.save_state_rank())
        first = [digest(batch) for batch in taken(again, 5)]
        assert first == (expected or [digest(batch) for batch in taken(loader, 5)])


def test_a_state_has_the_same_keys_and_types_at_every_batch_and_stays_small(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Hooked())
    shapes, sizes = set(), set()
    for _ in islice(loader, STEPS):
        state = loader.state_dict()
        shapes.add(json.dumps(shape_of(state)))
        sizes.add(len(json.dumps(state)))

    assert len(shapes) == 1
    assert max(sizes) <= 1024 + 256 * 8


def test_a_loader_that_is_running_can_be_sent_back(dataset: str) -> None:
    loader = loader_of(dataset)
    taken(loader, 3)
    state = loader.state_dict()
    truth = [digest(batch) for batch in taken(loader, 10)]

    loader.load_state_dict(state)

    assert [digest(batch) for batch in taken(loader, 10)] == truth


def test_breaking_out_of_a_loop_loses_nothing(dataset: str) -> None:
    truth = [digest(batch) for batch in taken(loader_of(dataset), 12)]
    loader = loader_of(dataset)

    pieces = [digest(batch) for _ in range(4) for batch in taken(loader, 3)]

    assert pieces == truth


@pytest.mark.parametrize("place", [1, 8, 33, 34, 60, STEPS - 2])
def test_a_fresh_process_goes_on_with_the_very_next_batch(dataset: str, place: int, tmp_path: Path) -> None:
    loader = loader_of(dataset, encoder=Raw())
    taken(loader, place)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()), encoding="utf-8")
    truth = [digest(batch) for batch in taken(loader, 10)]

    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "tests.loader.resume_process", dataset, str(tmp_path / "state.json"), "10"]
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=environment)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == truth


def world_of(path: str, ranks: int, state: Any = None, **options: Any) -> list[Loader]:
    loaders = [loader_of(path, rank, ranks, **options) for rank in range(ranks)]
    for loader in loaders:
        loader.restore_state_rank(state)
    return loaders


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("place", [0, 5, 8, 37])
def test_one_rank_becomes_several_and_the_global_batches_stay(dataset: str, ranks: int, place: int) -> None:
    loader = loader_of(dataset, encoder=Hooked())
    taken(loader, place)
    state = through_json(merge_states([loader.state_dict()]))
    truth = [digest(batch) for batch in taken(loader, 6 * ranks)]

    world = world_of(dataset, ranks, state, encoder=Hooked())

    assert [digest(batch) for batch in rounds(world, 6)] == truth


@pytest.mark.parametrize(("before", "after"), [(2, 1), (4, 2), (2, 4), (8, 4)])
def test_ranks_may_change_where_they_divide_the_lanes(dataset: str, before: int, after: int) -> None:
    world = world_of(dataset, before, lanes=8)
    rounds(world, 16 // before + 3)
    states = through_json([loader.state_dict() for loader in world])
    truth = [digest(batch) for batch in rounds(world, 24 // before)]

    resumed = world_of(dataset, after, states, lanes=8)

    assert [digest(batch) for batch in rounds(resumed, 24 // after)] == truth


@pytest.mark.parametrize("place", [0, 3, 8, 30])
def test_one_rank_becomes_three_and_nothing_comes_twice_or_is_missed(dataset: str, place: int) -> None:
    loader = loader_of(dataset)
    before = taken(loader, place)
    world = world_of(dataset, 3, through_json(merge_states([loader.state_dict()])))

    after = rounds(world, 60)
    batches = before + after

    counts = Counter(ids(batches))
    assert set(counts.values()) == {1}, "a sample came twice in one pass"
    lanes = [through_json(each.state_dict()) for each in world]
    assert sum(len(state["cursors"]) for state in lanes) == 24
    seen = Counter(epoch for _, epoch, _ in counts)
    assert [seen[epoch] for epoch in range(EPOCHS)] == [SAMPLES] * EPOCHS, "a sample was missed"


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("after", [1, 2, 4, 6])
def test_three_ranks_become_others_and_the_global_batches_stay(dataset: str, after: int) -> None:
    loader = loader_of(dataset)
    taken(loader, 10)
    world = world_of(dataset, 3, through_json(merge_states([loader.state_dict()])))
    rounds(world, 8)
    states = through_json([each.state_dict() for each in world])
    truth = [digest(batch) for batch in rounds(world, 24 // 3)]

    resumed = world_of(dataset, after, states)

    assert [digest(batch) for batch in rounds(resumed, 24 // after)] == truth


def test_what_a_hook_draws_depends_on_the_sample_and_the_pass_alone(dataset: str) -> None:
    def noise(world: list[Loader]) -> dict[tuple[Any, ...], list[float]]:
        batches = rounds(world, 40 // len(world))
        return {
            (key, copy): drawn.tolist()
            for batch in batches
            for key, copy, drawn in zip(batch["__restore_key__"], batch["copy"], batch["noise"], strict=True)
        }

    one = noise(world_of(dataset, 1, encoder=Hooked(), lanes=8))
    four = noise(world_of(dataset, 4, encoder=Hooked(), lanes=8))

    assert one == four
    assert len({tuple(drawn) for drawn in one.values()}) == len(one)


@pytest.mark.parametrize(("samples", "lanes"), [(n, lanes) for n in (1, 7, 500, 20_000) for lanes in (1, 8, 64)])
def test_every_sample_comes_once_an_epoch(samples: int, lanes: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.getbasetemp() / f"once-{samples}"
    if not root.exists():
        a_dataset(root, samples, shard_samples=max(1, samples // 4), parts=lambda i: {"txt": str(i).encode()})
    loader = loader_of(str(root), batch_size=None, shuffle_buffer_size=1000, lanes=lanes)

    keys = [sample["__restore_key__"] for sample in taken(loader, 3 * samples + 4 * lanes * 16)]

    counts = Counter(keys)
    assert set(counts.values()) == {1}
    passes = Counter(epoch for _, epoch, _ in counts)
    assert passes[0] == passes[1] == samples
