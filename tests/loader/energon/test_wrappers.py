"""Energon's dataset wrappers in loaders."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from tests.loader.datasets import Raw, a_dataset
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader.energon import (
    ConcatDataset,
    EpochizeDataset,
    FilterDataset,
    GcDataset,
    LimitDataset,
    MapDataset,
    RepeatDataset,
    SavableDataset,
    SkipSample,
    WorkerConfig,
    concat_pad,
    generic_concat,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    homogeneous_concat_mix,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 100, split={"train": 0.8, "val": 0.2})


def validation(path: str, **options: Any) -> Any:
    return get_val_dataset(path, **{"batch_size": 6, "task_encoder": Raw(), **options})


def keys(batches: Any) -> list[Any]:
    return [batch.__key__ for batch in batches]


@pytest.mark.parametrize(("make_loader", "workers"), [(get_loader, 2), (get_savable_loader, 0)])
def test_limit_of_repeated_validation_returns_same_batches_every_pass(
    make_loader: Any, workers: int, path: str
) -> None:
    config = WorkerConfig(num_workers=workers)
    inner = validation(path, worker_config=config)
    one_pass = keys(get_loader(inner))
    limited = LimitDataset(
        RepeatDataset(inner, worker_config=config), length=6, worker_config=config, reset_after_epoch=True
    )

    loader = make_loader(limited)

    expected = (one_pass + one_pass)[:6]
    assert len(one_pass) == 4
    assert [keys(loader), keys(loader), len(loader)] == [expected, expected, 6]
    next(iter(loader))
    assert keys(loader) == expected
    loader.close()


def test_limit_dataset_truncates_validation(path: str) -> None:
    inner = validation(path)

    loader = get_loader(LimitDataset(inner, length=3))

    assert keys(loader) == keys(get_loader(inner))[:3]
    assert len(loader) == len(get_loader(LimitDataset(LimitDataset(inner, 9), 3))) == 3


def test_limit_dataset_keeps_smaller_limit_of_validation(path: str) -> None:
    inner = validation(path, limit=2)

    assert keys(get_loader(LimitDataset(inner, length=3))) == keys(get_loader(inner))
    assert len(get_loader(LimitDataset(inner, length=3))) == 2


def test_repeat_dataset_repeats_n_times_or_endlessly(path: str) -> None:
    inner = validation(path)
    one_pass = keys(get_loader(inner))

    assert keys(get_loader(RepeatDataset(inner, repeats=3))) == 3 * one_pass
    assert len(get_loader(RepeatDataset(inner, repeats=3))) == 12
    assert keys(islice(get_loader(RepeatDataset(inner)), 9)) == (3 * one_pass)[:9]
    with pytest.raises(TypeError, match="LimitDataset"):
        len(get_loader(RepeatDataset(inner)))


def test_concat_dataset_reads_validations_in_sequence(path: str) -> None:
    first, second = validation(path), validation(path, split_part="train", batch_size=10)
    expected = keys(get_loader(first)) + keys(get_loader(second))

    loader = get_loader(RepeatDataset(ConcatDataset(first, second), repeats=2))

    assert keys(loader) == 2 * expected
    assert len(loader) == 2 * len(expected)


def test_repeat_of_empty_dataset_raises_error(path: str) -> None:
    empty = LimitDataset(validation(path), length=0)

    with pytest.raises(LoaderError, match="no batches"):
        next(iter(get_loader(RepeatDataset(empty))))


def test_repeat_of_training_pass_changes_order(path: str) -> None:
    training = get_train_dataset(path, batch_size=8, repeat=False, task_encoder=Raw())

    batches = keys(islice(get_loader(RepeatDataset(training)), 20))

    first, second = batches[:10], batches[10:]
    assert sorted(chain(*first)) == sorted(chain(*second))
    assert len({*chain(*first)}) == 80
    assert first != second


def test_loader_of_wrapper_has_no_state(path: str) -> None:
    loader = get_savable_loader(LimitDataset(validation(path), length=2))

    with pytest.raises(LoaderError, match="has no state"):
        loader.save_state_rank()
    with pytest.raises(LoaderError, match="has no state"):
        loader.restore_state_rank({})


def test_wrappers_refuse_endless_trainings_and_other_worker_configs(path: str) -> None:
    training = get_train_dataset(path, batch_size=4, task_encoder=Raw())
    one_pass = get_train_dataset(path, batch_size=4, task_encoder=Raw(), repeat=False)

    for wrap in (RepeatDataset, ConcatDataset, lambda each: LimitDataset(each, length=3)):
        with pytest.raises(UsageError, match=r"endless training|first batch"):
            wrap(training)
    with pytest.raises(UsageError, match="first batch"):
        LimitDataset(RepeatDataset(one_pass), length=3)
    with pytest.raises(UsageError, match="worker_config"):
        RepeatDataset(validation(path), worker_config=WorkerConfig(num_workers=3))
    with pytest.raises(UsageError, match="found int"):
        RepeatDataset(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no datasets"):
        ConcatDataset()


def test_epochize_and_gc_datasets_set_dataset_options(path: str) -> None:
    training = get_train_dataset(path, batch_size=4, task_encoder=Raw())
    expected = keys(islice(get_loader(training), 6))

    loader = get_loader(GcDataset(EpochizeDataset(training, length=3)))

    assert [keys(loader), keys(loader)] == [expected[:3], expected[3:]]
    with pytest.raises(UsageError, match="endless"):
        EpochizeDataset(validation(path), length=3)
    for length in (0, -1):
        with pytest.raises(UsageError, match=f"length is {length}"):
            EpochizeDataset(training, length=length)


def summarize(batch: Any) -> Any:
    return {"first": batch.__key__[0], "count": len(batch.__key__)}


def is_full(batch: Any) -> bool:
    return len(batch.__key__) == 6


@pytest.mark.parametrize("workers", [0, 2])
def test_map_dataset_returns_function_results(workers: int, path: str) -> None:
    inner = validation(path, worker_config=WorkerConfig(num_workers=workers))

    mapped = list(get_loader(MapDataset(inner, summarize)))

    assert mapped == [{"first": batch[0], "count": len(batch)} for batch in keys(get_loader(inner))]


def test_filter_dataset_drops_batches_that_function_rejects(path: str) -> None:
    inner = validation(path)

    actual = keys(get_loader(FilterDataset(inner, filter_fn=is_full)))

    assert actual == keys(get_loader(inner))[:3]


def test_map_dataset_function_yields_several_batches_or_skips(path: str) -> None:
    def twice(batch: Any) -> Any:
        if not is_full(batch):
            raise SkipSample
        yield batch.__key__[0]
        yield batch.__key__[1]

    inner = validation(path)

    assert list(get_loader(MapDataset(inner, twice))) == [
        key for batch in keys(get_loader(inner))[:3] for key in batch[:2]
    ]


def test_map_dataset_without_batch_size_maps_samples(path: str) -> None:
    samples = validation(path, batch_size=None)
    mapped = MapDataset(samples, lambda sample: sample["__key__"])

    assert list(get_loader(mapped)) == [sample["__key__"] for sample in get_loader(samples)]


def test_datasets_and_wrappers_are_instances_of_savable_dataset(path: str) -> None:
    assert isinstance(validation(path), SavableDataset)
    assert isinstance(RepeatDataset(validation(path)), SavableDataset)
    assert not isinstance(3, SavableDataset)


class Pair(NamedTuple):
    image: torch.Tensor
    name: str


def test_concat_functions_join_batches_field_by_field() -> None:
    first, second = torch.ones(2, 3), torch.full((1, 4), 2)

    joined = concat_pad([first, second])

    assert joined.tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [2, 2, 2, 2]]
    assert torch.equal(generic_concat([{"x": first}, {"x": second}])["x"], joined)
    pair = generic_concat([Pair(first, "a"), Pair(second, "b")])
    assert (torch.equal(pair.image, joined), pair.name) == (True, ["a", "b"])
    with pytest.raises(UsageError, match="dict, list"):
        homogeneous_concat_mix([[1], {}])
    assert torch.equal(homogeneous_concat_mix([first, second]), joined)


def test_wrappers_accept_dataset_in_any_folder(tmp_path: Path) -> None:
    dataset = a_dataset(tmp_path / "x", 6, split={"val": 1.0})

    assert len(keys(get_loader(LimitDataset(RepeatDataset(validation(dataset)), length=5)))) == 5
