"""All features at once, saved anywhere and resumed on any ranks and workers: the stream continues unchanged."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.mixed import SIZES, a_blend, everything
from wdsctl.core.blend import Blender
from wdsctl.loader import Loader, SkipSample, WorkerConfig, get_loader, get_train_dataset, merge_states

STEPS = 600  # global batches of the uninterrupted run: into the third epoch of the smallest dataset at least
SHAPES = [(1, 0), (1, 2), (2, 1), (4, 2)]  # ranks and workers


@pytest.fixture(scope="module")
def blend(tmp_path_factory: pytest.TempPathFactory) -> Blender:
    return a_blend(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def truth(blend: Blender) -> list[str]:
    """The global batches of an uninterrupted run on one rank without workers."""
    batches, state, _ = run(blend, 1, 0, STEPS)
    assert_crossed_everything(batches, state)
    return [content(batch) for batch in batches]


def content(batch: Any) -> str:
    """Return everything in a batch that can be compared, tensors to the last bit."""
    fields = {name: value for name, value in batch.items() if name != "__sources__"}
    return repr([(name, _plain(value)) for name, value in sorted(fields.items())])


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value


def run(blend: Any, ranks: int, workers: int, steps: int, state: Any = None) -> tuple[list[Any], Any, list[Loader]]:
    """Return `steps` batches of each rank in global order, and the merged state after them, through JSON."""
    loaders = [get_loader(everything(blend, rank, ranks, workers)) for rank in range(ranks)]
    for loader in loaders:
        loader.restore_state_rank(state)
    batches = []
    for _ in range(steps):
        batches += [next(iter(loader)) for loader in loaders]
    merged = json.loads(json.dumps(merge_states([loader.state_dict() for loader in loaders])))
    for loader in loaders:
        loader.close()
    return batches, merged, loaders


def assert_crossed_everything(batches: list[Any], state: Any) -> None:
    origins = [key for batch in batches for pack in batch["__restore_key__"] for key in pack[2:]]
    passes = {source: {number for each, number, *_ in origins if each == source} for source in range(len(SIZES))}
    assert all(len(found) > 2 for found in passes.values()), "must cross epochs of every dataset"
    assert len({number >> 28 for source, _, number, *_ in origins if source == 0}) == 5, "must cross shards"
    streams = [cursor["stream"]["upstream"] for cursor in state["cursors"].values()]
    assert any(stream["waiting"] for stream in streams), "something must wait in groups"
    assert any(stream["upstream"]["packs"] for stream in streams), "some must stand within a packing buffer"
    assert any(cursor["stream"]["emitted"] for cursor in state["cursors"].values()), (
        "some must stand within a generator"
    )
    assert all(cursor["draws"] > 8 * 8 for cursor in state["cursors"].values()), "every lane must cross windows"


@pytest.mark.parametrize(("ranks", "steps"), [(1, 0), (2, 1), (4, 7), (1, 23), (2, 23), (4, 60)])
def test_ranks_that_divide_lanes_see_same_global_batches(
    blend: Blender, truth: list[str], ranks: int, steps: int
) -> None:
    head, state, _ = run(blend, ranks, 0, steps)
    assert [content(batch) for batch in head] == truth[: len(head)]
    for others in (1, 4, 8):
        tail, _, _ = run(blend, others, 0, 96 // others, state)
        assert [content(batch) for batch in tail] == truth[len(head) : len(head) + 96]


@pytest.mark.parametrize(("ranks", "workers"), SHAPES)
def test_batches_are_independent_of_worker_count(blend: Blender, truth: list[str], ranks: int, workers: int) -> None:
    head, state, _ = run(blend, ranks, workers, 17)
    assert [content(batch) for batch in head] == truth[: len(head)]
    tail, _, _ = run(blend, 1, 2, 40, state)
    assert [content(batch) for batch in tail] == truth[len(head) : len(head) + 40]


@pytest.mark.slow
@pytest.mark.parametrize("before", SHAPES)
@pytest.mark.parametrize("after", SHAPES)
def test_states_resume_exactly_across_rank_and_worker_counts(
    blend: Blender, truth: list[str], before: tuple[int, int], after: tuple[int, int]
) -> None:
    for steps in (3, 14, 29):
        head, state, _ = run(blend, *before, steps)
        tail, _, _ = run(blend, *after, 64 // after[0], state)
        assert [content(batch) for batch in tail] == truth[len(head) : len(head) + 64]


class SkipsAndRepeats(Raw):
    """Hooks that skip and repeat samples; the restore key of each output names its sample and pass."""

    def encode_sample(self, sample: Any) -> Any:
        number = int(sample["__key__"])
        if number % 31 == 7:
            raise SkipSample
        for copy in range(1 + (number % 9 == 0)):
            yield {**sample, "copy": copy}


def counting_loader(path: Any, rank: int, ranks: int) -> Loader:
    return get_loader(
        get_train_dataset(
            path,
            batch_size=3,
            shuffle_buffer_size=8,
            max_samples_per_sequence=3,
            lanes=8,
            task_encoder=SkipsAndRepeats(),
            worker_config=WorkerConfig(rank, ranks),
        )
    )


def count_outputs(loaders: list[Loader], steps: int) -> Counter[tuple[Any, ...]]:
    """Count the outputs of each sample by (source, pass, id, step)."""
    batches = [next(iter(loader)) for _ in range(steps) for loader in loaders]
    return Counter(tuple(key) for batch in batches for key in batch["__restore_key__"])


@pytest.mark.parametrize(("steps", "is_blend"), [(1, True), (4, False), (9, True)])
def test_lane_split_neither_repeats_nor_loses_samples(
    blend: Blender, tmp_path: Path, steps: int, is_blend: bool
) -> None:
    path: Any = blend if is_blend else a_dataset(tmp_path, 240, shard_samples=50, parts=numbered)
    seen: Counter[tuple[Any, ...]] = Counter()
    state: Any = None
    for ranks in (8, 6, 12, 1):
        loaders = [counting_loader(path, rank, ranks) for rank in range(ranks)]
        for loader in loaders:
            loader.restore_state_rank(state)
        seen += count_outputs(loaders, steps if ranks > 1 else 700)
        state = json.loads(json.dumps(merge_states([loader.state_dict() for loader in loaders])))
    assert state["lanes"] == 24
    assert max(seen.values()) == 1, "nothing comes twice"
    sizes = dict(enumerate(SIZES)) if is_blend else {0: 240}
    for source, size in sizes.items():
        kept = [number for number in range(size) if number % 31 != 7]
        outputs = len(kept) + sum(number % 9 == 0 for number in kept)
        passes = Counter(number for each, number, *_ in seen if each == source)
        assert passes[0] == passes[1] == outputs, "nothing of a finished pass is missing"


def test_state_saved_after_lane_split_resumes_exactly(blend: Blender) -> None:
    loaders = [counting_loader(blend, rank, 6) for rank in range(6)]
    first = merge_states([loader.state_dict() for loader in loaders])
    count_outputs(loaders, 5)
    middle = json.loads(json.dumps(merge_states([loader.state_dict() for loader in loaders])))
    truth = [next(iter(loader))["__restore_key__"] for _ in range(6) for loader in loaders]
    again = [counting_loader(blend, rank, 6) for rank in range(6)]
    for loader in again:
        loader.load_state_dict(middle)
    assert [next(iter(loader))["__restore_key__"] for _ in range(6) for loader in again] == truth
    assert first["lanes"] == middle["lanes"] == 24


def test_state_saved_right_after_restore_equals_restored_state(blend: Blender) -> None:
    _, state, _ = run(blend, 1, 0, 23)
    for workers in (0, 2):
        loader = get_loader(everything(blend, 0, 1, workers))
        loader.load_state_dict(state)
        assert merge_states([loader.state_dict()]) == state
        next(iter(loader))
        loader.close()


def test_state_excludes_batches_prefetched_by_workers(blend: Blender, truth: list[str]) -> None:
    loader = get_loader(everything(blend, 0, 1, 2))
    for _ in range(5):
        next(iter(loader))
    first, second = loader.state_dict(), loader.state_dict()
    loader.close()
    assert first == second
    tail, _, _ = run(blend, 1, 0, 20, first)
    assert [content(batch) for batch in tail] == truth[5:25]


def test_breaking_out_of_loop_loses_no_batches_with_workers(blend: Blender, truth: list[str]) -> None:
    loader = get_loader(everything(blend, 0, 1, 2))
    received: list[str] = []
    for count in (1, 4, 7):
        for i, batch in enumerate(loader, 1):
            received.append(content(batch))
            if i == count:
                break
    loader.close()
    assert received == truth[:12]
    received.append(content(next(iter(loader))))
    loader.close()
    assert received == truth[:13]


def test_kept_batches_are_not_overwritten(blend: Blender, truth: list[str]) -> None:
    kept, _, _ = run(blend, 1, 2, 120)
    assert [content(batch) for batch in kept] == truth[:120]
