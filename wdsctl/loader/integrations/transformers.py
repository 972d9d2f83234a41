"""transformers: a mixin for `Trainer` that trains on wdsctl's datasets, and a callback that keeps their position."""
# ruff: noqa: ARG002 - the arguments of hooks

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from wdsctl.core.directories import resolve_parent
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.core.file_limits import MAX_INDEX_BYTES, read_whole
from wdsctl.core.files import write_pieces
from wdsctl.core.safe_open import open_named
from wdsctl.loader.integrations.dcp import WholeJob
from wdsctl.loader.integrations.sources import TrainSource, ValSource, open_loader
from wdsctl.loader.loader import Loader
from wdsctl.loader.recipe.dataset import TrainDataset, ValDataset
from wdsctl.loader.runtime.logs import logger

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object

#: In each checkpoint folder: the states of all ranks, as a list in JSON, which `wdsctl checkpoint` reads.
STATE_FILE = "wdsctl_loader.json"


class CountedBatches(DataLoader[Any]):
    """The batches of a job for `Trainer.get_train_dataloader`: a torch DataLoader that numbers the batches of an epoch.

    A `Trainer` that resumes within an epoch skips the numbers of its first batches, for which nothing is read, and so
    knows which batch is the last one. Every further number gets the next batch of the job. An epoch of an endless
    training with virtual epochs has `len(job)` batches, wherever the trainer began to count.
    """

    def __init__(self, job: WholeJob) -> None:
        batches = _NextBatch(job)
        # Each loop of a DataLoader draws from its generator, by default from that of the training.
        super().__init__(
            batches, batch_sampler=_Numbers(job, batches), collate_fn=itemgetter(0), generator=torch.Generator()
        )


class _NextBatch(Dataset[Any]):
    """The next batch of a job for each number, as the dataset of a DataLoader."""

    def __init__(self, job: WholeJob) -> None:
        self._job = job
        self._batches: Iterator[Any] | None = None

    def begin_epoch(self) -> None:
        self._batches = None

    def __getitem__(self, number: int) -> Any:
        if self._batches is None:
            self._batches = self._continue_at(number)
        return next(self._batches)

    def _continue_at(self, number: int) -> Iterator[Any]:
        loader = self._job.loader
        if loader.is_endless:
            return chain.from_iterable(repeat(self._job))  # also over the end of a virtual epoch
        length = _length(self._job)
        if length:  # without one, the trainer does not count epochs
            drawn = loader.state_dict()["batches_drawn"] // loader.worker_config.world_size % length
            if number != drawn:
                logger.warning(
                    "the trainer is at batch %d of an epoch of %d, and the training data at batch %d: no batch is "
                    "repeated or missed, but a pass over the data ends within an epoch of the trainer, maybe within an "
                    "accumulated step. Resume with the gradient_accumulation_steps of the checkpoint",
                    number,
                    length,
                    drawn,
                )
        return iter(self._job)


class _Numbers:
    """The numbers of an epoch's batches, each as a list, as the batch sampler of a DataLoader."""

    def __init__(self, job: WholeJob, batches: _NextBatch) -> None:
        self._job = job
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        self._batches.begin_epoch()
        length = _length(self._job)
        return ([number] for number in (count() if length is None else range(length)))

    def __len__(self) -> int:
        return len(self._job)


def _length(job: WholeJob) -> int | None:
    """Batches of an epoch on this rank; None if the training has no epochs of a known length."""
    try:
        return len(job)
    except TypeError:
        return None


class LoaderStateCallback(TrainerCallback):  # type: ignore[misc] # transformers has no types
    """Saves the position of the training data in each checkpoint folder, and restores it when `Trainer` resumes.

    Pass it to the constructor of `Trainer`, and return `CountedBatches(job)` from `get_train_dataloader`. `checkpoint`:
    the folder that `Trainer` resumes from, if it is not in `output_dir`.
    """

    def __init__(self, job: WholeJob, checkpoint: str = "") -> None:
        self.job = job
        self.checkpoint = checkpoint

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        """Restore the position, if `Trainer` resumes.

        Raises LoaderError WDS548 if the checkpoint has none; UsageError if `Trainer` would skip batches at a resume.
        """
        if not isinstance(train_dataloader, CountedBatches) and not args.ignore_data_skip:
            raise UsageError(
                "the trainer would skip batches at a resume that the restored loader does not repeat",
                hint="return CountedBatches(job) from get_train_dataloader",
            )
        if not state.global_step:
            return
        if args.ignore_data_skip:
            logger.warning(
                "with ignore_data_skip, the trainer counts the batches of an epoch from its resume on: steps and "
                "epochs differ from those of an undisturbed training. No batch is read twice without this option"
            )
        folder = self.checkpoint or os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        path = os.path.join(folder, STATE_FILE)
        try:
            with open_named(path) as file:
                states = read_whole(file, path, MAX_INDEX_BYTES).decode()
        except FileNotFoundError as error:
            raise LoaderError(
                f"the checkpoint of step {state.global_step} has no state of the loader",
                where=path,
                hint="resume from a checkpoint that was saved with LoaderStateCallback",
                code="WDS548",
            ) from error
        self.job.load_state_dict({"states": states})

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save the position. All ranks call this."""
        saved = self.job.state_dict()["states"]
        if args.should_save:
            folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
            write_pieces(resolve_parent(os.path.join(folder, STATE_FILE)), [saved.encode()])


class WdsctlTrainerMixin(_Trainer):  # type: ignore[misc]
    """For a `Trainer` of wdsctl's datasets: `class MyTrainer(WdsctlTrainerMixin, Trainer)`.

    `train_dataset`: a dataset, or a function without arguments that makes it. `eval_dataset`: the same, or a dict of
    these; other datasets are passed to `Trainer`. Their batches must be dicts, and `Trainer` does not collate them.
    `loader_options`: of `get_loader`.

    Checkpoints contain the position, and `train(resume_from_checkpoint=...)` continues with the next batch, on any
    number of ranks.
    """

    def __init__(
        self,
        *args: Any,
        train_dataset: TrainSource | None = None,
        eval_dataset: Any = None,
        loader_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, eval_dataset=eval_dataset, **kwargs)
        self._loader_options = loader_options or {}
        # By the id of the source, which is kept: the id of an object that is gone may be that of another one.
        self._eval_loaders: dict[int, tuple[ValSource, Loader]] = {}
        self._loader_state: LoaderStateCallback | None = None
        if train_dataset is not None:
            # TrainingArguments has initialised torch.distributed.
            self._loader_state = LoaderStateCallback(WholeJob(open_loader(train_dataset, self._loader_options)))
            self.add_callback(self._loader_state)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """`Trainer.train`. A resumed training begins with the next batch after the checkpoint."""
        if self._loader_state is not None:
            if resume_from_checkpoint is True:
                resume_from_checkpoint = get_last_checkpoint(self.args.output_dir) or True
            self._loader_state.checkpoint = resume_from_checkpoint if isinstance(resume_from_checkpoint, str) else ""
            if self._loader_state not in self.callback_handler.callbacks and self.args.save_strategy != "no":
                logger.warning(
                    "checkpoints will not have the position of the training data, as LoaderStateCallback was removed: "
                    "a resumed training would begin the data again"
                )
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def get_train_dataloader(self) -> Any:
        """The training batches. Every call continues with the next batch."""
        return super().get_train_dataloader() if self._loader_state is None else CountedBatches(self._loader_state.job)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """The batches of `eval_dataset`, or of a dataset that the constructor got.

        Raises UsageError if ranks may have unequal numbers of batches: `Trainer` would wait forever.
        """
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, str):
            dataset = self.eval_dataset[dataset]
        if not isinstance(dataset, ValDataset | TrainDataset) and not callable(dataset):
            return super().get_eval_dataloader(eval_dataset)
        return self._open_eval_loader(dataset)

    def _open_eval_loader(self, source: ValSource) -> Loader:
        if id(source) not in self._eval_loaders:
            dataset: ValDataset = source() if callable(source) else source
            if dataset.uneven == "keep" and dataset.worker_config.world_size > 1:
                raise UsageError(
                    "the evaluation data may have fewer batches on some of the "
                    f"{dataset.worker_config.world_size} ranks, and Trainer gathers every batch from all",
                    hint="get_val_dataset(..., uneven='pad')",
                )
            self._eval_loaders[id(source)] = source, open_loader(dataset, self._loader_options)
        return self._eval_loaders[id(source)][1]
