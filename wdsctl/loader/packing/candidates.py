"""The samples that a window is planned of, and the two ways to know their lengths.

By columns: a reference is all that is needed, and a sample is read when its pack is made. By a function: samples are
read and encoded first, and held until their pack is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.columns import Values
from wdsctl.core.errors import DatasetError, LoaderError, UsageError
from wdsctl.loader.failures import Failures, place_of
from wdsctl.loader.packing.options import Length
from wdsctl.loader.stages.hook import NOTHING, Hook
from wdsctl.loader.stages.item import Address, Item
from wdsctl.loader.worker_config import whole

if TYPE_CHECKING:
    from wdsctl.loader.source import Ref  # which knows what a dataset is, and that knows what packing is

Ints = NDArray[np.int64]
Lengths = tuple[int, ...]


class Samples(Protocol):
    """What is packed: the cursor of samples."""

    ref: Ref | None
    is_banned: Callable[[Ref, int | None], int] | None

    def next(self) -> Item | None: ...

    def rebuild(self, address: Address) -> Item: ...

    def items_of(self, ref: Ref, pick: int) -> list[Item]: ...

    def state(self) -> Any: ...

    def load(self, state: Any) -> None: ...


class References(Protocol):
    """The references that the samples are made of."""

    picks: int

    def take(self, count: int) -> list[Ref]: ...

    def at(self, pick: int) -> Ref: ...


class Entry(NamedTuple):
    """A sample, or a piece of one. `address`: as the stage before says it, or [pick, step, start, stop] of a piece.

    `held`: what the sample is made of when its pack is; None where it must be found again first.
    """

    address: Address
    lengths: Lengths
    held: Any


class Candidates(Protocol):
    """Where a window's samples come from."""

    def take(self, count: int, *, again: bool) -> tuple[list[Entry], int]:
        """The next candidates, and how many were looked at: fewer than `count` where a finite lane ends.

        `again`: this was done before, and counted then.
        """

    def recall(self, address: Address) -> Entry:
        """The whole sample of an address once more."""

    def items(self, entry: Entry) -> list[Item]:
        """What goes into a pack for a candidate; nothing where it is skipped or cannot be read."""

    def banned_by(self, entry: Entry) -> int:
        """The ban that has taken a candidate or the sample that it is a piece of by now, counted from 1; 0: none."""

    def where(self, entry: Entry) -> str: ...


class Columns:
    """The columns of the sources, by name; each is opened once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], Values] = {}

    def lengths(self, refs: Sequence[Ref], name: str) -> list[int]:
        """The column's values at these references."""
        by_source: dict[int, list[int]] = {}
        for place, (source, _, _) in enumerate(refs):
            by_source.setdefault(source.number, []).append(place)
        values = np.empty(len(refs), np.int64)
        for places in by_source.values():
            column = self._column(refs[places[0]], name)
            values[places] = column[[block.rows[i] for _, block, i in (refs[place] for place in places)]]
        listed: list[int] = values.tolist()
        return listed

    def _column(self, ref: Ref, name: str) -> Values:
        key = (ref[0].number, name)
        if key not in self._known:
            self._known[key] = ref[0].column(name)
        return self._known[key]


class ByColumns:
    """Nothing is read to plan. A candidate is a pick; everything that the hooks make of it goes into one pack."""

    def __init__(self, names: Sequence[str], samples: Samples, refs: References, failures: Failures) -> None:
        self._names = names
        self._samples = samples
        self._refs = refs
        self._failures = failures
        self._columns = Columns()

    def take(self, count: int, *, again: bool) -> tuple[list[Entry], int]:
        first = self._refs.picks
        refs = self._refs.take(count)
        entries = self._measured(refs, range(first, first + len(refs)))
        is_banned = self._samples.is_banned
        if is_banned is not None:
            kept = [entry for entry in entries if not is_banned(entry.held, entry.address)]
            self._failures.stats.banned += 0 if again else len(entries) - len(kept)
            entries = kept
        unknown = [entry for entry in entries if min(entry.lengths) < 0]
        for entry in () if again else unknown:
            error = DatasetError(
                f"the length of a sample is {min(entry.lengths)}", hint="look at the function that made the column"
            )
            self._failures.failed("length", error, None, self.where(entry))
        return [entry for entry in entries if min(entry.lengths) >= 0] if unknown else entries, len(refs)

    def recall(self, address: Address) -> Entry:
        (entry,) = self._measured([self._refs.at(address)], [address])
        return entry

    def items(self, entry: Entry) -> list[Item]:
        return self._samples.items_of(entry.held, pick_of(entry.address))

    def banned_by(self, entry: Entry) -> int:
        is_banned = self._samples.is_banned
        return 0 if is_banned is None else is_banned(entry.held, None)

    def where(self, entry: Entry) -> str:
        source, block, i = entry.held
        where: str = source.where(block, i)
        return where

    def _measured(self, refs: Sequence[Ref], picks: Sequence[int]) -> list[Entry]:
        columns = [self._columns.lengths(refs, name) for name in self._names]
        return list(map(Entry, picks, zip(*columns, strict=True), refs))


class ByFunctions:
    """Samples are held. A candidate is an output of the hooks. Some of the lengths may still come from columns."""

    def __init__(self, lengths: Sequence[Length], samples: Samples, refs: References, failures: Failures) -> None:
        self._lengths = [
            length if isinstance(length, str) else Hook("length", _checked(length), 0) for length in lengths
        ]
        self._samples = samples
        self._refs = refs
        self._failures = failures
        self._columns = Columns()

    def take(self, count: int, *, again: bool) -> tuple[list[Entry], int]:  # noqa: ARG002 - hooks run and count again
        entries: list[Entry] = []
        for taken in range(count):
            item = self._samples.next()
            if item is None:
                return entries, taken
            lengths = self._measured(item, self._samples.ref)
            if lengths is not None:
                entries.append(Entry(item.address, lengths, item))
        return entries, count

    def recall(self, address: Address) -> Entry:
        item = self._samples.rebuild(address)
        needs_ref = any(isinstance(length, str) for length in self._lengths)
        lengths = self._measured(item, self._refs.at(pick_of(address)) if needs_ref else None)
        if lengths is None:
            raise LoaderError(
                "a sample that waits for a pack has no length any more",
                where=place_of(item.value),
                hint="resume with the functions and the data of the run that saved the state",
                code="WDS502",
            )
        return Entry(address, lengths, item)

    def items(self, entry: Entry) -> list[Item]:
        return [entry.held]

    def banned_by(self, entry: Entry) -> int:
        banned: int = entry.held.banned
        return banned

    def where(self, entry: Entry) -> str:
        return place_of(entry.held.value)

    def _measured(self, item: Item, ref: Ref | None) -> Lengths | None:
        """The lengths of a sample; None where a function fails on it or skips it."""
        found: list[int] = []
        for length in self._lengths:
            if isinstance(length, Hook):
                made = length.plain(item.value, self._failures, place_of)
                if made is NOTHING:
                    return None
                found.append(made)
            elif ref is not None:
                found += self._columns.lengths([ref], length)
        return tuple(found)


def pick_of(address: Address) -> int:
    """The lane's pick that a sample or a piece comes from."""
    pick: int = address[0] if isinstance(address, list) else address
    return pick


def _checked(function: Callable[[Any], int]) -> Callable[[Any], int]:
    def length(sample: Any) -> int:
        number = whole("a length", function(sample))
        if number < 0:
            raise UsageError(f"a length is {number}", hint="lengths are 0 or more")
        return number

    return length
