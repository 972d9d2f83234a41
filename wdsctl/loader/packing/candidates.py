"""The candidates for the packs of a window, and two sources of their lengths: columns and functions.

With columns, references are enough to plan, and a sample is read when its pack is made. With a function, samples are
read and encoded first, and held until their pack is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from wdsctl.core.columns.column_file import CheckedValues
from wdsctl.core.errors import DatasetError, LoaderError, UsageError, require_int
from wdsctl.loader.packing.options import LengthSource
from wdsctl.loader.runtime.failures import FailureTracker
from wdsctl.loader.runtime.sample_fields import describe_sample_location
from wdsctl.loader.runtime.stage import NO_OUTPUT, Address, Hook, PipelineItem

if TYPE_CHECKING:
    from wdsctl.loader.reading.source import SampleRef


LengthTuple = tuple[int, ...]


class SampleCursorLike(Protocol):
    """The cursor of the samples that are packed."""

    ref: SampleRef | None
    ban_check: Callable[[SampleRef, int | None], int] | None

    def next(self) -> PipelineItem | None: ...

    def rebuild(self, address: Address) -> PipelineItem: ...

    def make_items(self, ref: SampleRef, draw: int) -> list[PipelineItem]: ...

    def state(self) -> Any: ...

    def load(self, state: Any) -> None: ...


class RefCursorLike(Protocol):
    """The cursor of the references to these samples."""

    draws: int

    def take(self, count: int) -> list[SampleRef]: ...

    def lookup(self, draw: int) -> SampleRef: ...


class PackCandidate(NamedTuple):
    """A sample, or a piece of one. `address`: the sample's in the previous stage, or [draw, step, start, stop].

    `payload`: the data from which the sample is made when its pack is made; None if it must be looked up first.
    `sample`: equal for copies of a sample from different passes: source, row or id, step of a hook, start of a piece.
    """

    address: Address
    lengths: LengthTuple
    payload: Any
    sample: tuple[Any, ...] = ()


class CandidateSource(Protocol):
    """The source of the candidates of a window."""

    def take(self, count: int, *, is_replay: bool) -> tuple[list[PackCandidate], int]:
        """The candidates of the next `count` draws, and the number of draws: fewer at the end of a finite lane.

        `is_replay`: these draws were counted before.
        """

    def rebuild(self, address: Address) -> PackCandidate:
        """The uncut sample at an address."""

    def make_items(self, candidate: PackCandidate) -> list[PipelineItem]:
        """The items of a candidate in a pack; none if it is skipped or cannot be read."""

    def banned_by(self, candidate: PackCandidate) -> int:
        """The ban that now applies to a candidate, or to the sample of a piece, counted from 1; 0: none."""

    def where(self, candidate: PackCandidate) -> str: ...


class ColumnReader:
    """The columns of the sources, by name; each is opened once."""

    def __init__(self) -> None:
        self._open_columns: dict[tuple[int, str], CheckedValues] = {}

    def lengths(self, refs: Sequence[SampleRef], name: str) -> list[int]:
        """The column's values at these references."""
        by_source: dict[int, list[int]] = {}
        for index, (source, _, _) in enumerate(refs):
            by_source.setdefault(source.number, []).append(index)
        values = np.empty(len(refs), np.int64)
        for number, indices in by_source.items():
            if (number, name) not in self._open_columns:
                self._open_columns[number, name] = refs[indices[0]][0].column(name)
            column = self._open_columns[number, name]
            values[indices] = column[[block.rows[i] for _, block, i in (refs[index] for index in indices)]]
        listed: list[int] = values.tolist()
        return listed


class ColumnCandidates:
    """Candidates with lengths from columns: planning reads no samples. A candidate is a draw, and all outputs of its
    hooks go into one pack."""

    def __init__(
        self, names: Sequence[str], samples: SampleCursorLike, refs: RefCursorLike, failures: FailureTracker
    ) -> None:
        self._names = names
        self._samples = samples
        self._refs = refs
        self._failures = failures
        self._columns = ColumnReader()

    def take(self, count: int, *, is_replay: bool) -> tuple[list[PackCandidate], int]:
        first = self._refs.draws
        refs = self._refs.take(count)
        entries = self._measure(refs, range(first, first + len(refs)))
        is_banned = self._samples.ban_check
        if is_banned is not None:
            kept = [entry for entry in entries if not is_banned(entry.payload, entry.address)]
            self._failures.stats.banned += len(entries) - len(kept)
            entries = kept
        known = [entry for entry in entries if min(entry.lengths) >= 0]
        # If no length is missing, one success is as good as all.
        for entry in entries if len(known) < len(entries) and not is_replay else known[:1]:
            if min(entry.lengths) >= 0:
                self._failures.record_success("length")
                continue
            error = DatasetError(
                f"the length of a sample is {min(entry.lengths)}", hint="check the function that computed the column"
            )
            self._failures.record_failure("length", error, None, self.where(entry))
        return known, len(refs)

    def rebuild(self, address: Address) -> PackCandidate:
        (entry,) = self._measure([self._refs.lookup(address)], [address])
        return entry

    def make_items(self, candidate: PackCandidate) -> list[PipelineItem]:
        return self._samples.make_items(candidate.payload, draw_of(candidate.address))

    def banned_by(self, candidate: PackCandidate) -> int:
        is_banned = self._samples.ban_check
        return 0 if is_banned is None else is_banned(candidate.payload, None)

    def where(self, candidate: PackCandidate) -> str:
        source, block, i = candidate.payload
        where: str = source.describe_reference(block, i)
        return where

    def _measure(self, refs: Sequence[SampleRef], draws: Sequence[int]) -> list[PackCandidate]:
        columns = [self._columns.lengths(refs, name) for name in self._names]
        samples = [(source.number, block.rows[i]) for source, block, i in refs]
        return list(map(PackCandidate, draws, zip(*columns, strict=True), refs, samples))


class FunctionCandidates:
    """Candidates with lengths from functions, held in memory. A candidate is one output of the hooks. Some budgets may
    still use columns. `seed`: of the random numbers that the functions draw for a sample."""

    def __init__(
        self,
        lengths: Sequence[LengthSource],
        seed: int,
        samples: SampleCursorLike,
        refs: RefCursorLike,
        failures: FailureTracker,
    ) -> None:
        self._lengths = [
            length if isinstance(length, str) else Hook("length", _checked_length(length), seed) for length in lengths
        ]
        self._samples = samples
        self._refs = refs
        self._failures = failures
        self._columns = ColumnReader()

    def take(self, count: int, *, is_replay: bool) -> tuple[list[PackCandidate], int]:  # noqa: ARG002 - hooks run and count again
        entries: list[PackCandidate] = []
        for taken in range(count):
            item = self._samples.next()
            if item is None:
                return entries, taken
            lengths = self._measure(item, self._samples.ref)
            if lengths is not None:
                entries.append(PackCandidate(item.address, lengths, item, _sample_of(item)))
        return entries, count

    def rebuild(self, address: Address) -> PackCandidate:
        item = self._samples.rebuild(address)
        needs_ref = any(isinstance(length, str) for length in self._lengths)
        lengths = self._measure(item, self._refs.lookup(draw_of(address)) if needs_ref else None)
        if lengths is None:
            raise LoaderError(
                "a sample that waits for a pack has no length any more",
                where=describe_sample_location(item.value),
                hint="resume with the functions and the data of the run that saved the state",
                code="WDS502",
            )
        return PackCandidate(address, lengths, item, _sample_of(item))

    def make_items(self, candidate: PackCandidate) -> list[PipelineItem]:
        return [candidate.payload]

    def banned_by(self, candidate: PackCandidate) -> int:
        banned: int = candidate.payload.banned_by
        return banned

    def where(self, candidate: PackCandidate) -> str:
        return describe_sample_location(candidate.payload.value)

    def _measure(self, item: PipelineItem, ref: SampleRef | None) -> LengthTuple | None:
        """The lengths of a sample; None if a function fails on it or skips it."""
        found: list[int] = []
        for length in self._lengths:
            if isinstance(length, Hook):
                length_value = length.run(item.value, item.origin_hash, self._failures, describe_sample_location)
                if length_value is NO_OUTPUT:
                    return None
                found.append(length_value)
            elif ref is not None:
                found += self._columns.lengths([ref], length)
        return tuple(found)


def _sample_of(item: PipelineItem) -> tuple[Any, ...]:
    """The restore key of a sample without its pass."""
    source, _, *rest = item.restore_keys[0]
    return (source, *rest)


def draw_of(address: Address) -> int:
    """The lane's draw of a sample or a piece."""
    draw: int = address[0] if isinstance(address, list) else address
    return draw


def _checked_length(function: Callable[[Any], int]) -> Callable[[Any], int]:
    def length(sample: Any) -> int:
        number = require_int("a length", function(sample))
        if number < 0:
            raise UsageError(f"a length is {number}", hint="return a length of 0 or more")
        return number

    return length
