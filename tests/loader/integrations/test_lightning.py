"""The Lightning data module: resumes continue with the next batch, in every way in which Lightning fetches batches."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset
from wdsctl.core.errors import LoaderError, StateMismatch
from wdsctl.loader import get_train_dataset, get_val_dataset

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Lightning's own deprecations
    lightning = pytest.importorskip("lightning", reason="`make interop` installs it")

import torch

from wdsctl.loader.integrations.lightning import WdsctlDataModule

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of Lightning


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(
        tmp_path_factory.mktemp("data") / "shards", 100, split={"train": 0.8, "val": 0.2}, split_by="sample"
    )


class Model(lightning.LightningModule):  # type: ignore[misc, name-defined] # checked without Lightning
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained: list[Any] = []
        self.evaluated = 0

    def training_step(self, batch: Any) -> Any:
        self.trained.append(batch.__key__)
        return self.layer(torch.ones(1)).square().sum()

    def validation_step(self, batch: Any) -> None:
        self.evaluated += 1

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class IteratingModel(Model):
    """A model whose training step draws batches from dataloader_iter."""

    def training_step(self, dataloader_iter: Any) -> Any:
        return super().training_step(next(dataloader_iter)[0])


def make_data_module(path: str, **options: Any) -> WdsctlDataModule:
    encoder: dict[str, Any] = {"batch_size": 4, "task_encoder": Raw()}
    return WdsctlDataModule(
        train=lambda: get_train_dataset(path, lanes=6, **encoder, **options),
        val=lambda: get_val_dataset(path, **encoder),
    )


def fit(module: WdsctlDataModule, steps: int, model: Any = None, ckpt: Path | None = None, **options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_steps=steps, enable_checkpointing=False, **quiet, **options
    )
    model = model or Model()
    trainer.fit(model, datamodule=module, ckpt_path=None if ckpt is None else str(ckpt))
    return trainer, model.trained


@pytest.mark.parametrize(
    ("dataset_options", "trainer_options", "model_type"),
    [
        ({}, {}, Model),
        ({"virtual_epoch_length": 5}, {}, Model),
        ({}, {"limit_train_batches": 5}, Model),
        ({}, {}, IteratingModel),
        ({"repeat": False}, {}, Model),
    ],
    ids=["without a length", "virtual epochs", "limited by the trainer", "dataloader_iter", "passes"],
)
def test_resumed_lightning_training_continues_with_next_batch(
    path: str, tmp_path: Path, dataset_options: dict[str, Any], trainer_options: dict[str, Any], model_type: type[Model]
) -> None:
    _, expected = fit(make_data_module(path, **dataset_options), 13, model_type(), **trainer_options)
    trainer, first = fit(make_data_module(path, **dataset_options), 7, model_type(), **trainer_options)
    trainer.save_checkpoint(tmp_path / "ckpt")

    _, rest = fit(make_data_module(path, **dataset_options), 13, model_type(), tmp_path / "ckpt", **trainer_options)

    assert first + rest == expected


def test_second_fit_continues_and_validations_are_whole_passes(path: str) -> None:
    module, model = make_data_module(path, virtual_epoch_length=5), Model()

    fit(module, 5, model, num_sanity_val_steps=0)
    fit(module, 5, model, num_sanity_val_steps=0)

    assert model.trained == fit(make_data_module(path), 10)[1]
    assert model.evaluated == 2 * 5


def test_lightning_checkpoint_contains_loader_state_once(path: str, tmp_path: Path) -> None:
    trainer, _ = fit(make_data_module(path), 3)
    trainer.save_checkpoint(tmp_path / "ckpt")

    checkpoint = torch.load(tmp_path / "ckpt", weights_only=True)

    assert list(checkpoint["WdsctlDataModule"]) == ["states"]
    assert checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"] == [{}]


def test_loaded_state_is_saved_again_before_training_begins(path: str, tmp_path: Path) -> None:
    trainer, _ = fit(make_data_module(path), 3)
    trainer.save_checkpoint(tmp_path / "ckpt")
    state = torch.load(tmp_path / "ckpt", weights_only=True)["WdsctlDataModule"]
    module = make_data_module(path)
    module.load_state_dict(state)

    assert module.state_dict() == state


def test_checkpoint_without_state_or_of_other_job_is_refused(path: str, tmp_path: Path) -> None:
    trainer, _ = fit(make_data_module(path), 3)
    trainer.save_checkpoint(tmp_path / "ckpt")
    checkpoint = torch.load(tmp_path / "ckpt", weights_only=True)
    torch.save({**checkpoint, "WdsctlDataModule": {"states": "lost"}}, tmp_path / "damaged")
    del checkpoint["WdsctlDataModule"]
    torch.save(checkpoint, tmp_path / "without")

    with pytest.raises(LoaderError, match="step 3 has no state of WdsctlDataModule"):
        fit(make_data_module(path), 6, ckpt=tmp_path / "without")
    with pytest.raises(StateMismatch, match="not the state of a job"):
        fit(make_data_module(path), 6, ckpt=tmp_path / "damaged")
    with pytest.raises(StateMismatch, match="seed"):
        fit(make_data_module(path, seed=5), 6, ckpt=tmp_path / "ckpt")
