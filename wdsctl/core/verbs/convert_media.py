"""Carries the facts of media of the sources over to what was made of them, where media go along byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.media_settings import MediaSettings
from wdsctl.core.convert.carried import is_changed
from wdsctl.core.convert.importers.polylithic import PolylithicSource
from wdsctl.core.convert.importers.shards import ShardsSource
from wdsctl.core.convert.media_lookup import PreparedStore
from wdsctl.core.convert.part_rules import new_name
from wdsctl.core.convert.plan_file import Origins
from wdsctl.core.convert.recipe import Recipe
from wdsctl.core.convert.source import Source
from wdsctl.core.lock import check_held
from wdsctl.core.media.found import FoundMedium
from wdsctl.core.media.selection import parse_selection
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.shard_index import Ints
from wdsctl.core.transcode.parts import written_name
from wdsctl.core.verbs.convert_sources import Opened
from wdsctl.core.verbs.media import mark_of

_NONE = -1  # the sample has nothing there


@dataclass(frozen=True, slots=True)
class Holder:
    """A catalog that has facts of the samples of a source. `rows_of`: the rows of its offsets file, by places."""

    place: Place
    offsets: Offsets
    settings: MediaSettings | None
    rows_of: Callable[[Ints], Ints]


@dataclass(frozen=True, slots=True)
class MediaFacts:
    """What there is to carry. `why` it cannot be, where something is in the way."""

    settings: MediaSettings
    holders: tuple[tuple[Holder, ...], ...]  # of each source
    why: str = ""


def media_after(opened: Opened, recipe: Recipe) -> MediaFacts | None:
    """What becomes of the facts of media of the sources; None where there are none. Cost: a look at their catalogs."""
    holders = [tuple(_holders(source)) for source in opened.sources]
    asked = dict.fromkeys(each.settings for some in holders for each in some if each.settings is not None)
    if not asked:
        return None
    settings, why = next(iter(asked)), ""
    for some, told in zip(holders, opened.told, strict=True):
        missing = [each for each in some if each.settings is None and _may_hold(each.offsets, settings)]
        if missing or all(each.settings is None for each in some):
            why = f"{told.path} has none"
    if len(asked) > 1:
        why = "different media were asked for in the sources"
    known = tuple(tuple(each for each in some if each.settings is not None) for some in holders)
    return MediaFacts(settings, known, why or _changed(known, settings, recipe))


def _holders(source: Source) -> Iterator[Holder]:
    if isinstance(source, ShardsSource):
        yield _holder(source.place, source.offsets, lambda places: places)
    elif isinstance(source, PolylithicSource) and source.store is not None:
        primary, store = source.primary, source.store
        if not source.is_lines:
            yield _holder(primary.place, primary.offsets, lambda places: places)
        yield _holder(store.place, store.offsets, partial(_rows_by_key, store, primary.offsets))


def _rows_by_key(store: PreparedStore, offsets: Offsets, places: Ints) -> Ints:
    found = (next(store.rows(offsets.key(place)), _NONE) for place in places.tolist())
    return np.fromiter(found, np.int64, len(places))


def _holder(place: Place, offsets: Offsets, rows_of: Callable[[Ints], Ints]) -> Holder:
    with Catalog(place.catalog) as catalog:
        return Holder(place, offsets, catalog.media_settings(), rows_of)


def _may_hold(offsets: Offsets, settings: MediaSettings) -> bool:
    selection = parse_selection(settings.selection)
    return bool(selection.globs) or any(selection.claim(f".{part}") != "no" for part in _parts(offsets))


def _parts(offsets: Offsets) -> set[str]:
    return {part for layout in offsets.layouts for part in layout}


def _changed(holders: Sequence[Sequence[Holder]], settings: MediaSettings, recipe: Recipe) -> str:
    """What is done to parts so that other media are there than before, in words."""
    if any(old != new for old, new in recipe.parts.rename):
        return "parts are renamed"
    selection = parse_selection(settings.selection)
    for part in sorted({part for some in holders for each in some for part in _parts(each.offsets)}):
        after = written_name(part, recipe.image, recipe.audio)
        is_meant = bool(selection.globs) or any(selection.claim(f".{name}") != "no" for name in (part, after))
        if is_meant and new_name(recipe.parts, part) is not None and is_changed(part, recipe):
            return f"the part {part} is written anew"
    return ""


def carry_media(place: Place, generation: int, facts: MediaFacts, came: Callable[[str], Origins]) -> int:
    """Put facts of media into the catalog of one dataset of the destination: how many media these are.

    `came`: of a shard, by its path, where its samples came from. A shard with samples of a shard without facts gets
    none, and is looked at by the next `index`. Where there are none at all, nothing is written. The caller holds the
    lock. Cost: some 30 us a medium, and a copy of the catalog. Memory: the facts of the largest shard.
    """
    offsets = Offsets(place.offsets(generation))
    with ExitStack() as held:
        sources = [
            [_Reader(held.enter_context(Catalog(each.place.catalog)), each) for each in some] for some in facts.holders
        ]
        with Catalog(place.catalog) as catalog:
            rows = {row.id: row for row in catalog.shards()}
        media = 0
        with drafting(place.catalog, ready=partial(check_held, place.lock)) as draft:
            for i, shard in enumerate(offsets.shards):
                found = _found(sources, came(shard.path), offsets, int(offsets.shard_row[i]))
                if found is not None:
                    draft.media.put_shard(shard.id, mark_of(rows[shard.id], facts.settings), found)
                    media += len(found)
            if media:
                draft.media_settings = facts.settings
            else:
                draft.media.clear()
    return media


class _Reader:
    """One holder, open: its facts by rows of its offsets file."""

    def __init__(self, catalog: Catalog, holder: Holder) -> None:
        self._catalog, self._holder = catalog, holder
        marks, settings = catalog.media.marks(), holder.settings
        # The catalog may be a newer one than the offsets: what is not as it was there has no facts of these samples.
        known = {
            (row.id, row.layout_hash)
            for row in catalog.shards()
            if settings is not None and marks.get(row.id) == mark_of(row, settings)
        }
        shards = holder.offsets.shards
        self._ids = np.array([shard.id for shard in shards], np.int64)
        self._has = np.array([(shard.id, shard.layout_hash) in known for shard in shards], np.bool_)
        self._first = holder.offsets.shard_row

    def facts(self, places: Ints) -> Iterator[tuple[int, FoundMedium]] | None:
        """(index in `places`, medium) of all media of the samples at these places; None where some are not known."""
        rows = self._holder.rows_of(places)
        there = np.flatnonzero(rows != _NONE)
        shards = np.searchsorted(self._first, rows[there], side="right") - 1
        if not self._has[shards].all():
            return None
        ids = (self._ids[shards] << INDEX_BITS) + rows[there] - self._first[shards]
        return self._media(there, ids)

    def _media(self, there: Ints, ids: Ints) -> Iterator[tuple[int, FoundMedium]]:
        at: dict[int, list[int]] = {}  # two samples may share an entry of a store
        for sample, i in zip(ids.tolist(), there.tolist(), strict=True):
            at.setdefault(sample, []).append(i)
        for sample, part, form, numbers, keyframes in self._catalog.media.stored(sorted(at)):
            for i in at[sample]:
                yield i, FoundMedium(0, part, 0, form, numbers, keyframes)


def _found(
    sources: Sequence[Sequence[_Reader]], came: Origins, offsets: Offsets, first: int
) -> list[FoundMedium] | None:
    """The media of one shard of the destination, in its order; None where something is not known of some of them."""
    found: list[FoundMedium] = []
    for number, readers in enumerate(sources):
        mine = np.flatnonzero(came["source"] == number)
        for reader in readers if len(mine) else ():
            facts = reader.facts(came["place"][mine])
            if facts is None:
                return None
            for i, medium in facts:
                row = int(mine[i])
                size = {part: size for part, _, size in offsets.parts(first + row)}.get(medium.part)
                if size is not None:
                    found.append(medium._replace(row=row, size=size))
    return sorted(found, key=lambda medium: (medium.row, medium.part))
