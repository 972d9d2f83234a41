"""What a scan says of one shard: samples and parts as columns, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.findings import Finding
from wdsctl.core.plain_members import Ints

Status = Literal["ok", "partial", "bad", "unreadable"]


def as_bytes(column: NDArray[Any]) -> memoryview:
    """The bytes of an array, not copied unless they lie apart."""
    return np.ascontiguousarray(column).view(np.uint8).data


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardScan:
    """The samples of one shard as columns, in tar order. Offsets are bytes from the start of the shard."""

    status: Status
    keys: bytes  # all keys, one after the other, UTF-8
    key_sizes: NDArray[np.uint32]  # (samples,)
    offsets: Ints  # (samples,): the first header of each sample
    sizes: Ints  # (samples,): from there to the end of its last part, padding included
    counts: NDArray[np.uint32]  # (samples,): parts of each
    extensions: tuple[str, ...]  # part names, in the order they first appear
    part_names: NDArray[np.uint32]  # (parts,): index into `extensions`
    part_offsets: Ints  # (parts,): first byte of the data
    part_sizes: Ints  # (parts,)
    findings: tuple[Finding, ...]
    sha256: str | None = None  # of the whole file, where it was asked for
    numbered: str | None = None  # what stands before the number in every key; None where keys are not 0, 1, 2, ...
    layout: str | None = None  # the layout hash, where it has been worked out

    @property
    def samples(self) -> int:
        return len(self.offsets)

    @property
    def code(self) -> str | None:
        """The code of what is gravely wrong with the shard, if anything is."""
        return next((finding.code for finding in self.findings if finding.severity == "error"), None)

    def layout_hash(self) -> str:
        """A name for where everything is: 32 hex digits. Two shards with one hash are read alike.

        Cost: 70 ns a sample, without Python's lock, where `layout` does not have it.
        """
        if self.layout is not None:
            return self.layout
        digest = blake2b(digest_size=16)
        arrays: tuple[NDArray[Any], ...] = (self.key_sizes, self.offsets, self.counts)
        arrays += (self.part_names, self.part_offsets, self.part_sizes)
        columns: list[bytes | memoryview] = [self.keys, "\0".join(self.extensions).encode(), *map(as_bytes, arrays)]
        for column in columns:
            digest.update(len(column).to_bytes(8, "little"))
            digest.update(column)
        return digest.hexdigest()

    def first(self, samples: int) -> ShardScan:
        """The same without what comes after so many samples."""
        parts = int(self.counts[:samples].sum(dtype=np.int64))
        return replace(
            self,
            keys=self.keys[: int(self.key_sizes[:samples].sum(dtype=np.int64))],
            key_sizes=self.key_sizes[:samples],
            offsets=self.offsets[:samples],
            sizes=self.sizes[:samples],
            counts=self.counts[:samples],
            part_names=self.part_names[:parts],
            part_offsets=self.part_offsets[:parts],
            part_sizes=self.part_sizes[:parts],
            layout=None,
        )

    def key_list(self, rows: slice = slice(None)) -> list[str]:
        """The keys of these samples."""
        ends = np.append(0, np.cumsum(self.key_sizes, dtype=np.int64))
        start, stop, _ = rows.indices(self.samples)
        return texts(self.keys, ends[start : stop + 1])


def texts(joined: bytes, bounds: NDArray[np.int64]) -> list[str]:
    """The texts that lie side by side between neighbours of `bounds`."""
    first = int(bounds[0])
    blob = joined[first : int(bounds[-1])]
    spans = pairwise((bounds - first).tolist())
    if blob.isascii():
        text = blob.decode("ascii")
        return [text[a:b] for a, b in spans]
    return [blob[a:b].decode() for a, b in spans]
