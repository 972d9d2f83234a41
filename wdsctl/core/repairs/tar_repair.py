"""Repairs one tar: what is wrong with it, and the bytes of a fixed copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wdsctl.core.members import Read
from wdsctl.core.repairs.fixes import Fixes
from wdsctl.core.repairs.grouping import Group, grouped, names_of
from wdsctl.core.repairs.indexed import Member
from wdsctl.core.repairs.salvage import Piece, Salvaged, salvage
from wdsctl.core.tar import BLOCK, padded
from wdsctl.core.tar_header import END, header

_CHUNK = 8 << 20  # bytes copied at a time


def plan_tar(read: Read, size: int, fixes: Fixes, known: Sequence[Member] = ()) -> tuple[Salvaged, list[Group]]:
    """What the fixed copy is made of; nothing is to be done where `fixes` stays empty. Raises what reading raises.

    `known`: the members that were indexed. What the copy has not of them is in `fixes.lost`.
    """
    found = salvage(read, size, fixes)
    if not found.pieces:
        fixes.left.append("it holds no tar members" if size else "the file is empty")
        fixes.lost += [each.name for each in known]
        return found, []
    return found, grouped(found, fixes, known)


def tar_bytes(found: Salvaged, groups: Sequence[Group]) -> Iterator[bytes]:
    """The fixed copy, piece by piece. Members keep their headers unless their name changes; the end mark is two blocks.

    The same input gives the same bytes.
    """
    for group in groups:
        for piece, name in names_of(group):
            if name:
                yield header(name.encode("utf-8", "surrogateescape"), piece.size)
                yield from _copied(found, piece, piece.data)
            else:
                yield from _copied(found, piece, piece.start)
    yield END


def _copied(found: Salvaged, piece: Piece, start: int) -> Iterator[bytes]:
    """A member from `start` to its end; padding that the file lacks is zeros, and so is what stands in it."""
    stop = piece.data + piece.size if piece.name else piece.end
    at = start
    while at < stop:
        chunk = found.read(at, min(_CHUNK, stop - at))
        yield chunk
        at += len(chunk)
    yield bytes(padded(stop - start) - (stop - start)) if (stop - start) % BLOCK else b""
