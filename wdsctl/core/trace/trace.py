"""The trace of a job: all files of a folder as one table from batch numbers to samples.

Where a batch was written twice, because the job went back to an older state, the later run counts. Memory: 48 bytes for
each block (of some 100 batches), and while it is read one block of every file that reaches into the range.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from wdsctl.core.errors import InputError
from wdsctl.core.os_errors import translated
from wdsctl.core.trace.block import Block, Ints
from wdsctl.core.trace.facts import RunFacts
from wdsctl.core.trace.file import Flaw, TraceFile, open_file, read_block
from wdsctl.core.trace.steps import Steps, Stretch
from wdsctl.core.trace.writer import NAME

_LAST = 1 << 62


@dataclass(frozen=True, slots=True)
class TracedBatch:
    """`number`: of the whole job, within a pass where there are passes. `origins`: (samples, 4) of source, pass, sample
    id and step; step is -1 where no generator made it, source where the sample had no restore key."""

    number: int
    step: int
    pass_number: int
    run: RunFacts
    origins: Ints


class Seen(NamedTuple):
    batch: TracedBatch
    position: int  # in the batch


class _Place(NamedTuple):
    """Where a block is. Blocks sort by what they begin with, and batches of one number by who wrote them last."""

    pass_number: int
    low: int
    file: int
    at: int


class _Next(NamedTuple):
    """The batch of an open block that comes next. `rank`: by pass and number, then what was written last; no two are
    equal, as a block waits with one batch at a time."""

    rank: tuple[int, int, int, int]
    place: _Place
    block: Block
    i: int


class Trace:
    """`flaws`: what could not be read; blocks that turn out to be damaged are added while they are read."""

    def __init__(self, folder: str, files: Sequence[TraceFile], flaws: Sequence[Flaw]) -> None:
        self.folder = folder
        self.files = sorted(files, key=lambda file: (file.facts.started, file.facts.rank))
        self.flaws = [*flaws, *(flaw for file in self.files for flaw in file.flaws)]

    def batches(
        self, start: int = 0, stop: int = _LAST, *, rank: int | None = None, pass_number: int | None = None
    ) -> Iterator[TracedBatch]:
        """The batches from number `start` up to `stop`, pass after pass, in ascending order, each as it was last."""
        before: tuple[int, int] | None = None
        for number, of_pass, file, origins in self._written(start, stop, pass_number):
            if (of_pass, number) == before:
                continue
            before = (of_pass, number)
            facts = self.files[file].facts
            if rank is None or facts.rank == rank:
                yield TracedBatch(number, self.steps(of_pass).step_of(number), of_pass, facts, origins)

    def step(self, step: int, *, rank: int | None = None, pass_number: int | None = None) -> list[TracedBatch]:
        """The batches of all ranks in one training step (see `steps.py` for how steps are counted), in every pass."""
        asked = self.passes if pass_number is None else [pass_number]
        found: list[TracedBatch] = []
        for each in asked:
            numbers = self.steps(each).numbers(step)
            found += self.batches(numbers.start, numbers.stop, rank=rank, pass_number=each)
        return found

    def samples(self, start: int = 0, stop: int = _LAST, *, rank: int | None = None) -> Iterator[Ints]:
        """The origins of these batches, (samples, 4) each."""
        return (batch.origins for batch in self.batches(start, stop, rank=rank))

    def find(self, is_wanted: Callable[[TracedBatch], Ints], *, rank: int | None = None) -> Iterator[Seen]:
        """Where samples came: `is_wanted` gives the positions in a batch. Reads the whole trace, a block at a time."""
        for batch in self.batches(rank=rank):
            for position in is_wanted(batch).tolist():
                yield Seen(batch, position)

    @cached_property
    def passes(self) -> list[int]:
        """The numbers of the passes, where the stream is finite; [0] of an endless one."""
        return sorted({int(each) for file in self.files for each in np.unique(file.places[:, 3])})

    def steps(self, pass_number: int = 0) -> Steps:
        """How steps are counted in this pass."""
        if pass_number not in self._steps:
            self._steps[pass_number] = Steps(self._stretches(pass_number))
        return self._steps[pass_number]

    @cached_property
    def _steps(self) -> dict[int, Steps]:
        return {}

    def _stretches(self, pass_number: int) -> Iterator[Stretch]:
        for file in self.files:
            bases = file.places[file.places[:, 3] == pass_number, 2]
            is_new = np.diff(bases, prepend=bases[:1] - 1) != 0
            for base in bases[is_new].tolist():
                yield Stretch(base, file.facts.world)

    def _written(self, start: int, stop: int, pass_number: int | None) -> Iterator[tuple[int, int, int, Ints]]:
        """(number, pass, file, origins) of everything written, by pass and number, of one number the last one first."""
        waiting = deque(self._places(start, stop, pass_number))
        heap: list[_Next] = []
        while waiting or heap:
            if waiting and (not heap or waiting[0][:2] <= heap[0].rank[:2]):
                place = waiting.popleft()
                block = self._block(place)
                if block is not None:
                    _enter(heap, place, block, int(np.searchsorted(block.numbers, start)))
                continue
            _, place, block, i = heappop(heap)
            number = int(block.numbers[i])
            if number < stop:
                yield number, place.pass_number, place.file, block.origins[block.first[i] : block.first[i + 1]]
                _enter(heap, place, block, i + 1)

    def _places(self, start: int, stop: int, pass_number: int | None) -> list[_Place]:
        places: list[_Place] = []
        for i, file in enumerate(self.files):
            rows = file.places
            is_asked = (rows[:, 0] < stop) & (rows[:, 1] >= start)
            if pass_number is not None:
                is_asked &= rows[:, 3] == pass_number
            places += (_Place(of_pass, low, i, at) for low, _, _, of_pass, at, _ in rows[is_asked].tolist())
        return sorted(places)

    def _block(self, place: _Place) -> Block | None:
        block = read_block(self.files[place.file], place.at)
        if isinstance(block, Block):
            return block
        if block not in self.flaws:
            self.flaws.append(block)
        return None


def _enter(heap: list[_Next], place: _Place, block: Block, i: int) -> None:
    """Let a block wait with its batch i, or the last one of the same number, which counts."""
    if i < len(block.numbers):
        number = int(block.numbers[i])
        last = int(np.searchsorted(block.numbers, number, side="right")) - 1
        heappush(heap, _Next((place.pass_number, number, -place.file, -place.at), place, block, last))


def read_trace(folder: str) -> Trace:
    """The trace that the ranks of a job wrote into this folder.

    Raises InputError WDS540 where there is none. Cost: the heads of all blocks are read, one read for some 100 batches.
    """
    if not os.path.isdir(folder):
        raise InputError(
            "there is no such folder", where=folder, hint="give the folder that `trace=` named", code="WDS540"
        )
    with translated(folder, "list"):
        names = sorted(filter(NAME.fullmatch, os.listdir(folder)))
    if not names:
        raise InputError(
            "the folder has no traces",
            where=folder,
            hint='`get_train_dataset(..., trace="FOLDER")` lets every rank write one',
            code="WDS540",
        )
    opened = [open_file(os.path.join(folder, name)) for name in names]
    files = [each for each in opened if isinstance(each, TraceFile)]
    return Trace(folder, files, [each for each in opened if isinstance(each, Flaw)])
