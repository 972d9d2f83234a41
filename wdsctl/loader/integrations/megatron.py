"""Megatron-Bridge and Megatron-LM: the data module, the iterator and the provider that their training loops expect.

Names and contracts are those of `megatron.bridge.data.energon` and of Megatron-LM's `examples/multimodal`. Each rank
saves its own state, without communication, since Megatron asks only the first rank of each data-parallel replica. To
resume on another number of data-parallel ranks, rewrite the files of a checkpoint first:
`wdsctl checkpoint redistribute CKPT/energon/iter_0000100 --ranks 6 --in-place`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader.energon.loader import get_loader
from wdsctl.loader.energon.wrappers import LimitDataset, RepeatDataset, WrappedLoader, cyclic_iter
from wdsctl.loader.integrations.multimodal import MultiModalSampleConfig, MultiModalTaskEncoder, count_tokens
from wdsctl.loader.loader import Loader, get_savable_loader
from wdsctl.loader.packing import Packing
from wdsctl.loader.recipe.arguments import AnyTaskEncoder, DatasetPath
from wdsctl.loader.recipe.dataset import TrainDataset, get_train_dataset, get_val_datasets
from wdsctl.loader.recipe.worker_config import WorkerConfig
from wdsctl.loader.resume.state import LoaderState
from wdsctl.loader.runtime.logs import logger


class EnergonDataloader:
    """A loader as the endless iterator of Megatron's training loop, with its state.

    `dataloader`: None on ranks that read nothing; iterating then raises StopIteration.
    """

    def __init__(self, dataloader: Loader | Iterable[Any] | None) -> None:
        self._dataloader = dataloader
        self._batches = self._begin()

    def __iter__(self) -> EnergonDataloader:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def save_state(self) -> LoaderState:
        """The state of this rank after its last batch, as JSON. Asks no other rank."""
        if not isinstance(self._dataloader, Loader):
            raise LoaderError(
                "this iterator has no loader whose state could be saved", hint="save the state of the training data"
            )
        return self._dataloader.save_state_rank()

    def restore_state(self, state: LoaderState | list[LoaderState] | None) -> None:
        """Continue from the state of this rank, of all ranks, or a merged one; at any time."""
        if not isinstance(self._dataloader, Loader):
            raise LoaderError(
                "this iterator has no loader that could be restored", hint="restore the state of the training data"
            )
        self._dataloader.restore_state_rank(state)
        self._batches = self._begin()

    def close(self) -> None:
        """End the workers and close the shards."""
        if isinstance(self._dataloader, (Loader, WrappedLoader)):
            self._dataloader.close()

    def _begin(self) -> Iterator[Any]:
        return cyclic_iter(self._dataloader) if self._dataloader is not None else iter(())


class EnergonMultiModalDataModule:
    """The data module of Megatron-Bridge, over wdsctl: training and validation batches of one dataset or blend.

    `path`: a dataset, a blend file or a metadataset. `micro_batch_size`: samples per batch of a rank; with
    `packing_buffer_size`, packs. `global_batch_size`, `decoder_seq_length`: kept for the training loop. `num_workers`,
    `num_val_workers`: processes per rank. `pin_memory`: batches are in pinned memory if there is an accelerator.
    `shuffle_buffer_size`: samples shuffled together. `max_samples_per_sequence`: neighbouring samples read together;
    None: 16 from local disks, 128 over a network. `task_encoder`: by default a `MultiModalTaskEncoder` of `tokenizer`,
    `image_processor`, `seq_length` and `multimodal_sample_config`. `validation_task_encoder`: by default the same.
    `pg_collection`: Megatron's process groups; ranks are those of its pure data-parallel group `dp`. `kwargs`: further
    arguments of `get_train_dataset`.
    """

    def __init__(  # noqa: PLR0917 - the order of Bridge's arguments
        self,
        path: DatasetPath,
        tokenizer: Any = None,
        image_processor: Any = None,
        seq_length: int = 2048,
        micro_batch_size: int = 1,
        global_batch_size: int = 1,
        num_workers: int = 1,
        num_val_workers: int | None = None,
        pin_memory: bool = True,
        shuffle_buffer_size: int = 100,
        max_samples_per_sequence: int | None = None,
        multimodal_sample_config: MultiModalSampleConfig | None = None,
        task_encoder: AnyTaskEncoder | None = None,
        decoder_seq_length: int | None = None,
        packing_buffer_size: int | None = None,
        validation_task_encoder: AnyTaskEncoder | None = None,
        pg_collection: Any = None,
        **kwargs: Any,
    ) -> None:
        self.path = path
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.seq_length = seq_length
        self.decoder_seq_length = decoder_seq_length
        self.micro_batch_size = micro_batch_size
        self.global_batch_size = global_batch_size
        self.num_workers = num_workers
        self.num_val_workers = num_workers if num_val_workers is None else num_val_workers
        self.pin_memory = pin_memory
        self.shuffle_buffer_size = shuffle_buffer_size
        self.max_samples_per_sequence = max_samples_per_sequence
        self.packing_buffer_size = packing_buffer_size
        self.pg_collection = pg_collection
        self.multimodal_sample_config = multimodal_sample_config or MultiModalSampleConfig()
        if task_encoder is None:
            task_encoder = MultiModalTaskEncoder(
                tokenizer,
                image_processor,
                seq_length=decoder_seq_length or seq_length,
                sample_config=self.multimodal_sample_config,
            )
        self.task_encoder = task_encoder
        self.validation_task_encoder = validation_task_encoder or task_encoder
        self.init_global_step = 0
        self.kwargs = kwargs
        self.train_dataloader_object: Loader | None = None
        self.val_dataloader_object: Loader | None = None

    def build(self) -> tuple[EnergonDataloader, EnergonDataloader]:
        """The iterators over training and validation batches."""
        return self.train_dataloader(), self.val_dataloader()

    def train_dataloader(self) -> EnergonDataloader:
        """The training batches. Every call returns an iterator over the same loader."""
        if self.train_dataloader_object is None:
            self.train_dataloader_object = self._make_loader(self.num_workers, "train")
        return EnergonDataloader(self.train_dataloader_object)

    def val_dataloader(self) -> EnergonDataloader:
        """The batches of the split `val`, endless and shuffled like those of training, as Megatron-Bridge has them."""
        if self.val_dataloader_object is None:
            self.val_dataloader_object = self._make_loader(self.num_val_workers, "val")
        return EnergonDataloader(self.val_dataloader_object)

    def test_dataloader(self) -> None:
        """None: this data module has no test split."""
        return

    def datasets_provider(self, worker_config: WorkerConfig, split: Literal["train", "val"] = "val") -> TrainDataset:
        """The dataset of a split. Raises UsageError for other splits than train and val."""
        if split not in ("train", "val"):
            raise UsageError(f"split is {split!r}, expected 'train' or 'val'", hint="pass 'train' or 'val'")
        encoder = self.task_encoder if split == "train" else self.validation_task_encoder
        return get_train_dataset(
            self.path,
            batch_size=self.micro_batch_size,
            task_encoder=encoder,
            worker_config=worker_config,
            **self._packing_options(encoder),
            split_part=split,
            shuffle_buffer_size=self.shuffle_buffer_size,
            max_samples_per_sequence=self.max_samples_per_sequence,
            **self.kwargs,
        )

    def _packing_options(self, encoder: AnyTaskEncoder) -> dict[str, Any]:
        """A `MultiModalTaskEncoder` has no hook that selects packs: they are planned by the number of tokens."""
        if self.packing_buffer_size is None or not isinstance(encoder, MultiModalTaskEncoder):
            return {"packing_buffer_size": self.packing_buffer_size}
        if self.micro_batch_size != 1:
            raise UsageError(
                f"micro_batch_size is {self.micro_batch_size}, and a batch of packs is one sequence",
                hint="pass micro_batch_size=1 with packing_buffer_size, or your own task_encoder",
            )
        return {"packing": Packing(length=count_tokens, capacity=encoder.seq_length, window=self.packing_buffer_size)}

    def _build_worker_config(self, num_workers: int, split: str = "train") -> WorkerConfig:  # noqa: ARG002 - Bridge's
        """Rank and size of the pure data-parallel group.

        Context-parallel ranks split the sequences of one batch, so they must not count as data-parallel ranks: each
        would read other samples.
        """
        group = getattr(self.pg_collection, "dp", None)
        if group is None:
            return WorkerConfig.default_worker_config(num_workers)
        return WorkerConfig(
            rank=group.rank(), world_size=group.size(), num_workers=num_workers, data_parallel_group=group
        )

    def _make_loader(self, num_workers: int, split: Literal["train", "val"]) -> Loader:
        dataset = self.datasets_provider(self._build_worker_config(num_workers, split), split)
        return get_savable_loader(dataset, pin_memory=self.pin_memory)


def build_dataloaders(
    path: DatasetPath,
    *,
    worker_config: WorkerConfig,
    task_encoder: AnyTaskEncoder,
    micro_batch_size: int,
    validation_batches: int,
    packing_buffer_size: int | None = None,
    state: Any = None,
    **options: Any,
) -> tuple[EnergonDataloader, list[EnergonDataloader], EnergonDataloader]:
    """The iterators over training, each validation dataset, and no test data, as Megatron-LM's loop takes them.

    `validation_batches`: of an evaluation, for each validation dataset of the blend; shorter datasets are repeated, and
    each evaluation begins with the first batch. `state`: of this rank, of all ranks, or merged. `options`: further
    arguments of `get_train_dataset`.
    """
    common: dict[str, Any] = {
        "batch_size": micro_batch_size,
        "task_encoder": task_encoder,
        "worker_config": worker_config,
        "packing_buffer_size": packing_buffer_size,
    }
    training = get_savable_loader(get_train_dataset(path, **common, **options), pin_memory=True)
    if state is not None:
        training.restore_state_rank(state)
    evaluations = [
        LimitDataset(RepeatDataset(dataset), length=validation_batches)
        for dataset, _ in get_val_datasets(path, **common)
    ]
    validations = [EnergonDataloader(get_loader(each, pin_memory=True)) for each in evaluations]
    return EnergonDataloader(training), validations, EnergonDataloader(None)


def train_valid_test_dataloaders_provider(
    train_val_test_num_samples: Any,  # noqa: ARG001 - Megatron-LM passes it; a training never ends
    task_encoder: AnyTaskEncoder | None = None,
    **options: Any,
) -> tuple[Any, Any, Any]:
    """The provider for `megatron.training.pretrain` with `--dataloader-type external`.

    Reads `--data-path`, `--micro-batch-size`, `--num-workers`, `--eval-iters`, `--packing-buffer-size`,
    `--dataloader-save`, `--load` from Megatron's arguments. Returns three times None on ranks that read nothing. A
    state that does not fit raises an error; it never starts the data again in silence.
    """
    from megatron.core import parallel_state
    from megatron.core.num_microbatches_calculator import get_num_microbatches
    from megatron.training import get_args

    if task_encoder is None:
        raise UsageError(
            "the provider needs a task encoder",
            hint="pass functools.partial(train_valid_test_dataloaders_provider, task_encoder=ENCODER) to pretrain; "
            "ENCODER can be MultiModalTaskEncoder(tokenizer, image_processor)",
        )
    stages, stage = (
        parallel_state.get_pipeline_model_parallel_world_size(),
        parallel_state.get_pipeline_model_parallel_rank(),
    )
    if parallel_state.get_tensor_model_parallel_rank() != 0 or stage not in (0, stages - 1):
        return None, None, None
    args = get_args()
    workers = WorkerConfig(
        rank=parallel_state.get_data_parallel_rank(),
        world_size=parallel_state.get_data_parallel_world_size(),
        num_workers=args.num_workers,
        data_parallel_group=parallel_state.get_data_parallel_group(),
    )
    return build_dataloaders(
        args.data_path[0] if isinstance(args.data_path, list) else args.data_path,
        worker_config=workers,
        task_encoder=task_encoder,
        micro_batch_size=args.micro_batch_size,
        validation_batches=args.eval_iters * get_num_microbatches(),
        packing_buffer_size=getattr(args, "packing_buffer_size", None),
        state=_load_state(args, workers.rank),
        **options,
    )


def _load_state(args: Any, rank: int) -> Any:
    """The state of a data-parallel rank in the checkpoint that Megatron-LM continues from; None at a new start.

    Raises LoaderError if a training continues and the checkpoint has no state of this rank. Without
    `--dataloader-save`, logs a warning instead.
    """
    folder = getattr(args, "dataloader_save", None)
    if args.load is None:
        return None
    if not folder:
        if args.iteration:
            logger.warning(
                "the training continues at iteration %s, but begins the data again: pass --dataloader-save",
                args.iteration,
            )
        return None
    import torch
    from megatron.training.checkpointing import get_checkpoint_name

    path = get_checkpoint_name(
        folder, args.iteration, pipeline_rank=0, basename=f"train_dataloader_dprank{rank:03d}.pt"
    )
    if os.path.exists(path):
        return torch.load(path, map_location="cpu", weights_only=True)["dataloader_state_dict"]
    if os.path.isdir(os.path.dirname(path)):
        raise LoaderError(
            f"the checkpoint has no loader state of data-parallel rank {rank}",
            where=path,
            hint=f"wdsctl checkpoint redistribute {os.path.dirname(path)} --ranks N --in-place",
            code="WDS547",
        )
    if args.iteration:
        raise LoaderError(
            f"the checkpoint of iteration {args.iteration} has no state of the loader",
            where=os.path.dirname(path),
            hint="pass the folder that the states were saved to as --dataloader-save",
            code="WDS548",
        )
    return None
