"""The user's hooks as stages, and as facts for the plan. A hook that is not overridden becomes nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from wdsctl.core.keys import derive
from wdsctl.core.sample_types import CRUDE
from wdsctl.loader.bans import Bans
from wdsctl.loader.cache.pool import NoCachePool
from wdsctl.loader.cooking import cooker_for
from wdsctl.loader.cooks import cook_of
from wdsctl.loader.dataset import Dataset, TrainDataset
from wdsctl.loader.determinism import twice
from wdsctl.loader.hook_options import hook_options
from wdsctl.loader.packing import PlannedPackStage
from wdsctl.loader.packing.stage import MERGE
from wdsctl.loader.pipeline import PackStageLike, Pipeline, Schedule
from wdsctl.loader.plan import Plan, digest
from wdsctl.loader.source import Source
from wdsctl.loader.stages.batches import BatchStage
from wdsctl.loader.stages.bulk import BulkStage
from wdsctl.loader.stages.grouping import Criterion, GroupStage
from wdsctl.loader.stages.hook import Hook
from wdsctl.loader.stages.packing import PackStage
from wdsctl.loader.stages.refs import RefStage
from wdsctl.loader.stages.samples import SampleStage
from wdsctl.loader.streams import Streams
from wdsctl.loader.task_encoder import HOOKS, batch_function, config, is_conversion, overridden
from wdsctl.loader.unlike_sources import check_sources, never_together, nobody_knows

LEAST_WINDOW = 64  # samples that packs are planned of, however few a lane has
LEAST_PATIENCE = 10_000  # samples: of a few hundred, a lane that sees every eighth may well miss the only good one


def pipeline_of(dataset: Dataset, streams: Streams, bans: Bans, passes: int = 0) -> Pipeline:
    """The recipe of every lane. `passes`: which pass of a finite run it is for."""
    is_finite = not (isinstance(dataset, TrainDataset) and dataset.repeat)
    refs = RefStage(
        arms=streams.arms,
        blends=streams.blends,
        key=derive("mix", dataset.seed, dataset.worker_config.seed_offset),
        is_finite=is_finite,
        epoch=order_of_pass(dataset, passes) if is_finite else 0,
    )
    patience = max(streams.samples, LEAST_PATIENCE)
    samples = SampleStage(_cooks(dataset, streams), _sample_hooks(dataset), patience)
    pack, group = _pack(dataset, streams, patience), _group(dataset, streams)
    is_batched = dataset.batch_size is not None or group is not None
    is_plain = pack is None and group is None and samples.is_plain
    batch = _batch(dataset, streams, patience, is_batched=is_batched, is_plain=is_plain)
    bulk = None
    if is_plain and not bans.entries and _makes_no_samples(dataset):
        bulk = BulkStage(dataset.batch_size or 1)
    return Pipeline(
        refs=refs,
        samples=samples,
        pack=pack,
        group=group,
        batch=batch,
        bulk=bulk,
        handler=dataset.worker_config.global_error_handler,
        bans=bans,
        drop_last=dataset.batch_drop_last,
        schedule=Schedule(streams.begins),
        refuses_changed=dataset.changed_shards == "error",
    )


def order_of_pass(dataset: Dataset, passes: int) -> int:
    """The epoch of the order that a finite pass takes: the next one in trainings, in validations always the first."""
    return passes if isinstance(dataset, TrainDataset) else 0


def lane_plan(dataset: Dataset, streams: Streams) -> Plan:
    """The plan of a stream of lanes."""
    return Plan(streams.order, recipe(dataset, streams), streams.names, stores_digest(streams))


def recipe(dataset: Dataset, streams: Streams) -> dict[str, Any]:
    """The recipe's tier of the fingerprint."""
    fields = sorted({(source.sample_type, str(source.field_map)) for source in streams.sources})
    packing = dataset.packing.config() if dataset.packing is not None else dataset.packing_buffer_size
    return {
        "batch_size": dataset.batch_size,
        "packing": packing,
        "buckets": dataset.buckets.config() if dataset.buckets is not None else None,
        "encoder": config(dataset.task_encoder),
        "fields": [list(each) for each in fields],
    }


def stores_digest(streams: Streams) -> dict[str, str]:
    """What auxiliary stores hold, by their names in blend files: 8 hex digits for all of one name."""
    names = sorted({name for source in streams.sources for name in source.aux})
    held = {name: [[s.number, s.aux[name].digest] for s in streams.sources if name in s.aux] for name in names}
    return {name: digest(each)[:8] for name, each in held.items()}


def draws_randomly(dataset: Dataset) -> bool:
    """Whether any hook runs that may draw random numbers: only then are the caller's generators put aside."""
    encoder = dataset.task_encoder
    return bool(encoder.cookers) or any(overridden(encoder, hook) for hook in HOOKS)


def _sample_hooks(dataset: Dataset) -> tuple[Hook, ...]:
    """Those that see one sample at a time, before packing."""
    names = ["encode_sample", "preencode_sample"]
    if dataset.packing is None and dataset.packing_buffer_size is None:
        names.append("postencode_sample")
    return tuple(_hook(dataset, name) for name in names if overridden(dataset.task_encoder, name))


def _cooks(dataset: Dataset, streams: Streams) -> dict[int, Hook]:
    """For each source of crude samples, where the encoder has cookers: what cooks them."""
    encoder = dataset.task_encoder
    if not encoder.cookers:
        return {}
    cooks = {}
    pool = dataset.cache_pool or NoCachePool()
    for source in streams.sources:
        if source.sample_type == CRUDE and not source.is_member:
            cooker = cooker_for(encoder.cookers, source.subflavors, source.dataset_path)
            is_own = overridden(encoder, "cook_crude_sample")
            call = cook_of(encoder.cook_crude_sample, cooker, source, pool, is_own=is_own)
            cooks[source.number] = _named(
                dataset, "cook_crude_sample", call, hook_options(cooker.cook).failure_tolerance
            )
    return cooks


def _pack(dataset: Dataset, streams: Streams, patience: int) -> PackStageLike | None:
    encoder = dataset.task_encoder
    post = _hook(dataset, "postencode_sample") if overridden(encoder, "postencode_sample") else None
    if dataset.packing is not None:
        packs = overridden(encoder, "pack_selected_samples")
        pack = _hook(dataset, "pack_selected_samples") if packs else MERGE
        # A window that spans several passes could put a sample into a pack twice.
        share = max(LEAST_WINDOW, streams.least_samples // streams.sizes.lanes)
        packing = replace(dataset.packing, window=min(dataset.packing.window, share))
        return PlannedPackStage(packing, pack, post, patience)
    if dataset.packing_buffer_size is None:
        return None
    select = _hook(dataset, "select_samples_to_pack")
    return PackStage(dataset.packing_buffer_size, select, _hook(dataset, "pack_selected_samples"), post, patience)


def _group(dataset: Dataset, streams: Streams) -> GroupStage | None:
    if dataset.buckets is not None:
        criterion: Criterion = dataset.buckets.criterion(lambda number, name: streams.sources[number].column(name))
    elif overridden(dataset.task_encoder, "batch_group_criterion"):
        criterion = dataset.task_encoder.batch_group_criterion
    else:
        return None
    if dataset.twice:
        criterion = twice("batch_group_criterion", criterion)
    return GroupStage(criterion, dataset.batch_size, dataset.most_waiting, dataset.batch_drop_last)


def _are_apart(sources: Sequence[Source], one: int, other: int) -> bool:
    return never_together(sources[one], sources[other])


def _batch(dataset: Dataset, streams: Streams, patience: int, *, is_batched: bool, is_plain: bool) -> BatchStage:
    """`is_plain`: samples go into batches as they were read."""
    encoder = dataset.task_encoder
    memories = streams.sources[0].memories
    is_hook = overridden(encoder, "batch") and not is_conversion(encoder, "batch")
    are_as_read = is_plain and not overridden(encoder, "batch")
    # Where weights change, sources may have none at one time: the first batch that has both tells.
    if are_as_read and len(streams.arms) > 1 and len(streams.blends) == 1 and (dataset.batch_size or 1) > 1:
        check_sources([source for sources in streams.datasets for source in sources])
    return BatchStage(
        size=dataset.batch_size,
        is_batched=is_batched,
        batch=batch_function(encoder, memories),
        batch_hook=_hook(dataset, "batch") if is_hook and is_batched else None,
        encode_batch=_hook(dataset, "encode_batch") if overridden(encoder, "encode_batch") and is_batched else None,
        memories=memories,
        patience=patience,
        are_apart=partial(_are_apart, streams.sources) if are_as_read else nobody_knows,
    )


def _makes_no_samples(dataset: Dataset) -> bool:
    """Whether a batch is made of bytes as they are, and nobody looks at its samples."""
    return dataset.batch_size is not None and dataset.task_encoder.decoder is None and not draws_randomly(dataset)


def _hook(dataset: Dataset, name: str) -> Hook:
    call = getattr(dataset.task_encoder, name)
    return _named(dataset, name, call, hook_options(call).failure_tolerance)


def _named(dataset: Dataset, name: str, call: Any, tolerance: int | None) -> Hook:
    return Hook(name, twice(name, call) if dataset.twice else call, _key(dataset, name), tolerance)


def _key(dataset: Dataset, hook: str) -> int:
    return derive("hook", hook, dataset.seed, dataset.worker_config.seed_offset)
