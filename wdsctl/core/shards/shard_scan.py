"""The result of scanning one shard: samples and parts as columns, and findings. Also its form in a result file.

A result file holds facts and then the bytes of columns, in the order in which the facts list them: [name, dtype,
count]. Columns that can be derived have no bytes. These are keys that are line numbers, columns of one value ([name,
dtype, count, value]), and columns equal to another one ([name, other]). A JSONL file keeps two columns of seven: 16
bytes a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import Finding
from wdsctl.core.job_results import EncodedResult
from wdsctl.core.shards.jsonl_keys import build_numbered_keys

ShardStatus = Literal["ok", "partial", "bad", "unreadable"]


def array_bytes(column: NDArray[Any]) -> memoryview:
    """Return the bytes of an array. Copies only an array that is not contiguous."""
    return np.ascontiguousarray(column).view(np.uint8).data


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardScan:
    """The samples of one shard as columns, in tar order. Offsets are bytes from the start of the shard."""

    status: ShardStatus
    keys: bytes  # all keys joined without separators, UTF-8
    key_sizes: NDArray[np.uint32]  # (samples,)
    offsets: Int64Array  # (samples,): the first header of each sample
    sizes: Int64Array  # (samples,): bytes from there to the end of the last part; in other formats, of its parts
    counts: NDArray[np.uint32]  # (samples,): number of parts of each sample
    extensions: tuple[str, ...]  # part names, in order of first appearance
    part_names: NDArray[np.uint32]  # (parts,): index into `extensions`
    part_offsets: Int64Array  # (parts,): first byte of the data
    part_sizes: Int64Array  # (parts,)
    findings: tuple[Finding, ...]
    sha256: str | None = None  # of the whole file; None if the scan did not hash it
    numbered_key_prefix: str | None = None  # the prefix of all keys if they are PREFIX0, PREFIX1, ...; otherwise None
    known_layout_hash: str | None = None  # the layout hash, if it has been computed

    @property
    def samples(self) -> int:
        return len(self.offsets)

    @property
    def error_code(self) -> str | None:
        """The code of the first finding that is an error, or None."""
        return next((finding.code for finding in self.findings if finding.severity == "error"), None)

    def layout_hash(self) -> str:
        """Return a hash of all keys, part names and positions: 32 hex digits. Shards with equal hashes are read alike.

        Cost: 70 ns a sample, with the GIL released; nothing if `known_layout_hash` is set.
        """
        if self.known_layout_hash is not None:
            return self.known_layout_hash
        digest = blake2b(digest_size=16)
        arrays: tuple[NDArray[Any], ...] = (self.key_sizes, self.offsets, self.counts)
        arrays += (self.part_names, self.part_offsets, self.part_sizes)
        columns: list[bytes | memoryview] = [self.keys, "\0".join(self.extensions).encode(), *map(array_bytes, arrays)]
        for column in columns:
            digest.update(len(column).to_bytes(8, "little"))
            digest.update(column)
        return digest.hexdigest()

    def first_samples(self, samples: int) -> ShardScan:
        """Return this scan with its first `samples` samples only."""
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
            known_layout_hash=None,
        )

    def decode_keys(self, rows: slice = slice(None)) -> list[str]:
        """Return the keys of the samples in `rows`."""
        ends = np.append(0, np.cumsum(self.key_sizes, dtype=np.int64))
        start, stop, _ = rows.indices(self.samples)
        return split_texts(self.keys, ends[start : stop + 1])

    def decode_keys_at(self, rows: Sequence[int]) -> list[str]:
        """Return the keys of some samples."""
        ends = np.append(0, np.cumsum(self.key_sizes, dtype=np.int64))
        return [self.keys[ends[row] : ends[row + 1]].decode() for row in rows]


def split_texts(joined: bytes, bounds: NDArray[np.int64]) -> list[str]:
    """Split `joined` at the byte offsets `bounds` and decode each piece."""
    first = int(bounds[0])
    blob = joined[first : int(bounds[-1])]
    spans = pairwise((bounds - first).tolist())
    if blob.isascii():
        text = blob.decode("ascii")
        return [text[a:b] for a, b in spans]
    return [blob[a:b].decode() for a, b in spans]


_SAVED_COLUMNS = ("offsets", "sizes", "counts", "part_names", "part_offsets", "part_sizes")


def encode_scan(_unit: object, scan: ShardScan) -> EncodedResult | None:
    """Encode a scan for a result file. Returns None for an unreadable shard, so that the next run scans it again."""
    if scan.status == "unreadable":
        return None
    columns: dict[str, NDArray[Any]] = {name: getattr(scan, name) for name in _SAVED_COLUMNS}
    if scan.numbered_key_prefix is None:
        columns |= {"keys": np.frombuffer(scan.keys, np.uint8), "key_sizes": scan.key_sizes}
    kept: dict[str, NDArray[Any]] = {}
    listed: list[list[Any]] = []
    for name, array in columns.items():
        same = next((other for other, before in kept.items() if before is array), None)
        if same is not None:
            listed.append([name, same])
        elif _is_constant(array):
            listed.append([name, array.dtype.str, len(array), int(array[0])])
        else:
            listed.append([name, array.dtype.str, len(array)])
            kept[name] = array
    facts = {
        "status": scan.status,
        "extensions": scan.extensions,
        "sha256": scan.sha256,
        "findings": [asdict(finding) for finding in scan.findings],
        "numbered": scan.numbered_key_prefix,
        "layout": scan.known_layout_hash,
        "columns": listed,
    }
    return facts, [array_bytes(array) for array in kept.values()]


def decode_scan(facts: Mapping[str, Any], data: memoryview) -> ShardScan:
    """Return the scan that `encode_scan` encoded. Raises one of `MALFORMED_ERRORS` if facts or bytes are malformed."""
    at = 0
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype, *rest in facts["columns"]:
        if not rest:
            columns[name] = columns[dtype]
        elif len(rest) > 1:
            if not 0 <= rest[0] <= max(1, len(data)):  # a column of the same length has a byte or more a row
                raise ValueError(rest)
            columns[name] = np.full(rest[0], rest[1], dtype)
        else:
            if rest[0] < 0:
                raise ValueError(rest)
            columns[name] = np.frombuffer(data, dtype, rest[0], at)
            at += columns[name].nbytes
    prefix = facts["numbered"]
    if prefix is None:
        keys, key_sizes = columns.pop("keys").tobytes(), columns.pop("key_sizes")
    else:
        keys, key_sizes = build_numbered_keys(prefix.encode(), len(columns["offsets"]))
    scan = ShardScan(
        status=facts["status"],
        keys=keys,
        key_sizes=key_sizes,
        extensions=tuple(facts["extensions"]),
        findings=tuple(Finding(**finding) for finding in facts["findings"]),
        sha256=facts["sha256"],
        numbered_key_prefix=prefix,
        known_layout_hash=facts["layout"],
        **columns,
    )
    if not _is_consistent(scan):
        raise ValueError("the columns have different lengths")
    return scan


def _is_consistent(scan: ShardScan) -> bool:
    """Whether the lengths, types and sums of the columns agree."""
    samples, parts = len(scan.offsets), len(scan.part_offsets)
    of_samples, of_parts = (scan.sizes, scan.counts, scan.key_sizes), (scan.part_names, scan.part_sizes)
    if any(len(column) != samples for column in of_samples) or any(len(column) != parts for column in of_parts):
        return False
    numbers: tuple[NDArray[Any], ...] = (scan.offsets, *of_samples, scan.part_offsets, *of_parts)
    if not all(column.dtype.kind == "u" or _are_counts(column) for column in numbers):
        return False
    is_named = not parts or int(scan.part_names.max()) < len(scan.extensions)
    if not all(map(_is_name, scan.extensions)) or not isinstance(scan.status, str):
        return False
    if not all(text is None or isinstance(text, str) for text in (scan.sha256, scan.known_layout_hash)):
        return False
    return is_named and (int(scan.counts.sum()), int(scan.key_sizes.sum())) == (parts, len(scan.keys))


def _are_counts(column: NDArray[Any]) -> bool:
    return column.dtype.kind == "i" and int(column.min(initial=0)) >= 0


def _is_name(part: Any) -> bool:
    return isinstance(part, str) and "/" not in part and "\0" not in part


def _is_constant(array: NDArray[Any]) -> bool:
    """Whether the array has two or more elements, all equal.

    Comparing the ends first rejects most other arrays at once.
    """
    return len(array) > 1 and bool(array[0] == array[-1]) and bool((array == array[0]).all())
