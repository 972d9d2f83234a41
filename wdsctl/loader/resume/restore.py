"""Makes one sample, pack or batch again, from its restore key alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader.packing.hook_stage import Packer
from wdsctl.loader.packing.merging import cut_item
from wdsctl.loader.packing.planned_stage import (
    MAX_SAMPLE_KEY_LENGTH,
    PIECE_KEY_LENGTH,
    PlannedPackStage,
    rebuild_packs,
)
from wdsctl.loader.pipeline.batches import RESTORE_KEY_FIELD
from wdsctl.loader.pipeline.pipeline import Pipeline
from wdsctl.loader.plan.open_blend import OpenBlend
from wdsctl.loader.reading.source import SampleRef
from wdsctl.loader.runtime.failures import ErrorHandler, FailureTracker, reraise_exception
from wdsctl.loader.runtime.sample_fields import get_field
from wdsctl.loader.runtime.stage import PipelineItem
from wdsctl.loader.runtime.stats import Stats


def restore_by_key(
    streams: OpenBlend, pipeline: Pipeline, restore_key: Sequence[Any], error_handler: ErrorHandler = reraise_exception
) -> Any:
    """The sample, pack or batch with this restore key: (source, pass, id) or (source, pass, id, step) of a sample,
    (source, pass, id, step, start, stop, length) of a piece of one, ("pack", step, ...) of a pack, a sequence of these
    of a batch. Raises UsageError for anything else, LoaderError if it is gone."""
    stats = Stats()
    failures = FailureTracker(error_handler, stats)
    if len(restore_key) and not isinstance(restore_key[0], (int, str)):
        items = [_restore_item(streams, pipeline, failures, each) for each in restore_key]
        cursor = pipeline.batch.open(_FixedItems(items), failures, stats)
        return _batch_with_key(cursor.draw_all(), restore_key)
    return _restore_item(streams, pipeline, failures, restore_key).value


def _batch_with_key(batches: Sequence[Any], restore_key: Sequence[Any]) -> Any:
    """The batch with this key, of those that the hooks make of its samples."""
    if not batches:
        raise _cannot_restore_error("the hooks return no batch for these samples")
    if len(batches) == 1:
        return batches[0]
    of_key = [batch for batch in batches if _as_tuples(get_field(batch, RESTORE_KEY_FIELD)) == _as_tuples(restore_key)]
    if len(of_key) != 1:
        raise _cannot_restore_error(
            f"the hooks return {len(batches)} batches for these samples, and the key does not distinguish them"
        )
    return of_key[0]


def _as_tuples(key: Any) -> Any:
    return tuple(map(_as_tuples, key)) if isinstance(key, (list, tuple)) else key


def _restore_item(
    streams: OpenBlend, pipeline: Pipeline, failures: FailureTracker, restore_key: Sequence[Any]
) -> PipelineItem:
    is_pack = len(restore_key) > 2 and restore_key[0] == "pack" and isinstance(restore_key[1], int)
    if is_pack:
        return _restore_pack(streams, pipeline, failures, restore_key[1], restore_key[2:])
    item = _restore_sample(streams, pipeline, failures, restore_key)
    return (
        item
        if len(restore_key) < PIECE_KEY_LENGTH
        else cut_item(item, (restore_key[4], restore_key[5], restore_key[6]))
    )


def _restore_sample(streams: OpenBlend, pipeline: Pipeline, failures: FailureTracker, restore_key: Any) -> PipelineItem:
    """The sample with this key, or the sample that it names a piece of."""
    is_one = (
        isinstance(restore_key, Sequence)
        and len(restore_key) in {3, MAX_SAMPLE_KEY_LENGTH, PIECE_KEY_LENGTH}
        and all(isinstance(part, int) for part in restore_key)
    )
    if not is_one:
        raise UsageError(
            f"{restore_key!r} is not a restore key", hint="pass the `__restore_key__` of a sample or a batch"
        )
    number, passes, sample, *rest = restore_key
    if not 0 <= number < len(streams.sources):
        raise UsageError(
            f"the restore key is for source {number}, but this loader has {len(streams.sources)}",
            hint="restore the sample with a loader of the same blend",
        )
    source = streams.sources[number]
    refs = _SingleRef((source, source.block_of_sample(passes, sample), 0))
    cursor = pipeline.samples.open(refs, failures, failures.stats)
    step = rest[0] if rest else 0
    while (item := cursor.next()) is not None:
        if item.restore_keys[0][3:] == ((step,) if step else ()):
            return item
    raise _cannot_restore_error(f"the hooks return no output {step} for this sample")


def _restore_pack(
    streams: OpenBlend, pipeline: Pipeline, failures: FailureTracker, step: int, restore_keys: Sequence[Any]
) -> PipelineItem:
    if pipeline.pack is None:
        raise _cannot_restore_error("the key is for a pack, but this loader does not pack")
    if isinstance(pipeline.pack, PlannedPackStage):
        items = [_restore_sample(streams, pipeline, failures, each) for each in restore_keys]
        refs = [streams.sources[each[0]].block_of_sample(each[1], each[2]) for each in restore_keys]
        uncut = [
            ((streams.sources[each[0]], block, 0), item)
            for each, block, item in zip(restore_keys, refs, items, strict=True)
        ]
        outputs = rebuild_packs(pipeline.pack, restore_keys, uncut, failures)
    else:
        items = [_restore_item(streams, pipeline, failures, each) for each in restore_keys]
        outputs = Packer(pipeline.pack.pack, pipeline.pack.post, failures).outputs(items)
    for number, item in enumerate(outputs):
        if number == step:
            return item
    raise _cannot_restore_error(f"the hooks return no output {step} for this pack")


class _SingleRef:
    """The references of one sample."""

    def __init__(self, ref: SampleRef) -> None:
        self._refs = [ref]
        self.draws = 0

    def take(self, count: int) -> list[SampleRef]:
        refs = self._refs[self.draws : self.draws + count]
        self.draws += len(refs)
        return refs

    def lookup(self, draw: int) -> SampleRef:
        return self._refs[draw]

    def seek(self, draws: int) -> None:
        self.draws = draws


class _FixedItems:
    """The items of one batch."""

    def __init__(self, items: list[PipelineItem]) -> None:
        self._items = items

    def next(self) -> list[PipelineItem]:
        items, self._items = self._items, []
        return items

    def state(self) -> Any:
        return None

    def load(self, state: Any) -> None:
        if state is not None:
            raise _cannot_restore_error("a restored batch takes its items from its key, not from a state")


def _cannot_restore_error(message: str) -> LoaderError:
    return LoaderError(message, hint="use the hooks and the data of the run that created the sample", code="WDS502")
