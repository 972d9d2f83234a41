"""Scans one shard: which samples and parts it holds, where, and what is wrong with it. Reads headers, never data.

Members with one key that stand side by side are one sample. Cost: about 1 µs a member on one core; memory: about 60
bytes a sample of two parts for as long as the shard is scanned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.header_search import headers
from wdsctl.core.member_names import Extensions, first_dots, is_meta, lengths, shifted, strings
from wdsctl.core.members import MOST_PADDING, Ending, Odd, Read, walk
from wdsctl.core.noticed import Noticed
from wdsctl.core.plain_members import Bytes, Ints, Members
from wdsctl.core.scan_findings import ending_findings, sample_findings
from wdsctl.core.shard_scan import ShardScan, Status
from wdsctl.core.tar import BLOCK, PACKED_HEAD, compression


@dataclass(slots=True)
class _Columns:
    """What a scan has gathered so far: a list of arrays a column."""

    keys: list[bytes]
    key_sizes: list[Ints]
    offsets: list[Ints]
    starts: list[Ints]  # index of each sample's first part
    names: list[NDArray[np.uint32]]
    part_offsets: list[Ints]
    part_sizes: list[Ints]
    parts: int
    last_key: bytes


def scan_shard(shard: str, read: Read, size: int) -> ShardScan:
    """Scan a shard of `size` bytes; `shard` is the name its findings carry. Raises what `read` raises, nothing else."""
    table, noticed = Extensions(), Noticed(shard)
    columns, ending = _gathered(read, size, table, noticed)
    compressed = compression(read(0, min(PACKED_HEAD, size))) if size and ending.how == "not a tar" else ""
    unread = _behind(read, size, ending.offset) if ending.how == "trailing data" else 0
    return _finish(columns, table, noticed, ending, compressed, unread)


def _gathered(read: Read, size: int, table: Extensions, noticed: Noticed) -> tuple[_Columns, Ending]:
    columns = _Columns([], [], [], [], [], [], [], 0, b"")
    ending = Ending("not a tar", 0)
    for item in walk(read, size):
        if isinstance(item, Members):
            _add(columns, item, table, noticed)
        elif isinstance(item, Odd):
            noticed.odd(item)
        else:
            ending = item
    return columns, ending


def _behind(read: Read, size: int, at: int) -> int:
    """How many samples stand behind the end mark, where no reader sees them. Reads all there that is no member."""
    samples = 0
    while (found := next(headers(read, min(size, at + MOST_PADDING), at), None)) is not None:
        rest = partial(_from, read, found)
        columns, ending = _gathered(rest, size - found, Extensions(), Noticed(""))
        samples += sum(map(len, columns.offsets))
        at = found + max(ending.offset, BLOCK)
    return samples


def _from(read: Read, start: int, at: int, size: int) -> bytes:
    return read(start + at, size)


def _add(columns: _Columns, members: Members, table: Extensions, noticed: Noticed) -> None:
    """Split names into keys and parts, and members into samples."""
    names, sizes, dots = members.names, lengths(members.names), first_dots(members.names)
    keyed = (dots > 0) & (dots < sizes - 1) & ~is_meta(names, dots)
    if not keyed.all():
        noticed.nameless(members, ~keyed)
        names, sizes, dots = names[keyed], sizes[keyed], dots[keyed]
        members = Members(members.header[keyed], members.data[keyed], members.size[keyed], names)
    if len(names) == 0:
        return
    noticed.empty(members)
    noticed.leading_out(members)
    keys = np.where(np.arange(names.shape[1]) < dots[:, None], names, 0).astype(np.uint8)
    first = np.ones(len(keys), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    first[0] = strings(keys[:1])[0] != columns.last_key
    columns.last_key = strings(keys[-1:])[0]
    _add_keys(columns, names[first], dots[first], noticed)
    columns.offsets.append(members.header[first])
    columns.starts.append(columns.parts + np.flatnonzero(first))
    columns.names.append(table.encode(shifted(names, dots + 1, sizes)))
    columns.part_offsets.append(members.data)
    columns.part_sizes.append(members.size)
    columns.parts += len(names)


def _add_keys(columns: _Columns, names: Bytes, sizes: Ints, noticed: Noticed) -> None:
    blob = names[np.arange(names.shape[1]) < sizes[:, None]].tobytes()
    if not blob.isascii():
        blob, sizes = noticed.utf8(blob, sizes)
    columns.keys.append(blob)
    columns.key_sizes.append(sizes)


def _finish(
    columns: _Columns, table: Extensions, noticed: Noticed, ending: Ending, compressed: str, unread: int
) -> ShardScan:
    starts = _joined(columns.starts)
    offsets, part_offsets = _joined(columns.offsets), _joined(columns.part_offsets)
    part_sizes, part_names = _joined(columns.part_sizes), _joined(columns.names).astype(np.uint32)
    key_sizes, keys = _joined(columns.key_sizes), b"".join(columns.keys)
    kept = _kept_samples(starts, columns.last_key, ending)
    if kept < len(starts):
        keys = keys[: int(key_sizes[:kept].sum())]
        parts = int(starts[kept])
        key_sizes, offsets, starts = key_sizes[:kept], offsets[:kept], starts[:kept]
        part_offsets, part_sizes, part_names = part_offsets[:parts], part_sizes[:parts], part_names[:parts]
    counts = np.diff(np.append(starts, len(part_sizes)))
    ends = part_offsets + part_sizes + -part_sizes % BLOCK
    scan = ShardScan(
        status=_status(ending, kept),
        keys=keys,
        key_sizes=key_sizes.astype(np.uint32),
        offsets=offsets,
        sizes=(ends[starts + counts - 1] if kept else starts) - offsets,
        counts=counts.astype(np.uint32),
        extensions=table.list(),
        part_names=part_names,
        part_offsets=part_offsets,
        part_sizes=part_sizes,
        findings=(),
    )
    findings = [
        *ending_findings(noticed.shard, ending, kept, compressed, unread),
        *noticed.findings(),
        *sample_findings(noticed.shard, scan),
    ]
    return replace(scan, findings=tuple(findings))


def _joined(arrays: Sequence[NDArray[Any]]) -> Ints:
    joined: Ints = np.concatenate(arrays) if arrays else np.empty(0, np.int64)
    return joined


def _kept_samples(starts: Ints, last_key: bytes, ending: Ending) -> int:
    """All samples, but for the last where what is missing may belong to it: half a sample is none."""
    is_cut = ending.how in ("truncated", "bad header")
    is_of_another = ending.name and not ending.name.startswith(last_key + b".")
    return len(starts) - 1 if is_cut and len(starts) and not is_of_another else len(starts)


def _status(ending: Ending, samples: int) -> Status:
    if ending.how in ("truncated", "bad header"):
        return "partial" if samples else "bad"
    return "bad" if ending.how == "not a tar" else "ok"
