"""Checks whether a tar of the right size is the one that was indexed, by the names in the headers of its first and last
part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wdsctl.core.dataset.shard_names import is_tar_name
from wdsctl.core.tar_header import NAME_FIELD, TAR_BLOCK_BYTES, BadTarHeader, parse_header

if TYPE_CHECKING:
    from wdsctl.core.offsets.read import ShardIndex  # imports numpy, which `get` does without


class Probe(NamedTuple):
    """`offset`: of a header, in bytes. `name`: of its member, with folders."""

    offset: int
    name: bytes

    def fits(self, block: bytes) -> bool:
        """Whether the 512 bytes at `offset` are this header. Compares names only if headers can hold them whole."""
        if len(block) < TAR_BLOCK_BYTES:
            return False
        try:
            found = parse_header(block).name
        except BadTarHeader:
            return False
        # Headers cut off long names, and may have `?` for non-ASCII text; keys have `\\` for bytes that are not UTF-8.
        is_plain = (
            self.name.isascii() and b"\\" not in self.name and max(len(self.name), len(found) + 1) <= NAME_FIELD[1]
        )
        # Keys lack prefixes of names, such as `./`.
        return not is_plain or _base(found) == _base(self.name)


def probes_of(index: ShardIndex, i: int) -> list[Probe]:
    """The probes of the i-th shard; none if it has no samples, or is not a tar."""
    first, after = int(index.shard_row[i]), int(index.shard_row[i + 1])
    if first == after or not is_tar_name(index.shards[i].path):
        return []
    ends = [(first, index.parts(first)[:1]), (after - 1, index.parts(after - 1)[-1:])]
    found = [
        Probe(at - TAR_BLOCK_BYTES, f"{index.key(row)}.{part}".encode()) for row, parts in ends for part, at, _ in parts
    ]
    return [probe for probe in found if probe.offset >= 0]


def _base(name: bytes) -> bytes:
    return name.rpartition(b"/")[2].lower()
