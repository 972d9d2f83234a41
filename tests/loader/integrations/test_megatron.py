"""The data module of Megatron-Bridge, and the provider of Megatron-LM: saved on some ranks, resumed on others."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.loader.datasets import Raw, a_dataset
from tests.loader.integrations.processes import run_ranks
from wdsctl.core.checkpoint.checkpoint import redistribute_checkpoint
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.energon.wrappers import cyclic_iter
from wdsctl.loader.integrations.megatron import (
    EnergonDataloader,
    EnergonMultiModalDataModule,
    build_dataloaders,
    train_valid_test_dataloaders_provider,
)

OPTIONS: dict[str, Any] = {"micro_batch_size": 4, "num_workers": 0, "lanes": 24, "task_encoder": Raw()}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(
        tmp_path_factory.mktemp("data") / "shards", 200, split={"train": 0.8, "val": 0.2}, shard_samples=50
    )


def global_batches(ranks: list[dict[str, Any]]) -> list[Any]:
    return [batch for step in zip(*(rank["batches"] for rank in ranks), strict=True) for batch in step]


@pytest.mark.parametrize(
    ("first", "second"),
    [(2, 3), pytest.param(4, 6, marks=pytest.mark.slow), pytest.param(6, 4, marks=pytest.mark.slow)],
)
def test_bridge_training_resumes_on_another_number_of_ranks(first: int, second: int, path: str, tmp_path: Path) -> None:
    folder = tmp_path / "energon" / "iter_0000006"
    before = run_ranks("megatron_process", first, tmp_path, path, folder, 0, 6)
    redistribute_checkpoint([str(folder)], ranks=second, in_place=True)
    after = run_ranks("megatron_process", second, tmp_path, path, folder, 6, 10)

    uninterrupted = get_loader(
        get_train_dataset(
            path, batch_size=4, lanes=24, shuffle_buffer_size=40, max_samples_per_sequence=10, task_encoder=Raw()
        )
    )
    expected = [batch.__key__ for batch in islice(uninterrupted, 6 * first + 4 * second)]
    assert global_batches(before) + global_batches(after) == expected
    assert all(rank["evaluated"] == 4 for rank in before)


def test_worker_config_uses_pure_data_parallel_rank(path: str) -> None:
    groups = SimpleNamespace(
        dp=SimpleNamespace(rank=lambda: 1, size=lambda: 3), cp=SimpleNamespace(rank=lambda: 1, size=lambda: 2)
    )

    workers = EnergonMultiModalDataModule(path, pg_collection=groups, **OPTIONS)._build_worker_config(2)

    assert (workers.rank, workers.world_size, workers.num_workers) == (1, 3, 2)
    assert workers.data_parallel_group is groups.dp


def test_worker_config_uses_job_rank_without_process_groups(path: str) -> None:
    data = EnergonMultiModalDataModule(path, num_val_workers=3, **OPTIONS)

    assert data._build_worker_config(1) == WorkerConfig(0, 1, num_workers=1)
    assert data.num_val_workers == 3
    assert data.test_dataloader() is None  # type: ignore[func-returns-value]
    with pytest.raises(UsageError, match="split is 'test'"):
        data.datasets_provider(WorkerConfig(), "test")  # type: ignore[arg-type]


def test_data_module_reuses_loader_and_iterator(path: str) -> None:
    data = EnergonMultiModalDataModule(path, pin_memory=False, **OPTIONS)

    first = [next(data.train_dataloader()).__key__ for _ in range(3)]

    second = EnergonMultiModalDataModule(path, pin_memory=False, **OPTIONS).train_dataloader()
    assert first == [next(second).__key__ for _ in range(3)]
    assert bool(data.train_dataloader_object)


def test_iterator_saves_and_restores_alone_and_batches_pickle(path: str) -> None:
    iterator = EnergonMultiModalDataModule(path, **OPTIONS).train_dataloader()
    for _ in range(5):
        next(iterator)
    state = json.loads(json.dumps(iterator.save_state()))
    expected = next(iterator)

    resumed = EnergonMultiModalDataModule(path, **OPTIONS).train_dataloader()
    resumed.restore_state(state)

    batch = next(resumed)
    assert batch.__key__ == expected.__key__
    clone = pickle.loads(pickle.dumps(copy.copy(batch)))  # noqa: S301 - as Megatron's rerun machine keeps it
    assert clone.__key__ == batch.__key__
    assert iter(resumed) is resumed


def test_empty_energon_dataloader_ends_and_has_no_state() -> None:
    iterator = EnergonDataloader(None)

    assert list(iterator) == []
    with pytest.raises(LoaderError, match="no loader whose state"):
        iterator.save_state()
    with pytest.raises(LoaderError, match="no loader that could be restored"):
        iterator.restore_state({})


def test_cyclic_iter_of_empty_loader_raises_error() -> None:
    with pytest.raises(LoaderError, match="no batches"):
        next(cyclic_iter([]))


def test_short_validation_repeats_to_length_and_restarts(path: str) -> None:
    passes = [batch.__key__ for batch in get_loader(get_val_dataset(path, batch_size=16, task_encoder=Raw()))]
    _, [validation], test = build_dataloaders(
        path, worker_config=WorkerConfig(), task_encoder=Raw(), micro_batch_size=16, validation_batches=len(passes) + 2
    )

    for _ in range(2):
        assert [batch.__key__ for batch in islice(validation, len(passes) + 2)] == [*passes, *passes[:2]]
    assert list(test) == []


@pytest.fixture
def megatron(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str) -> SimpleNamespace:
    """Fakes the modules of Megatron-LM that its example provider imports."""
    arguments = SimpleNamespace(
        data_path=[path],
        micro_batch_size=4,
        num_workers=0,
        eval_iters=2,
        packing_buffer_size=None,
        load=None,
        dataloader_save=str(tmp_path / "data"),
        iteration=3,
    )
    fake = SimpleNamespace(arguments=arguments, tensor=0, stage=0, rank=0, world=1)

    def checkpoint_name(folder: str, iteration: int, pipeline_rank: int, basename: str) -> str:
        return f"{folder}/iter_{iteration:07d}/mp_rank_00_{pipeline_rank:03d}/{basename}"

    names: dict[str, dict[str, Any]] = {
        "megatron": {},
        "megatron.core": {},
        "megatron.core.parallel_state": {
            "get_tensor_model_parallel_rank": lambda: fake.tensor,
            "get_pipeline_model_parallel_rank": lambda: fake.stage,
            "get_pipeline_model_parallel_world_size": lambda: 4,
            "get_data_parallel_rank": lambda: fake.rank,
            "get_data_parallel_world_size": lambda: fake.world,
            "get_data_parallel_group": lambda: None,
        },
        "megatron.core.num_microbatches_calculator": {"get_num_microbatches": lambda: 3},
        "megatron.training": {"get_args": lambda: arguments},
        "megatron.training.checkpointing": {"get_checkpoint_name": checkpoint_name},
    }
    for name, values in names.items():
        module = ModuleType(name)
        module.__dict__.update(values)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    return fake


def test_megatron_lm_provider_reads_arguments_and_resumes(megatron: SimpleNamespace) -> None:
    training, [validation], _ = train_valid_test_dataloaders_provider(None, Raw())
    for _ in range(3):
        next(training)
    folder = Path(megatron.arguments.dataloader_save) / "iter_0000003" / "mp_rank_00_000"
    folder.mkdir(parents=True)
    torch.save({"dataloader_state_dict": training.save_state()}, folder / "train_dataloader_dprank000.pt")
    expected = next(training).__key__
    assert len([next(validation) for _ in range(6)]) == 6

    megatron.arguments.load = "somewhere"
    resumed, _, _ = train_valid_test_dataloaders_provider(None, Raw())

    assert next(resumed).__key__ == expected
    megatron.rank, megatron.world = 1, 2
    with pytest.raises(LoaderError, match="no loader state of data-parallel rank 1") as raised:
        train_valid_test_dataloaders_provider(None, Raw())
    assert raised.value.hint == f"wdsctl checkpoint redistribute {folder} --ranks N --in-place"


def test_megatron_lm_provider_refuses_to_begin_data_again(
    megatron: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    megatron.arguments.load = "somewhere"
    with pytest.raises(LoaderError, match="checkpoint of iteration 3 has no state of the loader") as raised:
        train_valid_test_dataloaders_provider(None, Raw())
    assert (raised.value.code, "--dataloader-save" in raised.value.hint) == ("WDS548", True)

    megatron.arguments.dataloader_save = None
    assert next(train_valid_test_dataloaders_provider(None, Raw())[0])
    assert "continues at iteration 3, but begins the data again" in caplog.text
    caplog.clear()
    megatron.arguments.iteration, megatron.arguments.dataloader_save = 0, "nowhere"  # a new start
    assert next(train_valid_test_dataloaders_provider(None, Raw())[0])
    assert caplog.text == ""


@pytest.mark.parametrize(("tensor", "stage", "reads"), [(0, 0, True), (0, 3, True), (0, 1, False), (1, 0, False)])
def test_provider_reads_on_first_tensor_rank_of_first_and_last_stage(
    tensor: int, stage: int, reads: bool, megatron: SimpleNamespace
) -> None:
    megatron.tensor, megatron.stage = tensor, stage

    loaders = train_valid_test_dataloaders_provider(None, Raw())

    assert (loaders != (None, None, None)) == reads


def test_provider_requires_task_encoder(megatron: SimpleNamespace) -> None:
    with pytest.raises(UsageError, match="needs a task encoder"):
        train_valid_test_dataloaders_provider(None)
