"""Handles samples that are longer than a pack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from wdsctl.core.errors import LoaderError
from wdsctl.loader.packing.candidates import CandidateSource, PackCandidate
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.runtime.stage import Address


def fit_candidates(
    sized_candidates: Sequence[PackCandidate], packing: Packing, candidate_source: CandidateSource
) -> tuple[list[PackCandidate], int]:
    """The candidates that fit, by the packing's policy, and how many were too long. Raises LoaderError (WDS509)."""
    room = packing.capacities
    fit: list[PackCandidate] = []
    too_long = 0
    for entry in sized_candidates:
        if all(length <= most for length, most in zip(entry.lengths, room, strict=True)):
            fit.append(entry)
            continue
        too_long += 1
        if packing.too_long == "error":
            _raise_too_long(entry, packing, candidate_source.where(entry))
        elif packing.too_long == "truncate":
            fit.append(_cut_candidate(entry, 0, room[0]))
        elif packing.too_long == "split":
            (length,) = entry.lengths
            fit += (_cut_candidate(entry, at, min(at + room[0], length)) for at in range(0, length, room[0]))
    return fit, too_long


def piece_bounds(address: Address) -> tuple[int, int] | None:
    """Start and stop of a piece; None for an uncut sample."""
    return (address[2], address[3]) if isinstance(address, list) and len(address) == 4 else None


def sample_address(address: Address) -> Address:
    """The address of the sample of a piece; that of an uncut sample itself."""
    if piece_bounds(address) is None:
        return address
    draw, step, _, _ = address
    return [draw, step] if step else draw


def rebuild_candidate(address: Address, candidate_source: CandidateSource) -> PackCandidate:
    """The candidate at an address: a sample, or a piece of one."""
    entry = candidate_source.rebuild(sample_address(address))
    piece = piece_bounds(address)
    return entry if piece is None else _cut_candidate(entry, *piece)


def _cut_candidate(candidate: PackCandidate, start: int, stop: int) -> PackCandidate:
    draw, step = candidate.address if isinstance(candidate.address, list) else (candidate.address, 0)
    payload = (candidate.payload, candidate.lengths[0])
    return PackCandidate([draw, step, start, stop], (stop - start,), payload, (*candidate.sample, "from", start))


def _raise_too_long(candidate: PackCandidate, packing: Packing, where: str) -> NoReturn:
    budgets = zip(packing.lengths, candidate.lengths, packing.capacities, strict=True)
    facts = [f"{name} {length:,} of {most:,}" for name, length, most in budgets if length > most]
    raise LoaderError(
        f"a sample is too long for a pack: {', '.join(facts)}",
        where=where,
        hint="raise the capacity, or choose too_long 'drop', 'truncate' or 'split'",
        code="WDS509",
    )
