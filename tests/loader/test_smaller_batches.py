"""A job that resumes with a smaller batch size keeps its global batches, if the saved size is a multiple of it."""

from __future__ import annotations

import json
import warnings
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.growing import grow
from wdsctl.core.errors import StateMismatch
from wdsctl.core.trace import read_trace
from wdsctl.loader import Loader, Packing, WorkerConfig, get_savable_loader, get_train_dataset, merge_states

LANES = 12


class WithHooks(Raw):
    """Hooks of samples and batches."""

    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "number": int(sample["__key__"])}

    def encode_batch(self, batch: Any) -> Any:
        return {"keys": list(batch["__key__"]), "sum": sum(batch["number"])}


class Packs(Raw):
    """Packs whose key joins the keys of their samples."""

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {"__key__": "+".join(sample["__key__"] for sample in samples)}


class Twice(Raw):
    """Returns a generator of two batches from an ordinary function."""

    def encode_batch(self, batch: Any) -> Any:
        return (each for each in (batch, batch))


def count_bytes(sample: Any) -> int:
    return len(sample["txt"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 300, shard_samples=60)


def a_loader(path: str, batch_size: int, rank: int = 0, world: int = 1, workers: int = 0, **options: Any) -> Loader:
    config = WorkerConfig(rank, world, num_workers=workers)
    options = {"task_encoder": Raw(), "shuffle_buffer_size": 50, "lanes": LANES, **options}
    return get_savable_loader(get_train_dataset(path, batch_size=batch_size, worker_config=config, **options))


def draw_keys(loader: Loader, count: int) -> list[list[str]]:
    return [list(batch["keys" if "keys" in batch else "__key__"]) for batch in islice(loader, count)]


def join_batches(batches: list[list[str]], times: int) -> list[list[str]]:
    """Join each `times` consecutive batches into one."""
    return [list(chain(*batches[i : i + times])) for i in range(0, len(batches), times)]


def restore(loader: Loader, state: Any) -> Loader:
    """Load a state that went through JSON into the loader, without a warning, and return the loader."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader.load_state_dict(json.loads(json.dumps(state)), strict=True)
    return loader


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="bytes"),
        pytest.param({"task_encoder": WithHooks()}, id="hooks"),
        pytest.param(
            {"task_encoder": Packs(), "packing": Packing(length=count_bytes, capacity=30, window=40)}, id="packs"
        ),
    ],
)
def test_four_quarter_size_batches_equal_one_batch_of_saved_job(options: Any, workers: int, path: str) -> None:
    saved = a_loader(path, 8, **options)
    draw_keys(saved, 5)
    state = saved.state_dict()
    expected = draw_keys(saved, 15)

    small = restore(a_loader(path, 2, workers=workers, **options), state)

    assert join_batches(draw_keys(small, 60), 4) == expected
    small.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_every_rank_keeps_its_samples_with_smaller_batches(workers: int, path: str) -> None:
    saved = [a_loader(path, 6, rank, 3) for rank in range(3)]
    for loader in saved:
        draw_keys(loader, 4)
    states = [loader.state_dict() for loader in saved]
    expected = [draw_keys(loader, 6) for loader in saved]

    small = [restore(a_loader(path, 3, rank, 3, workers), states[rank]) for rank in range(3)]

    assert [join_batches(draw_keys(loader, 12), 2) for loader in small] == expected


def test_state_saved_within_larger_batch_resumes_exactly(path: str) -> None:
    saved = a_loader(path, 8)
    draw_keys(saved, 5)
    state = saved.state_dict()
    expected = [key for batch in draw_keys(saved, 20) for key in batch]

    keys: list[str] = []
    for size, count in [(4, 3), (2, 5), (1, 7), (1, 3), (4, 6), (8, 10)]:
        loader = restore(a_loader(path, size, workers=count % 2), state)
        keys += [key for batch in draw_keys(loader, count) for key in batch]
        if (size, count) in ((4, 3), (2, 5), (1, 7)):
            assert loader.state_dict()["cursors"] != state["cursors"]
        state = loader.state_dict()
        loader.close()

    assert keys == expected[: len(keys)]
    assert len(keys) == 136


def test_job_resumes_with_fewer_ranks_and_smaller_batches(path: str) -> None:
    saved = [a_loader(path, 8, rank, 2) for rank in range(2)]
    for loader in saved:
        draw_keys(loader, 3)
    world = merge_states([loader.state_dict() for loader in saved])
    expected = [batch for pair in zip(*(draw_keys(loader, 6) for loader in saved), strict=True) for batch in pair]

    one = restore(a_loader(path, 4), world)
    first = draw_keys(one, 6)
    two = [restore(a_loader(path, 4, rank, 2), [one.state_dict()]) for rank in range(2)]

    assert join_batches(first, 2) == expected[:3]
    following = [join_batches(draw_keys(loader, 6), 2) for loader in two]
    assert following == [expected[3::2][:3], expected[4::2][:3]]


def test_other_rank_count_resumes_remainder_of_larger_batch(path: str) -> None:
    saved = [a_loader(path, 8, rank, 2) for rank in range(2)]
    states = [loader.state_dict() for loader in saved]
    expected = [draw_keys(loader, 6) for loader in saved]
    halves = [restore(a_loader(path, 4, rank, 2), states) for rank in range(2)]
    first = [draw_keys(loader, 3) for loader in halves]
    world = merge_states([loader.state_dict() for loader in halves])

    one = restore(a_loader(path, 4), world)
    rest = draw_keys(one, 8)

    assert first == [[*(half for batch in own[:2] for half in (batch[:4], batch[4:]))][:3] for own in expected]
    assert rest[:2] == [expected[0][1][4:], expected[1][1][4:]]
    assert join_batches(rest[2:], 2) == [expected[0][2], expected[1][2], expected[0][3]]


@pytest.mark.filterwarnings("ignore:the state was saved with other hooks")
def test_state_saved_within_larger_batch_refuses_other_arguments(path: str) -> None:
    saved = a_loader(path, 8)
    draw_keys(saved, 2)
    half = restore(a_loader(path, 4), saved.state_dict())
    draw_keys(half, 1)
    state = half.state_dict()

    for other in (
        a_loader(path, 8),
        a_loader(path, 3),
        a_loader(path, 4, ban=["000003"]),
        a_loader(path, 4, adopt="next_epoch"),
        a_loader(path, 4, task_encoder=WithHooks()),
    ):
        with pytest.raises(StateMismatch, match="within a batch"):
            other.load_state_dict(state)
    with pytest.raises(StateMismatch, match="splits its lanes"):
        a_loader(path, 4, 0, 5).load_state_dict([state])


def test_merge_states_refuses_ranks_saved_within_batch_at_different_steps(path: str) -> None:
    states = [loader.state_dict() for loader in (a_loader(path, 8, rank, 2) for rank in range(2))]
    halves = [restore(a_loader(path, 4, rank, 2), states) for rank in range(2)]
    draw_keys(halves[0], 1)

    with pytest.raises(StateMismatch, match="different steps"):
        merge_states([loader.state_dict() for loader in halves])


@pytest.mark.parametrize("size", [3, 16])
def test_batch_size_that_does_not_divide_saved_size_warns(size: int, path: str) -> None:
    saved = a_loader(path, 8)
    draw_keys(saved, 5)

    with pytest.warns(UserWarning, match="the batches differ"):
        a_loader(path, size).load_state_dict(saved.state_dict())


def test_smaller_batches_refuse_hooks_that_make_several_batches(path: str) -> None:
    state = a_loader(path, 8, task_encoder=Twice()).state_dict()

    loader = a_loader(path, 4, task_encoder=Twice())
    loader.load_state_dict(state)
    with pytest.raises(StateMismatch, match="several batches of one"):
        draw_keys(loader, 1)


def test_virtual_epochs_count_smaller_batches(path: str) -> None:
    saved = a_loader(path, 8)
    draw_keys(saved, 5)
    state = saved.state_dict()
    expected = [key for batch in draw_keys(saved, 4) for key in batch]

    small = restore(a_loader(path, 2, virtual_epoch_length=5), state)

    epochs = [[key for batch in small for key in batch.__key__] for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [10, 10, 10]
    assert list(chain(*epochs)) == expected[:30]


def test_grown_dataset_is_adopted_at_same_sample_with_smaller_batches(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "shards", 96, shard_samples=30)
    saved = a_loader(root, 8)
    draw_keys(saved, 3)
    state = [saved.state_dict()]
    grow(root)

    whole = restore(a_loader(root, 8, adopt="next_epoch"), state)
    small = restore(a_loader(root, 2, adopt="next_epoch"), state)

    expected = draw_keys(whole, 30)
    assert join_batches(draw_keys(small, 120), 4) == expected
    assert any(key.startswith("new-") for batch in expected for key in batch)


def test_trace_lists_all_samples_of_turn_once(path: str, tmp_path: Path) -> None:
    saved = a_loader(path, 8)
    draw_keys(saved, 5)
    small = restore(a_loader(path, 4, trace=tmp_path / "trace"), saved.state_dict())
    draw_keys(small, 7)
    small.close()

    batches = list(read_trace(str(tmp_path / "trace")).batches())

    assert [len(batch.origins) for batch in batches] == [8, 8, 8, 8]


@pytest.mark.parametrize("workers", [0, 1])
def test_stats_count_each_smaller_batch_when_it_is_returned(workers: int, path: str) -> None:
    saved = a_loader(path, 8)
    draw_keys(saved, 5)
    loader = restore(a_loader(path, 2, workers=workers), saved.state_dict())

    for count in range(1, 7):
        draw_keys(loader, 1)
        assert (loader.stats.batches, loader.stats.samples) == (count, 2 * count)

    resumed = restore(a_loader(path, 2, workers=workers), loader.state_dict())
    draw_keys(resumed, 3)
    loader.close()
    resumed.close()
    assert (resumed.stats.batches, resumed.stats.samples) == (3, 6)
