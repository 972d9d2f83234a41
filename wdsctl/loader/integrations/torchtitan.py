"""torchtitan: a `BaseDataLoader` over a wdsctl dataset, whose state any data-parallel degree can restore.

Name it in a configuration: `dataloader=WdsctlDataLoader.Config(dataset_path="shards", task_encoder=Encoder())`. In
torchtitan until 0.2, a `TrainSpec` names functions instead: `build_dataloader_fn=WdsctlDataLoader.builder(config)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.integrations.dcp import WholeJob
from wdsctl.loader.loader import get_loader
from wdsctl.loader.recipe.dataset import get_train_dataset
from wdsctl.loader.recipe.worker_config import WorkerConfig

try:
    from torchtitan.components.data import BaseDataLoader
except ImportError:  # until 0.3
    from torchtitan.components.dataloader import BaseDataLoader


@dataclass(kw_only=True, slots=True)
class _Config:
    """The fields that the configurations of all loaders have since torchtitan 0.3."""

    dataset: str = ""
    dataset_path: str | None = None


#: Whether loaders have configurations; models take `positions` since the same version, 0.3.
_HAS_CONFIG = hasattr(BaseDataLoader, "Config")
_BaseConfig: Any = getattr(BaseDataLoader, "Config", _Config)

#: torchtitan's batch: the model's arguments, of which `input` is the first one, and the labels.
TrainerBatch = tuple[dict[str, Any], torch.Tensor]


def to_trainer_batch(batch: Any) -> TrainerBatch:
    """The batch of a task encoder as torchtitan's: a dict or Batch with `input` (or `input_ids`) and `labels`.

    Other values are passed on by their names, such as `positions`. Without `positions`, each row is one document.
    """
    values = {name: batch[name] for name in batch.keys() if not name.startswith("__")}  # noqa: SIM118 - a Batch is no dict
    tokens = values.pop("input", None)
    tokens = values.pop("input_ids", None) if tokens is None else tokens
    labels = values.pop("labels", None)
    if tokens is None or labels is None:
        raise LoaderError(
            f"torchtitan needs 'input' and 'labels' in a batch, which has {', '.join(sorted(batch.keys()))}",
            hint="return a dict with these from encode_batch, or pass to_batch=",
        )
    if "positions" not in values and _HAS_CONFIG:
        values["positions"] = torch.arange(tokens.shape[-1]).expand(tokens.shape).contiguous()
    return {"input": tokens, **values}, labels


class WdsctlDataLoader(BaseDataLoader):  # type: ignore[misc] # checked without torchtitan
    """The batches of one data-parallel rank, as torchtitan asks for them.

    Batches have torchtitan's `local_batch_size` samples, if the configuration has no `batch_size`.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(_BaseConfig):  # type: ignore[misc]
        """`dataset_path`: of a dataset or a blend file. `split`: such as "val", for `Validator.Config.dataloader`.

        `repeat`, `infinite`: whether the data is endless; torchtitan's validator sets one of them. `options`: further
        arguments of `get_train_dataset`.
        """

        split: str = "train"
        task_encoder: Any = None
        to_batch: Callable[[Any], TrainerBatch] = to_trainer_batch
        batch_size: int | None = None
        num_workers: int = 0
        repeat: bool = True
        infinite: bool = True
        options: dict[str, Any] = field(default_factory=dict)

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        local_batch_size: int | None = None,
        dp_group: Any = None,
        **_torchtitan: Any,
    ) -> None:
        endless = config.repeat and config.infinite
        options = dict(config.options)
        if config.task_encoder is not None:
            options["task_encoder"] = config.task_encoder
        if not endless:
            options |= {"repeat": False, "uneven": "drop"}  # a rank with more batches would wait for the others
        dataset = get_train_dataset(
            config.dataset_path or config.dataset,
            split_part=config.split,
            batch_size=config.batch_size or local_batch_size or 1,
            worker_config=WorkerConfig(
                rank=dp_rank,
                world_size=dp_world_size,
                num_workers=config.num_workers,
                data_parallel_group=dp_group,
            ),
            **options,
        )
        self.config = config
        self.job = WholeJob(get_loader(dataset))

    @classmethod
    def builder(cls, config: Config) -> Callable[..., WdsctlDataLoader]:
        """For `TrainSpec.build_dataloader_fn` of torchtitan until 0.2."""

        def build(*, dp_world_size: int, dp_rank: int, job_config: Any, infinite: bool = True, **_: Any) -> Any:
            batch_size = job_config.training.local_batch_size
            of_pass = replace(config, infinite=infinite)
            return cls(of_pass, dp_world_size=dp_world_size, dp_rank=dp_rank, local_batch_size=batch_size)

        return build

    def __iter__(self) -> Iterator[TrainerBatch]:
        return map(self.config.to_batch, self.job)

    def __bool__(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """The states of all ranks, which must call it together: see `WholeJob`."""
        return self.job.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the states of all ranks, on any data-parallel degree."""
        self.job.load_state_dict(state_dict)

    def close(self) -> None:
        """End the workers."""
        self.job.close()
