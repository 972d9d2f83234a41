"""`current_sample_index` and `current_batch_index` in hooks: with workers, after a resume and in restored samples."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset
from wdsctl.core.errors import LoaderError
from wdsctl.loader import Loader, Packing, WorkerConfig, get_loader, get_train_dataset, get_val_dataset


class Numbered(Raw):
    """Stores the indexes that its hooks see in samples and batches."""

    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "sample": self.current_sample_index}

    def batch(self, samples: list[Any]) -> Any:
        columns: dict[str, Any] = {name: [each[name] for each in samples] for name in ("__key__", "sample")}
        keys = tuple(each["__restore_key__"] for each in samples)
        return {**columns, "__restore_key__": keys, "batch": self.current_sample_index}

    def encode_batch(self, batch: Any) -> Any:
        return {**batch, "number": self.current_batch_index}


class NumberedPacks(Numbered):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        number = self.current_sample_index
        return {"__key__": samples[0]["__key__"], "__restore_key__": (), "sample": (number, self.current_batch_index)}


class NumberedOnRestore(Numbered):
    """Does not read the batch index, which restored batches lack."""

    def encode_batch(self, batch: Any) -> Any:
        return batch


class Steps(Raw):
    def encode_sample(self, sample: Any) -> Any:
        for _ in range(2):
            yield {"__key__": sample["__key__"], "sample": self.current_sample_index}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 120, split={"train": 0.8, "val": 0.2})


def a_loader(path: str, rank: int = 0, world: int = 1, workers: int = 0, **options: Any) -> Loader:
    config = WorkerConfig(rank, world, num_workers=workers)
    options = {"batch_size": 4, "task_encoder": Numbered(), "lanes": 12, **options}
    return get_loader(get_train_dataset(path, worker_config=config, **options))


def facts(batches: Any) -> list[Any]:
    return [(batch["number"], batch["batch"], batch["__key__"], batch["sample"]) for batch in batches]


def test_indexes_are_independent_of_workers_and_continue_after_resume(path: str) -> None:
    loader = a_loader(path)
    first = facts(islice(loader, 7))
    state = loader.state_dict()
    expected = facts(islice(loader, 10))

    resumed = a_loader(path, workers=2)
    resumed.load_state_dict(state)

    assert facts(islice(resumed, 10)) == expected
    assert [number for number, *_ in first + expected] == list(range(17))
    samples = [sample for *_, column in first + expected for sample in column]
    assert len({*samples, *(batch for _, batch, *_ in first + expected)}) == len(samples) + 17
    assert all(0 <= sample < 1 << 63 for sample in samples)
    resumed.close()


def test_ranks_have_equal_batch_indexes_and_samples_of_single_rank(path: str) -> None:
    single = facts(islice(a_loader(path), 12))
    ranks = [facts(islice(a_loader(path, rank, 3), 4)) for rank in range(3)]

    assert [[number for number, *_ in rank] for rank in ranks] == [[0, 1, 2, 3]] * 3
    assert [each[1:] for step in zip(*ranks, strict=True) for each in step] == [each[1:] for each in single]


def test_batch_indexes_on_other_rank_counts_match_new_job(path: str) -> None:
    two = [a_loader(path, rank, 2) for rank in range(2)]
    for loader in two:
        list(islice(loader, 6))
    states = [loader.state_dict() for loader in two]

    one, four = a_loader(path), [a_loader(path, rank, 4) for rank in range(4)]
    for loader in (one, *four):
        loader.load_state_dict(states)

    assert [number for number, *_ in facts(islice(one, 3))] == [12, 13, 14]
    assert {tuple(number for number, *_ in facts(islice(loader, 3))) for loader in four} == {(3, 4, 5)}


def test_restored_samples_and_batches_have_their_indexes(path: str) -> None:
    loader = a_loader(path, task_encoder=NumberedOnRestore())
    batch = list(islice(loader, 5))[-1]

    assert loader.restore_sample(batch["__restore_key__"][2])["sample"] == batch["sample"][2]
    assert loader.restore_sample(batch["__restore_key__"])["batch"] == batch["batch"]
    with pytest.raises(LoaderError, match="not while a sample is restored"):
        a_loader(path).restore_sample(batch["__restore_key__"])


@pytest.mark.parametrize("workers", [0, 2])
def test_validation_counts_batches_from_0_in_every_pass(workers: int, path: str) -> None:
    config = WorkerConfig(num_workers=workers)
    loader = get_loader(get_val_dataset(path, batch_size=5, task_encoder=Numbered(), worker_config=config))

    passes = [facts(loader), facts(loader)]

    assert passes[0] == passes[1]
    assert [number for number, *_ in passes[0]] == [0, 1, 2, 3, 4]
    loader.close()


def test_packed_validation_has_increasing_batch_indexes(path: str) -> None:
    packing = Packing(length=count_bytes, capacity=30, window=40)
    options: dict[str, Any] = {"batch_size": 2, "task_encoder": NumberedPacks(), "packing": packing, "lanes": 4}
    ranks = [
        list(get_loader(get_val_dataset(path, worker_config=WorkerConfig(rank, 3), **options))) for rank in range(3)
    ]

    for batches in ranks:
        numbers = [batch["number"] for batch in batches]
        assert numbers == sorted(set(numbers))
        assert len({pack for batch in batches for pack, _ in batch["sample"]}) == sum(
            len(batch["sample"]) for batch in batches
        )


def count_bytes(sample: Any) -> int:
    return len(sample["txt"])


def test_generator_hook_has_index_of_its_sample_at_every_step(path: str) -> None:
    samples = list(islice(a_loader(path, batch_size=None, task_encoder=Steps()), 24))

    keys = [each["__key__"] for each in samples]
    assert len(set(keys)) == 12 == len({each["sample"] for each in samples})
    assert len({(each["__key__"], each["sample"]) for each in samples}) == 12


def test_current_indexes_raise_outside_hooks(path: str) -> None:
    loader = a_loader(path)
    next(iter(loader))

    with pytest.raises(LoaderError, match="within hooks only"):
        Numbered().current_sample_index  # noqa: B018
    with pytest.raises(LoaderError, match="within hooks only"):
        Numbered().current_batch_index  # noqa: B018
