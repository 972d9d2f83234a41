"""Is a tar of the right size the one that was indexed? Its first and its last part have their names before them."""

from __future__ import annotations

from typing import NamedTuple

from wdsctl.core.line_files import is_lines
from wdsctl.core.shard_index import ShardIndex
from wdsctl.core.tar import BLOCK, NAME, BadHeader, parse_header


class Probe(NamedTuple):
    """`at`: where a header begins, in bytes. `name`: of its member, folders and all."""

    at: int
    name: bytes

    def fits(self, block: bytes) -> bool:
        """Whether 512 bytes that stand there are that header. Names are compared where headers hold them whole."""
        if len(block) < BLOCK:
            return False
        try:
            found = parse_header(block).name
        except BadHeader:
            return False
        # Long names are cut off, `?` may stand for what is not ASCII, and keys have `\\` for what is no UTF-8.
        is_plain = self.name.isascii() and b"\\" not in self.name and max(len(self.name), len(found) + 1) <= NAME[1]
        # What a name begins with, `./` for one, is no part of the key.
        return not is_plain or _base(found) == _base(self.name)


def probes_of(index: ShardIndex, i: int) -> list[Probe]:
    """Of the i-th shard: nothing where it has no samples, or is no tar."""
    first, after = int(index.shard_row[i]), int(index.shard_row[i + 1])
    if first == after or is_lines(index.shards[i].path):
        return []
    ends = [(first, index.parts(first)[:1]), (after - 1, index.parts(after - 1)[-1:])]
    found = [Probe(at - BLOCK, f"{index.key(row)}.{part}".encode()) for row, parts in ends for part, at, _ in parts]
    return [probe for probe in found if probe.at >= 0]


def _base(name: bytes) -> bytes:
    return name.rpartition(b"/")[2].lower()
