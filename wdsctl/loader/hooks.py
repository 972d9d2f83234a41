"""The user's hooks as stages, and as facts for the plan. A hook that is not overridden becomes nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wdsctl.core.keys import derive
from wdsctl.loader.dataset import TrainDataset, ValDataset
from wdsctl.loader.decoding import BatchMemory
from wdsctl.loader.source import Source
from wdsctl.loader.stages.batch import BatchStage
from wdsctl.loader.stages.bulk import BulkStage
from wdsctl.loader.stages.encode import EncodeStage
from wdsctl.loader.stats import Stats
from wdsctl.loader.task_encoder import batch_function, config, overridden

Dataset = TrainDataset | ValDataset


LEAST_PATIENCE = 10_000  # samples: of a few hundred, a lane that sees every eighth may well miss the only good one


def encode_stage(dataset: Dataset, samples: int, stats: Stats) -> EncodeStage | None:
    """The stage of `encode_sample`, or None where it is not overridden."""
    encoder = dataset.task_encoder
    if not overridden(encoder, "encode_sample"):
        return None
    return EncodeStage(encoder.encode_sample, _key(dataset, "encode_sample"), max(samples, LEAST_PATIENCE), stats)


def batch_stage(dataset: Dataset, memories: Sequence[BatchMemory], stats: Stats) -> BatchStage:
    encoder = dataset.task_encoder
    return BatchStage(
        size=dataset.batch_size,
        batch=batch_function(encoder, memories),
        seeds_batch=overridden(encoder, "batch"),
        encode_batch=encoder.encode_batch if overridden(encoder, "encode_batch") else None,
        memories=memories,
        key=_key(dataset, "batch"),
        stats=stats,
    )


def bulk_stage(dataset: Dataset, source: Source, ordinary: BatchStage) -> BulkStage | None:
    """The stage that makes batches without samples, or None where a hook or a decoder wants to see them."""
    if dataset.batch_size is None or dataset.task_encoder.decoder is not None or draws_randomly(dataset):
        return None
    return BulkStage(source, dataset.batch_size, ordinary.make, ordinary.stats)


def draws_randomly(dataset: Dataset) -> bool:
    """Whether any hook runs that may draw random numbers: only then are the caller's generators put aside."""
    return any(overridden(dataset.task_encoder, hook) for hook in ("encode_sample", "batch", "encode_batch"))


def recipe(dataset: Dataset, source: Source) -> dict[str, Any]:
    """The recipe's tier of the fingerprint."""
    fields = {"sample_type": source.sample_type, "field_map": source.field_map}
    return {"batch_size": dataset.batch_size, "encoder": config(dataset.task_encoder), "fields": fields}


def _key(dataset: Dataset, hook: str) -> int:
    return derive("hook", hook, dataset.seed, dataset.worker_config.seed_offset)
