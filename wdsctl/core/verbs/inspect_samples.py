"""`inspect --samples`, `--random` and `--key`: some samples, each part as a person wants to see it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.placed import Members, PartPlace, Placed
from wdsctl.core.errors import PermissionDenied, StorageDown, StorageError
from wdsctl.core.media.byte_range import KEPT, ByteRange
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.media.thumbnail import MOST_BYTES, Picture, thumbnail
from wdsctl.core.part_view import HEAD, PartView, unreadable_part, view_part
from wdsctl.core.place import Place
from wdsctl.core.sample_pool import drawn, pool_of
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.verbs.locate_sample import LISTED, chosen_of, find_all, find_one, open_root

How = Literal["first", "random", "key"]

#: (number of the sample, number of its part) -> what it looks like, or why that is not known.
Pictures = Mapping[tuple[int, int], Picture | Unreadable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Which samples: those of `key` (all of them, where it repeats), or `count`, the first or drawn by `seed`."""

    count: int = 3
    key: str | None = None
    seed: int | None = None
    split: str | None = None
    shard: str | None = None

    @property
    def how(self) -> How:
        if self.key is not None:
            return "key"
        return "first" if self.seed is None else "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleView:
    key: str
    id: int
    shard: str
    position: int  # in the shard, from 0
    size_bytes: int  # of all parts
    splits: tuple[str, ...]
    parts: tuple[PartView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesReport:
    """`view`: empty where samples of the whole dataset are meant. `shown`: of a key that repeats, at most 20."""

    root: str
    view: str
    catalog: str
    generation: int
    how: How
    seed: int | None
    split: str | None
    samples: int  # that they were chosen from
    shown: tuple[SampleView, ...]


def inspect_samples(
    root: str, pick: Pick, *, catalog: str | None = None, largest: tuple[int, int] | None = None
) -> tuple[SamplesReport, Pictures]:
    """The samples that `pick` says, and pictures of their images and videos that fit into `largest`, if that is given.

    Read are the first 64 KiB of every part, and of media, JSON and arrays what more they need. A part that cannot be
    read is told as such. Raises InputError WDS004 and WDS211, StorageDown, and what a catalog raises.
    """
    place, view = open_root(root, catalog)
    with Browser(place.catalog) as browser:
        total, samples = _picked(place, browser, pick, chosen_of(place, browser, view, pick.split))
        known = [browser.facts(sample) for sample in samples]
        splits = [() if browser.is_media_folder else tuple(browser.splits_of(sample.id)) for sample in samples]
        generation = browser.generation
    pictures: dict[tuple[int, int], Picture | Unreadable] = {}
    sizes = {os.path.join(place.root, sample.shard): sample.shard_size for sample in samples}
    with closing(storage_for(place.root, sizes)) as storage:
        storage.will_need(
            Range(os.path.join(place.root, sample.shard), part.offset, min(part.size, HEAD))
            for sample in samples
            for part in sample.parts
        )
        looks = [_Look(storage, place, sample, facts, largest) for sample, facts in zip(samples, known, strict=True)]
        shown = []
        for number, (look, names) in enumerate(zip(looks, splits, strict=True)):
            views = [look.part(part) for part in look.sample.parts]
            pictures.update({(number, i): drawn for i, (_, drawn) in enumerate(views) if drawn is not None})
            shown.append(_view(look.sample, names, [view for view, _ in views]))
    report = SamplesReport(
        root=place.shown,
        view=view,
        catalog=place.catalog,
        generation=generation,
        how=pick.how,
        seed=pick.seed,
        split=pick.split,
        samples=total,
        shown=tuple(shown),
    )
    return report, pictures


def _picked(place: Place, browser: Browser, pick: Pick, members: Members | None) -> tuple[int, list[Placed]]:
    if pick.key is not None:
        found = [each for each in find_all(place, browser, pick.key) if members is None or members.has(each.id)]
        if not found or pick.shard is not None:
            found = [find_one(place, browser, pick.key, shard=pick.shard, members=members)]
        return len(found), found[:LISTED]
    pool = pool_of(place, browser, members)
    numbers: Sequence[int] = range(min(pick.count, len(pool)))
    if pick.seed is not None:
        numbers = drawn(pick.count, len(pool), pick.seed)
    return len(pool), [pool.at(number) for number in numbers]


def _view(sample: Placed, splits: tuple[str, ...], parts: Sequence[PartView]) -> SampleView:
    return SampleView(
        key=sample.key,
        id=sample.id,
        shard=sample.shard,
        position=sample.position,
        size_bytes=sum(part.size for part in sample.parts),
        splits=splits,
        parts=tuple(parts),
    )


@dataclass(frozen=True, slots=True)
class _Look:
    storage: Storage
    place: Place
    sample: Placed
    known: Mapping[str, Facts | Unreadable]
    largest: tuple[int, int] | None

    def part(self, part: PartPlace) -> tuple[PartView, Picture | Unreadable | None]:
        path = os.path.join(self.place.root, self.sample.shard)
        try:
            head = self.storage.read(path, part.offset, min(part.size, HEAD))
            source = ByteRange(
                lambda at, length: self.storage.read(path, part.offset + at, length),
                part.size,
                head=head,
                most=MOST_BYTES,
                kept=KEPT,
            )
            view = view_part(part.name, part.offset, source, self.known.get(part.name))
            return view, self._picture(view, source)
        except StorageDown:
            raise
        except (StorageError, PermissionDenied) as error:
            return unreadable_part(part.name, part.offset, part.size, error), None

    def _picture(self, view: PartView, source: ByteRange) -> Picture | Unreadable | None:
        if self.largest is None or view.kind not in ("image", "video") or isinstance(view.facts, Unreadable):
            return None
        return thumbnail(source, view.kind, view.format, *self.largest)
