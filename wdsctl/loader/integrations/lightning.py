"""Lightning (the package `lightning`): a data module whose checkpoints keep the position of the whole job."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from lightning import LightningDataModule

from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader.integrations.dcp import WholeJob
from wdsctl.loader.integrations.sources import TrainSource, ValSource, open_loader
from wdsctl.loader.loader import Loader


class WdsctlDataModule(LightningDataModule):  # type: ignore[misc] # checked without Lightning
    """The batches of datasets for `Trainer.fit`, `validate` and `test`: `Trainer().fit(model, datamodule=data)`.

    `train`, `val`, `test`: datasets, or functions without arguments that make them. With several ranks, pass functions,
    because the ranks do not exist before `fit`. `val` and `test` may be lists of these. `loader_options`: of
    `get_loader`.

    Each checkpoint has the position after the last batch that the training step got, for all ranks at once: any number
    of ranks can resume from it, also without a length, when Lightning draws a batch ahead. `trainer.save_checkpoint`
    must be called on all ranks, as Lightning says.
    """

    def __init__(
        self,
        train: TrainSource | None = None,
        val: ValSource | Sequence[ValSource] | None = None,
        test: ValSource | Sequence[ValSource] | None = None,
        **loader_options: Any,
    ) -> None:
        super().__init__()
        self.train_source, self.val_source, self.test_source = train, val, test
        self._loader_options = loader_options
        self._job: WholeJob | None = None
        self._loaded_state: dict[str, str] | None = None
        self._evaluation_loaders: dict[str, list[Loader]] = {}

    def train_dataloader(self) -> TrainBatches:
        """The training batches. Every call continues with the next batch.

        Raises LoaderError WDS548 if the run resumes from a checkpoint without the position.
        """
        if self.train_source is None:
            raise UsageError("this data module has no training data", hint="WdsctlDataModule(train=...)")
        if self._job is None:
            self._job = WholeJob(open_loader(self.train_source, self._loader_options))
            if self._loaded_state is not None:
                self._job.load_state_dict(self._loaded_state)
            elif self.trainer is not None and self.trainer.ckpt_path and self.trainer.global_step:
                raise LoaderError(
                    f"the checkpoint of step {self.trainer.global_step} has no state of {type(self).__qualname__}",
                    where=str(self.trainer.ckpt_path),
                    hint="resume with the data module class that saved it",
                    code="WDS548",
                )
        return TrainBatches(self._job, is_ahead=self._draws_ahead(self._job))

    def val_dataloader(self) -> list[Loader]:
        """The loaders of `val`; none without."""
        return self._evaluate("val", self.val_source)

    def test_dataloader(self) -> list[Loader]:
        """The loaders of `test`; none without."""
        return self._evaluate("test", self.test_source)

    def state_dict(self) -> dict[str, Any]:
        """The states of all ranks. All ranks must call it, see `WholeJob`."""
        if self._job is not None:
            return self._job.state_dict()
        return self._loaded_state or {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the states of all ranks, on any number of ranks."""
        self._loaded_state = state_dict
        if self._job is not None:
            self._job.load_state_dict(state_dict)

    def teardown(self, stage: str) -> None:  # noqa: ARG002 - an argument of the hook
        """End the workers. The next `fit` of this data module continues with the next batch."""
        for loaders in self._evaluation_loaders.values():
            for loader in loaders:
                loader.close()
        if self._job is not None:
            self._job.close()

    def _evaluate(self, name: str, sources: ValSource | Sequence[ValSource] | None) -> list[Loader]:
        if name not in self._evaluation_loaders:
            listed = sources if isinstance(sources, Sequence) else [] if sources is None else [sources]
            self._evaluation_loaders[name] = [open_loader(source, self._loader_options) for source in listed]
        return self._evaluation_loaders[name]

    def _draws_ahead(self, job: WholeJob) -> bool:
        """Whether Lightning draws each batch one step early, because it does not know which batch is the last."""
        try:
            len(job)
        except TypeError:
            trainer = self.trainer
            if trainer is None or isinstance(trainer.limit_train_batches, int):
                return False
            return "dataloader_iter" not in inspect.signature(trainer.lightning_module.training_step).parameters
        return False


class TrainBatches:
    """Batches for Lightning. The data module keeps the state, so that its own state is empty.

    `is_ahead`: a batch counts as handed out when the next one is drawn.
    """

    def __init__(self, job: WholeJob, *, is_ahead: bool) -> None:
        self.job = job
        self._is_ahead = is_ahead

    def __iter__(self) -> Iterator[Any]:
        if not self._is_ahead:
            return iter(self.job)
        parts = self.job.loader.unbatched(lambda batch: (batch, _IS_ACCEPTED))
        return (part for part in parts if part is not _IS_ACCEPTED)

    def __len__(self) -> int:
        return len(self.job)

    def __bool__(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """Nothing. Without this method, Lightning warns that the position is lost."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing: the data module restores the position."""


_IS_ACCEPTED = object()
