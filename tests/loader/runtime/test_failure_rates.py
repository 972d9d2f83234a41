"""Failure rates are logged with their cause and stop the run above a limit, independent of the number of workers."""

from __future__ import annotations

import json
import logging
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.running import json_round_trip, make_training_loader, take_batches
from wdsctl.core.blend import Blender
from wdsctl.core.errors import LoaderError, StateMismatch, UsageError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset, merge_states
from wdsctl.loader.runtime.failure_rates import BATCH_COUNTER, AttemptCounts, FailureCount, FailureRates, FailureTally

SOURCES = [SimpleNamespace(number=i, dataset_path=f"data{i}") for i in range(8)]
LOG = "wdsctl.loader"


def counts(unit: int, tried: int, failed: int = 0, cause: str = "encode_sample: ValueError") -> AttemptCounts:
    return AttemptCounts(
        ((unit, tried),), (FailureCount(unit, cause, failed, f"example of {cause}"),) if failed else ()
    )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if " of the last " in record.getMessage()]


def test_failure_rate_above_one_percent_is_logged_with_frequent_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rates = FailureRates()
    with caplog.at_level(logging.WARNING, LOG):
        rates.add(counts(0, 1000, 10), SOURCES)
        assert not messages(caplog)
        rates.add(counts(0, 100, 3, "load: WDS403"), SOURCES)

    (line,) = messages(caplog)
    assert "13 of the last 1,100 samples of data0 failed (1.2%), 10 of them by encode_sample: ValueError" in line
    assert "example of encode_sample: ValueError" in line


def test_failure_rates_are_logged_once_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    rates = FailureRates(clock=clock)
    with caplog.at_level(logging.WARNING, LOG):
        for second in range(0, 130, 5):
            clock.now = second
            for unit in (0, 1, BATCH_COUNTER):
                rates.add(counts(unit, 100, 20), SOURCES)

    lines = messages(caplog)
    assert len(lines) == 3
    assert all(name in lines[-1] for name in ("data0", "data1", "batches"))


def test_failure_log_names_worst_sources_and_counts_others(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    rates = FailureRates(clock=clock)
    for unit in range(8):
        rates.add(counts(unit, 1000, 20 + unit), SOURCES)
    clock.now = 100
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOG):
        rates.add(counts(0, 1, 1), SOURCES)

    (line,) = messages(caplog)
    assert line.startswith("27 of the last 1,000 samples of data7")
    assert line.endswith("and more than 1% of 3 other sources")


def test_failure_rates_forget_old_failures() -> None:
    rates = FailureRates(0.05)
    rates.add(counts(0, 100, 40), SOURCES)
    for _ in range(20):
        rates.add(counts(0, 100), SOURCES)
    rates.add(counts(0, 100, 50), SOURCES)

    with pytest.raises(LoaderError, match="51 of the last 1,0"):
        rates.add(counts(0, 1, 1), SOURCES)


def test_partial_window_raises_only_when_full_window_would(caplog: pytest.LogCaptureFixture) -> None:
    rates = FailureRates(0.02)
    rates.add(counts(0, 32, 20), SOURCES)

    with pytest.raises(LoaderError) as raised:
        rates.add(counts(0, 32, 1), SOURCES)

    assert raised.value.code == "WDS527"
    assert "21 of the last 64 samples of data0" in raised.value.message
    assert raised.value.where == "data0"


def test_end_pass_evaluates_partial_window() -> None:
    rates = FailureRates(0.02)
    rates.add(counts(0, 32, 1), SOURCES)

    with pytest.raises(LoaderError, match=r"1 of the last 32 samples of data0 failed \(3.1%\)"):
        rates.end_pass(SOURCES)


def test_failure_tally_counts_sample_once_for_several_outputs() -> None:
    tally = FailureTally()
    tally.begin_attempt(3)
    for _ in range(4):
        tally.count_failure(None, "cause", "first")
    tally.begin_attempt(3)
    tally.count_failure(None, "cause", "second")
    tally.begin_rebuild(3)
    tally.count_failure(None, "cause", "third")

    assert tally.take() == AttemptCounts(((3, 2),), (FailureCount(3, "cause", 2, "first"),))
    assert tally.take() == AttemptCounts()


# In a training.


class Bad(Raw):
    """Fails at every fifth sample of the second component."""

    def encode_sample(self, sample: Any) -> Any:
        if sample["__restore_key__"][0] == 1 and int(sample["__key__"]) % 5 == 3:
            raise ValueError("a fifth")
        return sample


@pytest.fixture(scope="module")
def blend(tmp_path_factory: pytest.TempPathFactory) -> Blender:
    folder = tmp_path_factory.mktemp("data")
    paths = [a_dataset(folder / name, 400, shard_samples=100, parts=numbered) for name in ("good", "bad")]
    return Blender([({"path": path}, weight) for path, weight in zip(paths, (3, 1), strict=True)])


def count_batches_until_error(dataset: Any, fraction: float) -> tuple[int, LoaderError]:
    with get_loader(dataset, max_failed_fraction=fraction) as loader:
        batches = iter(loader)
        batch_count = 0
        try:
            while True:
                next(batches)
                batch_count += 1
        except LoaderError as error:
            return batch_count, error


@pytest.mark.parametrize(("size", "workers"), [(None, 3), (8, 1)])
def test_max_failed_fraction_stops_at_same_batch_with_any_workers(
    blend: Blender, size: int | None, workers: int
) -> None:
    def run_until_error(num_workers: int) -> tuple[int, LoaderError]:
        config = WorkerConfig(num_workers=num_workers)
        dataset = get_train_dataset(blend, batch_size=size, task_encoder=Bad(), worker_config=config)
        return count_batches_until_error(dataset, 0.1)

    inline_count, error = run_until_error(0)
    assert error.code == "WDS527"
    assert "by encode_sample: ValueError" in error.message
    assert "bad" in error.where
    assert inline_count > 0
    worker_count, worker_error = run_until_error(workers)
    assert (worker_count, worker_error.message) == (inline_count, error.message)


def test_max_failed_fraction_leaves_batches_unchanged(blend: Blender) -> None:
    def keys(**options: Any) -> Any:
        loader = get_loader(get_train_dataset(blend, batch_size=8, task_encoder=Bad()), **options)
        return [batch["__restore_key__"] for batch in take_batches(loader, 300)]

    assert keys(max_failed_fraction=0.5) == keys()


@pytest.mark.parametrize("workers", [0, 2])
def test_failure_log_names_source_cause_and_sample(
    blend: Blender, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    loader = make_training_loader(blend, encoder=Bad(), batch_size=8, worker_config=WorkerConfig(num_workers=workers))
    with caplog.at_level(logging.WARNING, LOG), loader:
        take_batches(loader, 300)

    (line,) = messages(caplog)
    assert "bad failed (" in line
    assert "all by encode_sample: ValueError" in line
    assert "key 000" in line


def test_max_failed_fraction_counts_failed_batches(blend: Blender) -> None:
    class Third(Raw):
        def batch(self, samples: list[Any]) -> Any:
            if int(samples[0]["__key__"]) % 3 == 0:
                raise ValueError("a third")
            return samples

    batch_count, error = count_batches_until_error(get_train_dataset(blend, batch_size=4, task_encoder=Third()), 0.02)

    assert 10 < batch_count < 200
    assert "batches failed" in error.message
    assert "by batch: ValueError" in error.message


def test_max_failed_fraction_counts_failed_packs(blend: Blender) -> None:
    class Packs(Raw):
        def select_samples_to_pack(self, samples: list[Any]) -> Any:
            return [samples[i : i + 2] for i in range(0, len(samples), 2)]

        def pack_selected_samples(self, samples: list[Any]) -> Any:
            if int(samples[0]["__key__"]) % 3 == 0:
                raise ValueError("a third")
            return samples[0]

    dataset = get_train_dataset(blend, batch_size=4, packing_buffer_size=10, task_encoder=Packs())

    assert "packs failed" in count_batches_until_error(dataset, 0.02)[1].message


@pytest.mark.parametrize("workers", [0, 2])
def test_max_failed_fraction_raises_at_end_of_short_pass(tmp_path: Path, workers: int) -> None:
    path = a_dataset(tmp_path, 50, parts=numbered)

    class Tenth(Raw):
        def encode_sample(self, sample: Any) -> Any:
            if int(sample["__key__"]) % 10 == 3:
                raise ValueError("a tenth")
            return sample

    config = WorkerConfig(num_workers=workers)
    for dataset in (
        get_val_dataset(path, batch_size=4, split_part="train", task_encoder=Tenth(), worker_config=config),
        get_train_dataset(path, batch_size=4, repeat=False, task_encoder=Tenth(), worker_config=config),
    ):
        batch_count, error = count_batches_until_error(dataset, 0.05)
        assert batch_count == 13
        assert "5 of the last 50 samples" in error.message


def test_selections_do_not_count_as_packs(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 40, parts=numbered)

    class Packs(Raw):
        def select_samples_to_pack(self, samples: list[Any]) -> Any:
            return [samples]

        def pack_selected_samples(self, samples: list[Any]) -> Any:
            if any(int(sample["__key__"]) == 0 for sample in samples):
                raise ValueError("one pack of eight lanes")
            return samples[0]

    dataset = get_train_dataset(path, batch_size=1, packing_buffer_size=10, repeat=False, task_encoder=Packs())

    assert "1 of the last 8 packs failed (12.5%)" in count_batches_until_error(dataset, 0.1)[1].message


def test_max_failed_fraction_counts_batches_built_in_bulk(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 60, shard_samples=20, parts=numbered)
    (tmp_path / "shard-001.tar").unlink()

    batch_count, error = count_batches_until_error(get_train_dataset(path, batch_size=4, task_encoder=Raw()), 0.3)

    assert batch_count > 100
    assert "by load: WDS404" in error.message


@pytest.mark.parametrize("fraction", [-0.1, 1.5])
def test_max_failed_fraction_rejects_invalid_values(blend: Blender, fraction: float) -> None:
    with pytest.raises(UsageError, match="max_failed_fraction"):
        get_loader(get_train_dataset(blend), max_failed_fraction=fraction)


# In states.


def run_resumed(make: Any, steps: int, count: int) -> tuple[int, str]:
    """Draws batches with a new loader after every `steps`; returns how many came before the error, and the error."""
    state: Any = None
    for done in range(0, count, steps):
        with make() as loader:
            if state is not None:
                loader.load_state_dict(state)
            try:
                for drawn, _ in enumerate(islice(loader, steps)):
                    latest = done + drawn + 1
            except LoaderError as error:
                return latest, error.message
            state = json_round_trip(loader.state_dict())
    return count, ""


@pytest.mark.parametrize("workers", [0, 2])
def test_resumed_run_ends_at_same_batch_as_uninterrupted_one(workers: int, blend: Blender) -> None:
    def make() -> Loader:
        config = WorkerConfig(num_workers=workers)
        dataset = get_train_dataset(blend, batch_size=8, task_encoder=Bad(), worker_config=config)
        return get_loader(dataset, max_failed_fraction=0.05)

    whole = run_resumed(make, 500, 500)

    assert 100 < whole[0] < 500
    for steps in (30, 97):
        assert run_resumed(make, steps, 500) == whole


def test_merged_state_of_ranks_without_batches_is_read(blend: Blender) -> None:
    def ranks(world: int) -> list[Loader]:
        datasets = [get_train_dataset(blend, batch_size=8, worker_config=WorkerConfig(i, world)) for i in range(world)]
        return [get_loader(dataset, max_failed_fraction=0.5) for dataset in datasets]

    merged = merge_states([json_round_trip(loader.state_dict()) for loader in ranks(2)])

    (resumed,) = ranks(1)
    resumed.load_state_dict(json_round_trip(merged))


def test_every_rank_continues_with_its_own_failures(blend: Blender) -> None:
    def ranks(world: int, fraction: float | None = 0.5) -> list[Loader]:
        datasets = [
            get_train_dataset(blend, batch_size=8, task_encoder=Bad(), worker_config=WorkerConfig(rank, world))
            for rank in range(world)
        ]
        return [get_loader(dataset, max_failed_fraction=fraction) for dataset in datasets]

    before = ranks(2)
    for loader in before:
        take_batches(loader, 50)
    states = [json_round_trip(loader.state_dict()) for loader in before]
    failures = [state["failures"] for state in states]
    assert failures[0] != failures[1]

    for given in (states, merge_states(states)):
        for world, expected in ((1, failures[:1]), (2, failures), (4, failures * 2)):
            after = ranks(world)
            for loader in after:
                loader.load_state_dict(given)
            assert [loader.state_dict()["failures"] for loader in after] == expected
    (unlimited,) = ranks(1, None)
    unlimited.load_state_dict(states)
    assert "failures" not in unlimited.state_dict()


def test_state_of_failures_takes_few_bytes_per_source() -> None:
    rates, again = FailureRates(0.1), FailureRates(0.1)
    for unit in range(8):
        rates.add(counts(unit, 5000), SOURCES)
    assert len(json.dumps(rates.to_state())) <= 16 * 8
    rates.add(counts(3, 40, 2), SOURCES)
    rates.add(counts(3, 40, 1, "load: WDS403"), SOURCES)

    again.load(json_round_trip(rates.to_state()), len(SOURCES))

    assert again.to_state() == rates.to_state()
    for each in (rates, again):
        with pytest.raises(LoaderError, match=r"103 of the last 1,000 .* 100 of them by other"):
            each.add(counts(3, 100, 100, "other"), SOURCES)


def test_batches_of_unlike_samples_are_counted_across_resumes_without_max_failed_fraction() -> None:
    rates, again = FailureRates(), FailureRates()
    rates.add(counts(0, 100, 100), SOURCES)
    assert rates.to_state() is None
    rates.add(counts(BATCH_COUNTER, 500, 8, "batch: WDS506: shapes"), SOURCES)

    again.load(json_round_trip(rates.to_state()), len(SOURCES))

    with pytest.raises(LoaderError, match="11 of the last 600 batches") as caught:
        again.add(counts(BATCH_COUNTER, 100, 3, "batch: WDS506: shapes"), SOURCES)
    assert caught.value.code == "WDS536"


@pytest.mark.parametrize(
    "damage",
    [7, [], {"x": -1}, {"1 x": 1}, {"0": -1}, {"0": [5, [[0, 1, 1, 0]], []]}, {"0": [5, [[0, 1]], [["", ""]]]}],
)
def test_damaged_failures_of_state_are_rejected(damage: Any, blend: Blender) -> None:
    loader = get_loader(get_train_dataset(blend, batch_size=8, task_encoder=Raw()), max_failed_fraction=0.5)
    state = {**loader.state_dict(), "failures": damage}

    with pytest.raises(StateMismatch, match="the state is damaged: 'failures'"):
        loader.load_state_dict(state)


# Failures in a row.


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("size", [None, 1, 3])
def test_unreadable_samples_between_others_are_not_consecutive(size: int | None, repeat: bool, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 600, shard_samples=600, parts=lambda i: {"json": b"{}" if i % 5 else b"{"})
    dataset = get_train_dataset(path, batch_size=size, shuffle=False, repeat=repeat, lanes=1)

    loader = get_loader(dataset)
    take_batches(loader, 570 // (size or 1))

    assert loader.stats.failed > 100
