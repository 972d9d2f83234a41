"""The loader for torchtitan: its contract, and its real base class if torchtitan is installed."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.loader.datasets import Raw, a_dataset
from wdsctl.core.errors import LoaderError


class Rows(Raw):
    def encode_batch(self, batch: Any) -> dict[str, Any]:
        numbers = torch.tensor([[int(key)] * 8 for key in batch.__key__])
        return {"input_ids": numbers, "labels": numbers + 1, "__key__": batch.__key__}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 100)


@pytest.fixture(params=["0.2", "0.3"])
def adapter(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The adapter's module. Without torchtitan, a fake base class has the attributes of each version."""
    try:
        if not version("torchtitan").startswith(request.param):
            pytest.skip("another version of torchtitan is installed")
    except PackageNotFoundError:

        class BaseDataLoader:
            pass

        @dataclass(kw_only=True, slots=True)
        class Config:
            dataset: str = ""
            dataset_path: str | None = None

        if request.param == "0.3":
            BaseDataLoader.Config = Config  # type: ignore[attr-defined]
        for name in ("torchtitan", "torchtitan.components", "torchtitan.components.dataloader"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        sys.modules["torchtitan.components.dataloader"].BaseDataLoader = BaseDataLoader  # type: ignore[attr-defined]
        monkeypatch.delitem(sys.modules, "wdsctl.loader.integrations.torchtitan", raising=False)
    yield importlib.import_module("wdsctl.loader.integrations.torchtitan")
    sys.modules.pop("wdsctl.loader.integrations.torchtitan", None)


def a_loader(adapter: Any, path: str, rank: int = 0, world: int = 1, **options: Any) -> Any:
    """Builds the loader like torchtitan's trainer."""
    config = adapter.WdsctlDataLoader.Config(
        dataset_path=path, task_encoder=Rows(), options={"lanes": 12, "shuffle_buffer_size": 20}, **options
    )
    runtime = {"tokenizer": None, "seq_len": 8, "local_batch_size": 4, "snapshot_every_n_steps": 5}
    return adapter.WdsctlDataLoader(config, dp_world_size=world, dp_rank=rank, **runtime)


def numbers(loader: Any, count: int) -> list[Any]:
    return [inputs["input"][:, 0].tolist() for inputs, _ in islice(loader, count)]


def test_torchtitan_batch_has_model_inputs_and_labels(adapter: Any, path: str, request: pytest.FixtureRequest) -> None:
    inputs, labels = next(iter(a_loader(adapter, path)))

    assert torch.equal(labels, inputs.pop("input") + 1)
    if request.node.callspec.params["adapter"] == "0.3":
        assert inputs.pop("positions").tolist() == [list(range(8))] * 4
    assert not inputs


def test_builder_function_builds_loader_like_config(adapter: Any, path: str) -> None:
    expected = a_loader(adapter, path)
    build = adapter.WdsctlDataLoader.builder(expected.config)
    job_config = SimpleNamespace(training=SimpleNamespace(local_batch_size=4))

    loader = build(dp_world_size=1, dp_rank=0, tokenizer=None, job_config=job_config)

    assert numbers(loader, 3) == numbers(expected, 3)


def test_to_trainer_batch_refuses_batch_without_labels(adapter: Any) -> None:
    with pytest.raises(LoaderError, match="needs 'input' and 'labels'"):
        adapter.to_trainer_batch({"input": torch.ones(1)})


def test_state_restores_on_another_data_parallel_degree(adapter: Any, path: str) -> None:
    expected = numbers(a_loader(adapter, path), 9)
    single = a_loader(adapter, path)
    numbers(single, 3)

    ranks = [a_loader(adapter, path, rank, 2) for rank in range(2)]
    for loader in ranks:
        loader.load_state_dict(single.state_dict())

    steps = zip(*(numbers(loader, 3) for loader in ranks), strict=True)
    assert [batch for step in steps for batch in step] == expected[3:]


@pytest.mark.parametrize("field", ["repeat", "infinite"])
def test_validation_loader_reads_one_pass(adapter: Any, path: str, field: str) -> None:
    training = a_loader(adapter, path)

    validation = adapter.WdsctlDataLoader(
        replace(training.config, **{field: False}), dp_world_size=1, dp_rank=0, local_batch_size=4
    )

    actual = [number for batch in numbers(validation, 1000) for number in batch]
    assert sorted(actual) == list(range(100))
    assert training
    training.close()
