"""What a store finds under a name: where the bytes are. Plain values, which any process can read by."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """`name`: as it was asked for, in full. Of a whole sample, `parts` has an entry each, and `part` is empty."""

    name: str
    part: str  # decides how it is decoded
    path: str  # of the file, absolute, or a URL
    shard: str  # the file below the root of its store
    offset: int  # bytes from the start of the file
    size: int  # bytes; of a whole sample, from its first part to the end of the last
    row: int  # the sample's index in its store; of a plain file 0
    file_size: int | None = None  # bytes that the file must have; None: not known
    mark: str = ""  # what else changes when a plain file does
    parts: tuple[Entry, ...] = ()

    @property
    def file_names(self) -> tuple[str, ...]:
        """The files of the store that it is made of."""
        return tuple(part.name for part in self.parts) or (self.name,)
