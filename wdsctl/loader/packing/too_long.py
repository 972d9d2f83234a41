"""What becomes of samples that are longer than a pack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from wdsctl.core.errors import LoaderError
from wdsctl.loader.packing.candidates import Candidates, Entry
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.stages.item import Address


def fitted(entries: Sequence[Entry], packing: Packing, candidates: Candidates) -> tuple[list[Entry], int]:
    """Entries that fit, by the policy of the packing, and how many were too long. Raises LoaderError (WDS509)."""
    room = packing.capacities
    fit: list[Entry] = []
    too_long = 0
    for entry in entries:
        if all(length <= most for length, most in zip(entry.lengths, room, strict=True)):
            fit.append(entry)
            continue
        too_long += 1
        if packing.too_long == "error":
            _refuse(entry, packing, candidates.where(entry))
        elif packing.too_long == "truncate":
            fit.append(_piece(entry, 0, room[0]))
        elif packing.too_long == "split":
            fit += _pieces(entry, room[0])
    return fit, too_long


def piece_of(address: Address) -> tuple[int, int] | None:
    """From where to where a piece reaches; None for a whole sample."""
    return (address[2], address[3]) if isinstance(address, list) and len(address) == 4 else None


def whole_of(address: Address) -> Address:
    """The address of the sample that a piece is of."""
    if piece_of(address) is None:
        return address
    pick, step, _, _ = address
    return [pick, step] if step else pick


def recalled(address: Address, candidates: Candidates) -> Entry:
    """A sample or a piece once more."""
    entry = candidates.recall(whole_of(address))
    piece = piece_of(address)
    return entry if piece is None else _piece(entry, *piece)


def _pieces(entry: Entry, room: int) -> Iterator[Entry]:
    (length,) = entry.lengths
    for start in range(0, length, room):
        yield _piece(entry, start, min(start + room, length))


def _piece(entry: Entry, start: int, stop: int) -> Entry:
    pick, step = entry.address if isinstance(entry.address, list) else (entry.address, 0)
    return Entry([pick, step, start, stop], (stop - start,), (entry.held, entry.lengths[0]))


def _refuse(entry: Entry, packing: Packing, where: str) -> NoReturn:
    budgets = zip(packing.lengths, entry.lengths, packing.capacities, strict=True)
    facts = [f"{name} {length:,} of {most:,}" for name, length, most in budgets if length > most]
    raise LoaderError(
        f"a sample is too long for a pack: {', '.join(facts)}",
        where=where,
        hint="raise the capacity, or choose too_long 'drop', 'truncate' or 'split'",
        code="WDS509",
    )
