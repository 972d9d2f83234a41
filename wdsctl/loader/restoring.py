"""One sample, pack or batch made once more, from its restore key alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader.failures import Failures, Handler, reraise_exception, value_of
from wdsctl.loader.packing import PlannedPackStage
from wdsctl.loader.packing.again import PIECE, WHOLE, packs_again
from wdsctl.loader.packing.making import piece_item
from wdsctl.loader.pipeline import Pipeline
from wdsctl.loader.source import Ref
from wdsctl.loader.stages.batches import RESTORE_KEY
from wdsctl.loader.stages.item import Item
from wdsctl.loader.stages.packing import Packer
from wdsctl.loader.stats import Stats
from wdsctl.loader.streams import Streams


def restored(streams: Streams, pipeline: Pipeline, key: Sequence[Any], handler: Handler = reraise_exception) -> Any:
    """What has this restore key: (source, pass, id) or (source, pass, id, step) of a sample, (source, pass, id, step,
    start, stop, length) of a piece of one, ("pack", step, ...) of a pack, a sequence of those of a batch. Raises
    UsageError for anything else, LoaderError where it is gone."""
    stats = Stats()
    failures = Failures(handler, stats)
    if len(key) and not isinstance(key[0], (int, str)):
        items = [_item(streams, pipeline, failures, each) for each in key]
        cursor = pipeline.batch.open(_Given(items), failures, stats)
        return _only(cursor.draw_all(), key)
    return _item(streams, pipeline, failures, key).value


def _only(batches: Sequence[Any], key: Sequence[Any]) -> Any:
    """The batch with this key, of those that the hooks make of its samples."""
    if not batches:
        raise _gone("the hooks make no batch of these samples")
    if len(batches) == 1:
        return batches[0]
    of_key = [batch for batch in batches if _plain(value_of(batch, RESTORE_KEY)) == _plain(key)]
    if len(of_key) != 1:
        raise _gone(f"the hooks make {len(batches)} batches of these samples, and the key does not tell them apart")
    return of_key[0]


def _plain(key: Any) -> Any:
    return tuple(map(_plain, key)) if isinstance(key, (list, tuple)) else key


def _item(streams: Streams, pipeline: Pipeline, failures: Failures, key: Sequence[Any]) -> Item:
    is_pack = len(key) > 2 and key[0] == "pack" and isinstance(key[1], int)
    if is_pack:
        return _pack(streams, pipeline, failures, key[1], key[2:])
    item = _whole(streams, pipeline, failures, key)
    return item if len(key) < PIECE else piece_item(item, (key[4], key[5], key[6]))


def _whole(streams: Streams, pipeline: Pipeline, failures: Failures, key: Any) -> Item:
    """The sample with this key, or that it names a piece of."""
    is_one = isinstance(key, Sequence) and len(key) in {3, WHOLE, PIECE} and all(isinstance(part, int) for part in key)
    if not is_one:
        raise UsageError(f"{key!r} is no restore key", hint="give `__restore_key__` of a sample or a batch")
    number, passes, sample, *rest = key
    if not 0 <= number < len(streams.sources):
        raise UsageError(
            f"there is no source {number} in this loader, which has {len(streams.sources)}",
            hint="give the restore key to a loader of the same blend",
        )
    source = streams.sources[number]
    refs = _One((source, source.block_of(passes, sample), 0))
    cursor = pipeline.samples.open(refs, failures, failures.stats)
    step = rest[0] if rest else 0
    while (item := cursor.next()) is not None:
        if item.origins[0][3:] == ((step,) if step else ()):
            return item
    raise _gone(f"the hooks make no output {step} of this sample")


def _pack(streams: Streams, pipeline: Pipeline, failures: Failures, step: int, keys: Sequence[Any]) -> Item:
    if pipeline.pack is None:
        raise _gone("this loader packs nothing")
    if isinstance(pipeline.pack, PlannedPackStage):
        items = [_whole(streams, pipeline, failures, each) for each in keys]
        refs = [streams.sources[each[0]].block_of(each[1], each[2]) for each in keys]
        whole = [
            ((streams.sources[each[0]], block, 0), item) for each, block, item in zip(keys, refs, items, strict=True)
        ]
        outputs = packs_again(pipeline.pack, keys, whole, failures)
    else:
        items = [_item(streams, pipeline, failures, each) for each in keys]
        outputs = Packer(pipeline.pack.pack, pipeline.pack.post, failures).outputs(items)
    for number, item in enumerate(outputs):
        if number == step:
            return item
    raise _gone(f"the hooks make no output {step} of this pack")


class _One:
    """The references of one sample."""

    def __init__(self, ref: Ref) -> None:
        self._refs = [ref]
        self.picks = 0

    def take(self, count: int) -> list[Ref]:
        refs = self._refs[self.picks : self.picks + count]
        self.picks += len(refs)
        return refs

    def at(self, pick: int) -> Ref:
        return self._refs[pick]

    def seek(self, picks: int) -> None:
        self.picks = picks


class _Given:
    """The items of one batch."""

    def __init__(self, items: list[Item]) -> None:
        self._items = items

    def next(self) -> list[Item]:
        items, self._items = self._items, []
        return items

    def state(self) -> Any:
        return None

    def load(self, state: Any) -> None:
        if state is not None:
            raise _gone("the items of a batch that is made again come from its key, and not from a state")


def _gone(words: str) -> LoaderError:
    return LoaderError(words, hint="restore it with the hooks and the data it was made with", code="WDS502")
