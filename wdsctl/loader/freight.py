"""Batches of plain samples on their way from a worker: their bytes as they were read, and what says how to cut them.

A worker reads into the memory that the training process has mapped, and makes nothing of it. What a batch is made of is
made once, where it is wanted: every byte is copied twice, from the system's cache and into the user's own bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Any, NamedTuple

from wdsctl.loader.samples import source_at
from wdsctl.loader.source import PlainType, RefRange, Source
from wdsctl.loader.workers import Memory, room


class Freight(NamedTuple):
    """Samples, a list a column. `cuts`: of each part, where it starts and ends in `memory`."""

    memory: Memory
    plain: PlainType
    keys: list[str]
    numbers: list[int]  # of their sources
    passes: list[int]
    ids: list[int]
    rows: list[int]
    cuts: list[tuple[list[int], list[int]]]

    @property
    def restore_keys(self) -> list[tuple[int, int, int]]:
        return list(zip(self.numbers, self.passes, self.ids, strict=True))

    def columns(self, sources: Sequence[Source]) -> list[list[Any]]:
        """What `Source.load_run` fills: keys, restore keys, sources, and each part."""
        origins = list(map(source_at, map(sources.__getitem__, self.numbers), self.rows))
        # Without a line of Python a part: that would take as long as the copy.
        within = self.memory.data.__getitem__
        parts = [list(map(bytes, map(within, map(slice, *cut)))) for cut in self.cuts]
        return [self.keys, self.restore_keys, origins, *parts]


def freight_of(pieces: Sequence[RefRange], plain: PlainType) -> Freight | None:
    """Samples that are plain and of this type, read into the ring of this worker; None where there is no room.

    None outside of a worker, too, and where views are wanted. Raises WdsctlError for the first that cannot be read.
    """
    if pieces[0][0].raw == "view":
        return None
    memory = room(sum(sum(block.spans[start:stop]) for _, block, start, stop in pieces))
    if memory is None:
        return None
    freight = Freight(memory, plain, [], [], [], [], [], [([], []) for _ in plain[1]])
    at = 0
    for source, block, start, stop in pieces:
        run = slice(start, stop)
        begins = source.read_run(block, start, stop, memory.data, at)
        at = begins[-1] + block.spans[stop - 1]
        freight.keys.extend(block.keys[run])
        freight.numbers.extend([source.number] * (stop - start))
        freight.passes.extend(block.passes[run])
        freight.ids.extend(block.ids[run])
        freight.rows.extend(block.rows[run])
        for mine, cut in zip(freight.cuts, block.cuts[block.alike], strict=True):
            for listed, places in zip(mine, cut, strict=True):
                listed.extend(map(add, begins, places[run]))
    return freight
