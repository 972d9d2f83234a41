"""Builds the pipeline of a dataset: the user's hooks as stages, and as facts of the plan.

A hook that is not overridden becomes no stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from inspect import isgeneratorfunction
from typing import Any

from wdsctl.core.hashing import derive_seed, json_digest
from wdsctl.core.samples.types import CRUDE
from wdsctl.loader.packing import PlannedPackStage
from wdsctl.loader.packing.hook_stage import HookPackStage
from wdsctl.loader.packing.planned_stage import DEFAULT_PACK_HOOK
from wdsctl.loader.pipeline.batches import BatchStage
from wdsctl.loader.pipeline.bulk import BulkStage
from wdsctl.loader.pipeline.grouping import GroupCriterion, GroupStage
from wdsctl.loader.pipeline.pipeline import PackStageLike, Pipeline
from wdsctl.loader.pipeline.references import RefStage
from wdsctl.loader.pipeline.samples import SampleStage
from wdsctl.loader.plan.bans import Bans
from wdsctl.loader.plan.incompatible_sources import (
    are_incompatible,
    assume_not_incompatible,
    check_compatible,
    check_like_samples,
)
from wdsctl.loader.plan.open_blend import OpenBlend
from wdsctl.loader.plan.plan import LoaderPlan
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.recipe.dataset import MAX_WAITING_SAMPLES, BaseDataset, TrainDataset
from wdsctl.loader.recipe.determinism import with_determinism_check
from wdsctl.loader.recipe.hooks import hook_options
from wdsctl.loader.recipe.task_encoder import HOOKS, batch_function, is_conversion, is_overridden, task_encoder_config
from wdsctl.loader.runtime.stage import Hook
from wdsctl.loader.stores.cache import NoCachePool
from wdsctl.loader.stores.cookers import bind_cooker, find_cooker

MIN_WINDOW_SAMPLES = 64  # of a packing window, however few samples a lane has
MIN_EMPTY_DRAW_LIMIT = (
    10_000  # samples: in a small dataset, a lane with every eighth sample may miss the only good one for long
)


def build_pipeline(dataset: BaseDataset, streams: OpenBlend, bans: Bans, pass_number: int = 0) -> Pipeline:
    """The recipe of every lane. `pass_number`: the pass of a finite run that it is for."""
    is_finite = not (isinstance(dataset, TrainDataset) and dataset.repeat)
    refs = RefStage(
        components=streams.components,
        blends=streams.mixtures,
        mix_seed=derive_seed("mix", dataset.seed, dataset.worker_config.seed_offset),
        is_finite=is_finite,
        epoch=epoch_of_pass(dataset, pass_number) if is_finite else 0,
    )
    max_empty_draws = max(streams.samples, MIN_EMPTY_DRAW_LIMIT)
    samples = SampleStage(_cook_hooks(dataset, streams), _sample_hooks(dataset), max_empty_draws)
    pack, group = _pack_stage(dataset, streams, max_empty_draws), _group_stage(dataset, streams)
    is_batched = dataset.batch_size is not None or group is not None
    is_plain = pack is None and group is None and samples.is_plain
    batch = _batch_stage(dataset, streams, max_empty_draws, is_batched=is_batched, is_plain=is_plain)
    # Batches of undecoded bytes, if no hook sees their samples.
    has_plain_bytes = is_plain and dataset.task_encoder.decoder is None and not has_random_hooks(dataset)
    bulk = BulkStage(dataset.batch_size) if has_plain_bytes and dataset.batch_size and not bans.entries else None
    return Pipeline(
        refs=refs,
        samples=samples,
        pack=pack,
        group=group,
        batch=batch,
        bulk=bulk,
        error_handler=dataset.error_handler or dataset.worker_config.global_error_handler,
        bans=bans,
        drop_last=dataset.batch_drop_last,
        segment_starts=streams.begin_batches,
        changed_shards=dataset.changed_shards,
        remote_sources=tuple(each for each in (*streams.sources, *streams.past_sources) if each.is_remote),
    )


def epoch_of_pass(dataset: BaseDataset, pass_number: int) -> int:
    """The epoch of the order that a finite pass reads: trainings take the next one, validations always the first."""
    return pass_number if isinstance(dataset, TrainDataset) else 0


def build_lane_plan(dataset: BaseDataset, streams: OpenBlend) -> LoaderPlan:
    """The plan of a run by lanes."""
    return make_plan(dataset, streams, streams.order_facts)


def make_plan(dataset: BaseDataset, streams: OpenBlend, order_facts: dict[str, Any]) -> LoaderPlan:
    held = [[source.number, *sorted(map(repr, source.subflavors.items()))] for source in streams.sources]
    return LoaderPlan(
        order_facts,
        recipe_facts(dataset, streams),
        streams.component_names,
        store_digests(streams),
        json_digest(held)[:8] if any(source.subflavors for source in streams.sources) else "",
    )


def recipe_facts(dataset: BaseDataset, streams: OpenBlend) -> dict[str, Any]:
    """The facts of the fingerprint's recipe tier."""
    fields = sorted({(source.sample_type, str(source.field_facts)) for source in streams.sources})
    packing = dataset.packing.config() if dataset.packing is not None else dataset.packing_buffer_size
    groups = dataset.buckets is not None or is_overridden(dataset.task_encoder, "batch_group_criterion")
    is_default_waiting = not groups or dataset.most_waiting == MAX_WAITING_SAMPLES
    return {
        "batch_size": dataset.batch_size,
        "packing": packing,
        "buckets": dataset.buckets.config() if dataset.buckets is not None else None,
        "encoder": task_encoder_config(dataset.task_encoder),
        "fields": [list(each) for each in fields],
        **({} if is_default_waiting else {"most_waiting": dataset.most_waiting}),
    }


def store_digests(streams: OpenBlend) -> dict[str, str]:
    """The contents of auxiliary stores, by their names in blend files: 8 hex digits for all stores of one name."""
    names = sorted({name for source in streams.sources for name in source.stores})
    held = {name: [[s.number, s.stores[name].digest] for s in streams.sources if name in s.stores] for name in names}
    return {name: json_digest(each)[:8] for name, each in held.items()}


def has_random_hooks(dataset: BaseDataset) -> bool:
    """Whether any hook or function of the user may draw random numbers: only then are the caller's generators
    preserved."""
    encoder = dataset.task_encoder
    measures = [*dataset.packing.lengths.values()] if dataset.packing is not None else []
    measures += [dataset.buckets.of] if dataset.buckets is not None else []
    return bool(encoder.cookers) or any(map(callable, measures)) or any(is_overridden(encoder, hook) for hook in HOOKS)


def can_multiply_batches(dataset: BaseDataset) -> bool:
    """Whether a hook may make several batches of the samples of one: without a batch size, every sample is one."""
    encoder: Any = dataset.task_encoder
    names = HOOKS if dataset.batch_size is None else ("batch", "encode_batch")
    hooks = [cooker.cook for cooker in encoder.cookers] if dataset.batch_size is None else []
    while encoder is not None:  # a wrapper, and the encoder in it
        # Also of base classes: a hook may return what `super()` returns.
        hooks += [vars(kind)[name] for kind in type(encoder).__mro__ for name in names if name in vars(kind)]
        encoder = getattr(encoder, "inner", None)
    return any(map(isgeneratorfunction, hooks))


def _sample_hooks(dataset: BaseDataset) -> tuple[Hook, ...]:
    """The hooks that see one sample at a time, before packing."""
    names = ["encode_sample", "preencode_sample"]
    if dataset.packing is None and dataset.packing_buffer_size is None:
        names.append("postencode_sample")
    return tuple(_encoder_hook(dataset, name) for name in names if is_overridden(dataset.task_encoder, name))


def _cook_hooks(dataset: BaseDataset, streams: OpenBlend) -> dict[int, Hook]:
    """The hook that cooks the samples of each source of crude samples, if the encoder has cookers."""
    encoder = dataset.task_encoder
    if not encoder.cookers:
        return {}
    cooks = {}
    pool = dataset.cache_pool or NoCachePool()
    for source in streams.sources:
        if source.sample_type == CRUDE and not source.is_member:
            cooker = find_cooker(encoder.cookers, source.subflavors, source.dataset_path)
            is_own = is_overridden(encoder, "cook_crude_sample")
            call = bind_cooker(encoder.cook_crude_sample, cooker, source, pool, is_user_hook=is_own)
            cooks[source.number] = _new_hook(
                dataset, "cook_crude_sample", call, hook_options(cooker.cook).failure_tolerance
            )
    return cooks


def _pack_stage(dataset: BaseDataset, streams: OpenBlend, max_empty_draws: int) -> PackStageLike | None:
    encoder = dataset.task_encoder
    post = _encoder_hook(dataset, "postencode_sample") if is_overridden(encoder, "postencode_sample") else None
    if dataset.packing is not None:
        packs = is_overridden(encoder, "pack_selected_samples")
        pack = _encoder_hook(dataset, "pack_selected_samples") if packs else DEFAULT_PACK_HOOK
        # A window over several passes could put a sample into a pack twice.
        share = max(MIN_WINDOW_SAMPLES, streams.initial_samples // streams.sizes.lanes)
        packing = replace(dataset.packing, window=min(dataset.packing.window, share))
        return PlannedPackStage(packing, pack, post, max_empty_draws, _hook_seed(dataset, "length"))
    if dataset.packing_buffer_size is None:
        return None
    select = _encoder_hook(dataset, "select_samples_to_pack")
    return HookPackStage(
        dataset.packing_buffer_size, select, _encoder_hook(dataset, "pack_selected_samples"), post, max_empty_draws
    )


def _group_stage(dataset: BaseDataset, streams: OpenBlend) -> GroupStage | None:
    hook: Hook | None = None
    is_random = True
    if dataset.buckets is not None:
        criterion: GroupCriterion = dataset.buckets.criterion(lambda number, name: streams.sources[number].column(name))
        is_random = callable(dataset.buckets.of)
    elif is_overridden(dataset.task_encoder, "batch_group_criterion"):
        hook = _encoder_hook(dataset, "batch_group_criterion")
        criterion = hook.call
    else:
        return None
    if hook is None and dataset.check_determinism:
        criterion = with_determinism_check("batch_group_criterion", criterion)
    return GroupStage(
        criterion,
        dataset.batch_size,
        dataset.most_waiting,
        dataset.batch_drop_last,
        seed=_hook_seed(dataset, "batch_group_criterion") if is_random else None,
        tolerance=None if hook is None else hook.tolerance,
    )


def _are_unlike_sources(sources: Sequence[SplitSource], first: int, second: int) -> bool:
    return are_incompatible(sources[first], sources[second])


def _batch_stage(
    dataset: BaseDataset, streams: OpenBlend, max_empty_draws: int, *, is_batched: bool, is_plain: bool
) -> BatchStage:
    """The stage of batches. `is_plain`: samples go into batches as they were read, unless `batch` is overridden."""
    encoder = dataset.task_encoder
    memories = streams.sources[0].memories
    is_hook = is_overridden(encoder, "batch") and not is_conversion(encoder, "batch")
    are_as_read = is_plain and not is_overridden(encoder, "batch")
    if are_as_read and len(streams.mixtures) == 1 and (dataset.batch_size or 1) > 1:
        shares = [float(share) for share in streams.mixtures[0].shares]
        check_like_samples(streams.components, shares, dataset.batch_size or 1)
    # If weights change, a source may have weight 0 at first: then the first batch of both sources fails.
    if are_as_read and len(streams.components) > 1 and len(streams.mixtures) == 1 and (dataset.batch_size or 1) > 1:
        check_compatible([source for sources in streams.component_sources for source in sources])
    return BatchStage(
        batch_size=dataset.batch_size,
        is_batched=is_batched,
        make_batch=batch_function(encoder, memories),
        batch_hook=_encoder_hook(dataset, "batch") if is_hook and is_batched else None,
        encode_batch=_encoder_hook(dataset, "encode_batch")
        if is_overridden(encoder, "encode_batch") and is_batched
        else None,
        memories=memories,
        max_empty_draws=max_empty_draws,
        are_unlike_sources=partial(_are_unlike_sources, streams.sources) if are_as_read else assume_not_incompatible,
    )


def _encoder_hook(dataset: BaseDataset, name: str) -> Hook:
    call = getattr(dataset.task_encoder, name)
    return _new_hook(dataset, name, call, hook_options(call).failure_tolerance)


def _new_hook(dataset: BaseDataset, name: str, call: Any, tolerance: int | None) -> Hook:
    return Hook(
        name,
        with_determinism_check(name, call) if dataset.check_determinism else call,
        _hook_seed(dataset, name),
        tolerance,
    )


def _hook_seed(dataset: BaseDataset, name: str) -> int:
    return derive_seed("hook", name, dataset.seed, dataset.worker_config.seed_offset)
