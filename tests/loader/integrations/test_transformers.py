"""transformers' Trainer on wdsctl's datasets: checkpoint contents, resumes and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.loader.datasets import Raw, a_dataset
from wdsctl.core.checkpoint.checkpoint import inspect_checkpoint
from wdsctl.core.errors import LoaderError, StateMismatch, UsageError
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.integrations.dcp import WholeJob

transformers = pytest.importorskip("transformers", reason="`make interop` installs it")
pytest.importorskip("accelerate", reason="`make interop` installs it")

from wdsctl.loader.integrations.transformers import (  # noqa: E402 - after the check that transformers is installed
    STATE_FILE,
    CountedBatches,
    LoaderStateCallback,
    WdsctlTrainerMixin,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of transformers


class Dicts(Raw):
    def encode_batch(self, batch: Any) -> dict[str, Any]:
        return {"keys": batch.__key__, "labels": torch.ones(len(batch.__key__))}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(1, 1)
        self.trained: list[Any] = []
        self.evaluated = 0

    def forward(self, keys: list[str], labels: Any) -> dict[str, Any]:
        if self.training:
            self.trained.append(keys)
        else:
            self.evaluated += 1
        answer = self.layer(torch.tensor([[float(key) / 100] for key in keys]))
        return {"loss": (answer - 1).square().sum(), "logits": labels}


class Trainer(WdsctlTrainerMixin, transformers.Trainer):  # type: ignore[misc, name-defined] # checked without it
    pass


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(
        tmp_path_factory.mktemp("data") / "shards", 100, split={"train": 0.8, "val": 0.2}, split_by="sample"
    )


def trainer(path: str, folder: Path, steps: int, **options: Any) -> Trainer:
    settings = {
        "max_steps": steps,
        "save_steps": 4,
        "eval_strategy": "steps",
        "eval_steps": 3,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
    }
    dataset = get_train_dataset(path, batch_size=4, lanes=6, task_encoder=Dicts(), **options)
    evaluation = {"val": lambda: get_val_dataset(path, batch_size=4, task_encoder=Dicts())}
    args = transformers.TrainingArguments(str(folder), **settings)
    return Trainer(Model(), args, train_dataset=dataset, eval_dataset=evaluation)


def test_resumed_trainer_continues_and_checkpoint_is_inspectable(path: str, tmp_path: Path) -> None:
    uninterrupted = trainer(path, tmp_path / "alone", 9)
    uninterrupted.train()
    first = trainer(path, tmp_path / "run", 6)
    first.train()

    resumed = trainer(path, tmp_path / "run", 9)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-4"))

    assert uninterrupted.model.trained == first.model.trained[:4] + resumed.model.trained
    report = inspect_checkpoint([str(tmp_path / "run" / "checkpoint-4" / STATE_FILE)])
    assert (report.problem, len(report.states)) == ("", 1)
    assert set(resumed.evaluate()) >= {"eval_val_loss"}
    assert resumed.model.evaluated == 3 * 5


def test_checkpoint_without_state_or_of_other_job_is_refused(path: str, tmp_path: Path) -> None:
    trainer(path, tmp_path, 4).train()

    with pytest.raises(StateMismatch, match="seed"):
        trainer(path, tmp_path, 8, seed=5).train(resume_from_checkpoint=True)
    (tmp_path / "checkpoint-4" / STATE_FILE).write_text(json.dumps([]), encoding="utf-8")
    with pytest.raises((StateMismatch, UsageError)):
        trainer(path, tmp_path, 8).train(resume_from_checkpoint=True)
    (tmp_path / "checkpoint-4" / STATE_FILE).unlink()
    with pytest.raises(LoaderError, match="step 4 has no state of the loader"):
        trainer(path, tmp_path, 8).train(resume_from_checkpoint=True)


class Losses(transformers.TrainerCallback):  # type: ignore[misc, name-defined] # checked without it
    """What a trainer logs at each step: step, loss, epoch."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, float, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        if "loss" in logs:
            self.rows.append((state.global_step, logs["loss"], logs["epoch"]))


@pytest.mark.parametrize(
    ("accumulated", "data", "length"),
    [
        (4, {"virtual_epoch_length": 6}, {"num_train_epochs": 2}),
        (5, {"repeat": False, "uneven": "drop"}, {"max_steps": 9}),
        (3, {}, {"max_steps": 4}),
    ],
)
def test_training_resumed_at_any_step_logs_losses_and_epochs_of_undisturbed_one(
    path: str, tmp_path: Path, accumulated: int, data: dict[str, Any], length: dict[str, int]
) -> None:
    """Also within epochs whose batches the accumulation does not divide."""

    def train(checkpoint: str | None = None, **saving: Any) -> list[tuple[int, float, float]]:
        settings = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "logging_steps": 1, "learning_rate": 0.1}
        args = transformers.TrainingArguments(
            str(tmp_path), gradient_accumulation_steps=accumulated, **settings, **length, **saving
        )
        dataset = get_train_dataset(path, batch_size=4, lanes=6, task_encoder=Dicts(), **data)
        losses = Losses()
        Trainer(Model(), args, train_dataset=dataset, callbacks=[losses]).train(resume_from_checkpoint=checkpoint)
        return losses.rows

    undisturbed = train(save_steps=1)

    assert len(undisturbed) == {4: 4, 5: 9, 3: 4}[accumulated]
    for step in range(1, len(undisturbed)):
        assert train(str(tmp_path / f"checkpoint-{step}"), save_strategy="no") == undisturbed[step:]


def test_trainer_that_skips_batches_on_resume_is_refused(path: str, tmp_path: Path) -> None:
    job = WholeJob(get_loader(get_train_dataset(path, batch_size=4, task_encoder=Dicts())))
    args = SimpleNamespace(ignore_data_skip=False, output_dir=str(tmp_path))
    begin = LoaderStateCallback(job).on_train_begin

    with pytest.raises(UsageError, match="would skip batches"):
        begin(args, SimpleNamespace(global_step=0), None, train_dataloader=job)
    begin(args, SimpleNamespace(global_step=0), None, train_dataloader=CountedBatches(job))


def test_evaluation_with_uneven_batches_on_ranks_is_refused(path: str, tmp_path: Path) -> None:
    uneven = get_val_dataset(path, batch_size=4, worker_config=WorkerConfig(rank=0, world_size=2))

    with pytest.raises(UsageError, match="fewer batches on some of the 2 ranks"):
        trainer(path, tmp_path, 1).get_eval_dataloader(uneven)


def test_evaluation_opens_dataset_of_each_function(path: str, tmp_path: Path) -> None:
    """Functions that are freed after the call, whose ids later functions get."""
    evaluated = trainer(path, tmp_path, 1)
    counts = [
        len(evaluated.get_eval_dataloader(lambda size=size: get_val_dataset(path, batch_size=size)))
        for size in (1, 2, 4, 10)
    ]

    assert counts == [20, 10, 5, 2]


def test_trainer_warns_without_loader_state_callback(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    without_callback = trainer(path, tmp_path, 1)
    without_callback.remove_callback(LoaderStateCallback)

    without_callback.train()

    assert "checkpoints will not have the position" in caplog.text
