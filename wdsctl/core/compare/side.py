"""One of the two datasets that are compared: where its samples are, which are chosen, which splits they are in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.quick import current_generation, refuse_media_folder
from wdsctl.core.catalog.split_parts import SplitParts, split_parts
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.offsets import Offsets
from wdsctl.core.offsets_bounds import ShardEntry
from wdsctl.core.place import Place
from wdsctl.core.root_name import located
from wdsctl.core.selections import Selected, whole_view
from wdsctl.core.splitting_bits import Flags, flags_of

_OFFSETS = re.compile(r"offsets-(\d+)\.bin")


@dataclass(frozen=True, slots=True)
class Side:
    """`chosen`: the samples of a view, or None for all. `splits`: None where they are not known any more."""

    place: Place
    view: str
    generation: int
    offsets: Offsets
    chosen: Selected | None
    splits: SplitParts | None
    hashes: dict[int, str]  # SHA-256 by shard id, where known

    @property
    def shards(self) -> list[ShardEntry]:
        return self.offsets.shards

    def flags(self, i: int) -> Flags:
        """(samples,): which samples of the i-th shard are chosen."""
        shard = self.shards[i]
        if self.chosen is None:
            return np.ones(shard.samples, np.bool_)
        return flags_of(self.chosen.get(shard.id), shard.samples)

    def has(self, i: int) -> bool:
        """Whether anything of the i-th shard is compared: all shards are, but for a view those that it has."""
        return self.chosen is None or self.shards[i].id in self.chosen

    def in_split(self, name: str, i: int) -> Flags:
        """(samples,): which samples of the i-th shard are in a split; none where it is not known."""
        shard = self.shards[i]
        return flags_of(self.splits.part(name, shard.id) if self.splits else None, shard.samples)

    def split_size(self, name: str) -> int | None:
        """How many of the chosen samples are in a split; None where there is no such split, or it is not known."""
        if self.splits is None or name not in self.splits.names:
            return None
        there = (i for i in range(len(self.shards)) if self.has(i))
        return sum(int(np.count_nonzero(self.flags(i) & self.in_split(name, i))) for i in there)

    def members(self, i: int, names: Sequence[str]) -> NDArray[np.uint8]:
        """(samples, bytes): for each sample one bit a split of `names`."""
        shard = self.shards[i]
        table = np.zeros((shard.samples, len(names)), np.bool_)
        for column, name in enumerate(names):
            table[:, column] = self.in_split(name, i)
        return np.packbits(table, axis=1, bitorder="little")


@contextmanager
def opened_side(root: str, catalog: str | None = None, generation: int | None = None) -> Iterator[Side]:
    """`ROOT` or `ROOT@VIEW`, as it is now or at an older generation, of which the last three are kept.

    Raises InputError WDS322 for a folder of media, WDS330 and CatalogError WDS331 for views, InputError where the
    generation is not kept, UsageError for a view at an older one.
    """
    place, view = located(root, catalog)
    now = current_generation(place.catalog)
    refuse_media_folder(place.catalog)
    wanted = now if generation is None else generation
    is_now = wanted == now
    if view and not is_now:
        raise UsageError("a view is of the present generation", hint=f"leave out @{view}, or the generation")
    if not is_now:
        _check_kept(place, wanted, now)
    with split_parts(place.catalog) as splits:
        yield Side(
            place=place,
            view=view,
            generation=wanted,
            offsets=Offsets(place.offsets(wanted)),
            chosen=whole_view(place, view).selected if view else None,
            splits=splits if is_now else None,
            hashes=splits.hashes(),
        )


def _check_kept(place: Place, wanted: int, now: int) -> None:
    found = (_OFFSETS.fullmatch(name) for name in os.listdir(place.meta))
    kept = sorted(int(match[1]) for match in found if match)
    if wanted in kept:
        return
    listed = ", ".join(map(str, kept)) or "none"
    raise InputError(
        f"generation {wanted} of the dataset is not kept; those that are: {listed}",
        where=place.shown,
        hint=f"it is at generation {now} now; {command_at(place, 'log')} lists what its runs made of which",
        code="WDS009",
    )
