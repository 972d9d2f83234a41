"""A state saved anywhere and resumed anywhere continues with the batches of the uninterrupted run."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import children
from tests.contracts.savable import shape_of
from tests.loader.datasets import Raw, a_dataset, at_place, digest, numbered
from tests.loader.running import ids, json_round_trip, make_training_loader, take_batches, take_rounds
from wdsctl.loader import Loader, Packing, SkipSample, merge_states

SAMPLES, BATCH, WINDOW = 240, 7, 8
EPOCHS = 2
STEPS = EPOCHS * SAMPLES // BATCH + 12  # into the third pass


class Hooked(Raw):
    """Hooks that skip, repeat and draw random numbers, so that anything missing from a state changes later batches."""

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
    return make_training_loader(
        path, rank, world, encoder, **{"batch_size": BATCH, "max_samples_per_sequence": 4, **options}
    )


def assert_crossed_windows_shards_and_epochs(batches: list[Any], state: Any) -> None:
    keys = [key[1:3] for key in ids(batches)]
    assert {epoch for epoch, _ in keys} >= set(range(EPOCHS + 1)), "must cross epochs"
    assert len({number >> 28 for _, number in keys}) == 5, "must cross shards"
    assert all(cursor["draws"] > 2 * WINDOW for cursor in state["cursors"].values()), "every lane must cross windows"


@pytest.mark.parametrize("encoder", [Raw(), Hooked()], ids=["bytes", "hooks that skip, repeat and draw"])
def test_state_saved_after_any_batch_resumes_exactly(dataset: str, encoder: Any) -> None:
    loader = loader_of(dataset, encoder=encoder)
    states, truth, batches = [], [], []
    for batch in islice(loader, STEPS):
        batches.append(batch)
        truth.append(digest(batch))
        states.append(json_round_trip(loader.state_dict()))
    assert_crossed_windows_shards_and_epochs(batches, states[-1])

    for step, state in enumerate(states[:-1], 1):
        resumed = loader_of(dataset, encoder=encoder)
        resumed.load_state_dict(state)
        last = min(step + 16, STEPS)  # then in the same state as the uninterrupted run: the rest is the same, too
        assert [digest(batch) for batch in take_batches(resumed, last - step)] == truth[step:last], (
            f"saved after batch {step}"
        )
        assert json_round_trip(resumed.state_dict()) == states[last - 1], f"saved after batch {step}"


def test_state_saved_before_first_batch_equals_restored_state(dataset: str) -> None:
    loader = loader_of(dataset)
    fresh = json_round_trip(loader.save_state_rank())
    truth = [digest(batch) for batch in take_batches(loader, 20)]
    state = json_round_trip(loader.save_state_rank())

    for saved, expected in ((fresh, truth[:5]), (state, None)):
        resumed = loader_of(dataset)
        resumed.restore_state_rank(saved)
        assert json_round_trip(resumed.save_state_rank()) == saved
        again = loader_of(dataset)
        again.restore_state_rank(resumed.save_state_rank())
        first = [digest(batch) for batch in take_batches(again, 5)]
        assert first == (expected or [digest(batch) for batch in take_batches(loader, 5)])


def test_states_have_constant_structure_and_stay_small(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Hooked())
    shapes, sizes = set(), set()
    for _ in islice(loader, STEPS):
        state = loader.state_dict()
        shapes.add(json.dumps(shape_of(state)))
        sizes.add(len(json.dumps(state)))

    assert len(shapes) == 1
    assert max(sizes) <= 1024 + 256 * 8


def test_running_loader_rewinds_to_loaded_state(dataset: str) -> None:
    loader = loader_of(dataset)
    take_batches(loader, 3)
    state = loader.state_dict()
    truth = [digest(batch) for batch in take_batches(loader, 10)]

    loader.load_state_dict(state)

    assert [digest(batch) for batch in take_batches(loader, 10)] == truth


def test_breaking_out_of_loop_loses_no_batches(dataset: str) -> None:
    truth = [digest(batch) for batch in take_batches(loader_of(dataset), 12)]
    loader = loader_of(dataset)

    pieces = [digest(batch) for _ in range(4) for batch in take_batches(loader, 3)]

    assert pieces == truth


@pytest.mark.parametrize("place", [1, 8, 33, 34, 60, STEPS - 2])
def test_new_process_resumes_with_next_batch(dataset: str, place: int, tmp_path: Path) -> None:
    loader = loader_of(dataset, encoder=Raw())
    take_batches(loader, place)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()), encoding="utf-8")
    truth = [digest(batch) for batch in take_batches(loader, 10)]

    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "tests.loader.resume_process", dataset, str(tmp_path / "state.json"), "10"]
    environment = {**os.environ, "PYTHONPATH": root}
    result = children.run(
        command, capture_output=True, text=True, check=False, cwd=root, env=environment, parent="training"
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == truth


def world_of(path: str, ranks: int, state: Any = None, **options: Any) -> list[Loader]:
    loaders = [loader_of(path, rank, ranks, **options) for rank in range(ranks)]
    for loader in loaders:
        loader.restore_state_rank(state)
    return loaders


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("place", [0, 5, 8, 37])
def test_resume_from_one_rank_on_several_keeps_global_batches(dataset: str, ranks: int, place: int) -> None:
    loader = loader_of(dataset, encoder=Hooked())
    take_batches(loader, place)
    state = json_round_trip(merge_states([loader.state_dict()]))
    truth = [digest(batch) for batch in take_batches(loader, 6 * ranks)]

    world = world_of(dataset, ranks, state, encoder=Hooked())

    assert [digest(batch) for batch in take_rounds(world, 6)] == truth


@pytest.mark.parametrize(("before", "after"), [(2, 1), (4, 2), (2, 4), (8, 4)])
def test_resume_keeps_global_batches_when_rank_counts_divide_lanes(dataset: str, before: int, after: int) -> None:
    world = world_of(dataset, before, lanes=8)
    take_rounds(world, 16 // before + 3)
    states = json_round_trip([loader.state_dict() for loader in world])
    truth = [digest(batch) for batch in take_rounds(world, 24 // before)]

    resumed = world_of(dataset, after, states, lanes=8)

    assert [digest(batch) for batch in take_rounds(resumed, 24 // after)] == truth


@pytest.mark.parametrize("place", [0, 3, 8, 30])
def test_resume_with_lane_split_neither_repeats_nor_loses_samples(dataset: str, place: int) -> None:
    loader = loader_of(dataset)
    before = take_batches(loader, place)
    world = world_of(dataset, 3, json_round_trip(merge_states([loader.state_dict()])))

    after = take_rounds(world, 60)
    batches = before + after

    counts = Counter(ids(batches))
    assert set(counts.values()) == {1}, "a sample came twice in one pass"
    lanes = [json_round_trip(each.state_dict()) for each in world]
    assert sum(len(state["cursors"]) for state in lanes) == 24
    seen = Counter(epoch for _, epoch, _ in counts)
    assert [seen[epoch] for epoch in range(EPOCHS)] == [SAMPLES] * EPOCHS, "a sample was missed"


@pytest.mark.usefixtures("place")
def test_resume_after_lane_split_keeps_global_batches_on_other_ranks(place: str, dataset: str) -> None:
    loader = loader_of(dataset)
    take_batches(loader, 10)
    world = world_of(dataset, 3, json_round_trip(merge_states([loader.state_dict()])))
    take_rounds(world, 8)
    states = json_round_trip([each.state_dict() for each in world])
    truth = [digest(batch) for batch in take_rounds(world, 24 // 3)]

    for after in (1, 2, 4, 6) if place == "local" else (2,):
        resumed = world_of(dataset, after, states)

        assert [digest(batch) for batch in take_rounds(resumed, 24 // after)] == truth, f"{after} ranks"


def test_random_numbers_of_hooks_are_independent_of_rank_count(dataset: str) -> None:
    def noise(world: list[Loader]) -> dict[tuple[Any, ...], list[float]]:
        batches = take_rounds(world, 40 // len(world))
        return {
            (key, copy): drawn.tolist()
            for batch in batches
            for key, copy, drawn in zip(batch["__restore_key__"], batch["copy"], batch["noise"], strict=True)
        }

    one = noise(world_of(dataset, 1, encoder=Hooked(), lanes=8))
    four = noise(world_of(dataset, 4, encoder=Hooked(), lanes=8))

    assert one == four
    assert len({tuple(drawn) for drawn in one.values()}) == len(one)


@pytest.mark.parametrize(("samples", "lanes"), [(n, lanes) for n in (1, 7, 100, 2000) for lanes in (1, 8, 64)])
def test_every_sample_is_read_once_per_epoch(
    samples: int, lanes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / f"once-{samples}"
    if not root.exists():
        a_dataset(root, samples, shard_samples=max(1, samples // 4), parts=lambda i: {"txt": str(i).encode()})
    loader = loader_of(str(root), batch_size=None, shuffle_buffer_size=100, lanes=lanes)

    keys = [sample["__restore_key__"] for sample in take_batches(loader, 3 * samples + 4 * lanes * 16)]

    counts = Counter(keys)
    assert set(counts.values()) == {1}
    passes = Counter(epoch for _, epoch, _ in counts)
    assert passes[0] == passes[1] == samples


class PacksAndSkips(Raw):
    """Packs by a function, so that a resumed window is read again. Skips and fails on some samples."""

    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"]) % 3 == 0:
            raise SkipSample("a third")
        if int(sample["__key__"]) % 7 == 0:
            raise ValueError("a seventh")
        return sample

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {"__key__": "+".join(sample["__key__"] for sample in samples)}


@pytest.mark.parametrize("steps", [3, 8])
def test_stats_of_saved_and_resumed_run_of_packs_add_up(steps: int, dataset: str) -> None:
    packing = Packing(length=lambda _: 1, capacity=3, window=16)

    def counts(loader: Loader) -> Counter[str]:
        stats = loader.stats
        facts = {"batches": stats.batches, "skipped": stats.skipped, "failed": stats.failed, "packed": stats.packed}
        return Counter({**facts, **stats.skip_reasons, **stats.causes})

    whole, saved, resumed = (
        loader_of(dataset, encoder=PacksAndSkips(), packing=packing, batch_size=2, lanes=1) for _ in range(3)
    )
    take_batches(whole, 20)
    take_batches(saved, steps)
    resumed.load_state_dict(saved.state_dict())
    take_batches(resumed, 20 - steps)

    assert counts(saved) + counts(resumed) == counts(whole)
    assert counts(whole)["a third"] > 10


class Grouped(Raw):
    def batch_group_criterion(self, sample: Any) -> tuple[int, int]:
        return int(sample["__key__"]) % 5, 4


def test_resume_with_another_limit_of_waiting_samples_warns(dataset: str) -> None:
    saved = loader_of(dataset, encoder=Grouped(), most_waiting=6)
    take_batches(saved, 3)
    state = saved.state_dict()

    loader_of(dataset, encoder=Grouped(), most_waiting=6).load_state_dict(state)
    for other in ({"most_waiting": 7}, {}):
        with pytest.warns(UserWarning, match="most_waiting or batch size"):
            loader_of(dataset, encoder=Grouped(), **other).load_state_dict(state)
    loader_of(dataset, most_waiting=6).load_state_dict(loader_of(dataset).state_dict())
