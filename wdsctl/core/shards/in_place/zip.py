"""Zips with stored entries: each entry is a range of bytes, found through the central directory and a local header.

Entries with one key are one sample, wherever they are in the archive; keys and parts are as in tars. Sizes come from
the central directory, so that entries with data descriptors can be read. An archive that does not end with its
directory, has bytes before its first entry, or several disks is refused.

Source: PKWARE, APPNOTE.TXT (.ZIP File Format Specification), 4.3 to 4.5.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import Finding, Severity
from wdsctl.core.file_limits import scale_limit
from wdsctl.core.samples.naming import split_name
from wdsctl.core.shards.in_place.errors import damaged, unsupported
from wdsctl.core.shards.in_place.ranges import read_values
from wdsctl.core.shards.readers import ReadBytes
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_findings import duplicate_findings
from wdsctl.core.zip_names import decode_zip_name

_END = struct.Struct("<4s4H2IH")  # end of central directory
_END_MAGIC = b"PK\5\6"
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64_LOCATOR_MAGIC = b"PK\6\7"
_END64 = struct.Struct("<4sQ2H2I4Q")
_END64_MAGIC = b"PK\6\6"
_ENTRY = struct.Struct("<4s6H3I5H2I")
_ENTRY_MAGIC = b"PK\1\2"
_LOCAL_BYTES = 30
_MAX_COMMENT_BYTES = (1 << 16) - 1
_ENCRYPTED, _PATCHED, _STRONG, _MASKED = 1 << 0, 1 << 5, 1 << 6, 1 << 13
_METHODS = {
    **dict.fromkeys((8, 9), "deflated"),
    12: "compressed with bzip2",
    14: "compressed with LZMA",
    93: "compressed with Zstandard",
    95: "compressed with xz",
}
_ZIP64_EXTRA = 1
_MAX_DIRECTORY_BYTES = 512 << 20  # of some million entries
_CRC_BYTES = 4 << 20  # bytes per read
_MAX_U16, _MAX_U32 = (1 << 16) - 1, (1 << 32) - 1


class ZipEntry(NamedTuple):
    """`stored_name`: the bytes of the name. `header`: offset of the local header."""

    name: str
    size: int
    crc32: int
    header: int
    stored_name: bytes


def scan_zip(shard: str, read: ReadBytes, size: int) -> ShardScan:
    """Scan a zip of `size` bytes. Raises ShardFormatError, and what `read` raises.

    Cost: the central directory at some microseconds an entry, and a local header of 30 bytes for each entry.
    """
    entries, directory = read_entries(read, size)
    offsets = _data_offsets(read, entries, directory)
    samples: dict[str, list[int]] = {}
    parts: list[str] = []
    odd: dict[str, tuple[Severity, str, int]] = {}  # code -> severity, message, count
    for row, entry in enumerate(entries):
        parts.append("")
        split = None if entry.name.endswith("/") else split_name(entry.name)
        if split is None:
            if not entry.name.endswith("/"):
                _count(odd, "WDS112", "note", f"entries whose names have no key, such as {entry.name!r}")
            continue
        if entry.name.startswith("/") or ".." in entry.name.split("/"):
            _count(
                odd,
                "WDS128",
                "warning",
                f"names that lead out of the folder in which the zip is unpacked, such as {entry.name!r}",
            )
        if not entry.size:
            _count(odd, "WDS110", "warning", f"parts of 0 bytes, such as {entry.name!r}")
        samples.setdefault(split[0], []).append(row)
        parts[row] = split[1]
    scan = _build_scan(samples, parts, offsets, np.array([each.size for each in entries], np.int64))
    findings = [
        Finding(code=code, severity=severity, message=message, shard=shard, count=count)
        for code, (severity, message, count) in odd.items()
    ]
    if not samples:
        findings.append(Finding(code="WDS115", severity="warning", message="no samples in this shard", shard=shard))
    return replace(scan, findings=(*findings, *duplicate_findings(shard, scan)))


def _count(odd: dict[str, tuple[Severity, str, int]], code: str, severity: Severity, message: str) -> None:
    level, first, count = odd.get(code, (severity, message, 0))
    odd[code] = level, first, count + 1


def _build_scan(samples: dict[str, list[int]], parts: list[str], offsets: Int64Array, sizes: Int64Array) -> ShardScan:
    order = np.array([row for rows in samples.values() for row in rows], np.int64)
    counts = np.array([len(rows) for rows in samples.values()], np.uint32)
    extensions = {part: number for number, part in enumerate(dict.fromkeys(parts[row] for row in order.tolist()))}
    part_offsets, part_sizes = offsets[order], sizes[order]
    first = np.cumsum(counts, dtype=np.int64) - counts
    starts = part_offsets[first] if len(first) else np.empty(0, np.int64)
    keys = [key.encode() for key in samples]
    return ShardScan(
        status="ok",
        keys=b"".join(keys),
        key_sizes=np.fromiter(map(len, keys), np.uint32, len(keys)),
        offsets=starts,
        sizes=np.add.reduceat(part_sizes, first) if len(first) else starts,
        counts=counts,
        extensions=tuple(extensions),
        part_names=np.array([extensions[parts[row]] for row in order.tolist()], np.uint32),
        part_offsets=part_offsets,
        part_sizes=part_sizes,
        findings=(),
    )


def read_entries(read: ReadBytes, size: int) -> tuple[list[ZipEntry], int]:
    """Return the entries in the order of their headers, and the offset of the central directory.

    Raises ShardFormatError for a damaged archive, and for entries that are compressed or encrypted.
    """
    count, length, start = _find_directory(read, size)
    data = read(start, length) if length else b""
    entries: list[ZipEntry] = []
    refused: Counter[str] = Counter()
    at = 0
    for _ in range(count):
        entry, at, refusal = _parse_entry(data, at, start)
        entries.append(entry)
        if refusal:
            refused[refusal] += 1
    if refused:
        [(reason, entry_count)] = refused.most_common(1)
        raise unsupported(f"{entry_count:,} of {count:,} entries {'is' if entry_count == 1 else 'are'} {reason}")
    if at != length:
        raise damaged("its central directory has another size than the archive states")
    entries.sort(key=lambda each: each.header)
    return entries, start


def find_damaged_entries(read: ReadBytes, size: int) -> list[str]:
    """The names of entries whose bytes do not have their CRC-32. Reads all of them. Raises as `scan_zip`."""
    entries, directory = read_entries(read, size)
    damaged_names = []
    for entry, start in zip(entries, _data_offsets(read, entries, directory).tolist(), strict=True):
        crc = 0
        for at in range(start, start + entry.size, _CRC_BYTES):
            crc = zlib.crc32(read(at, min(_CRC_BYTES, start + entry.size - at)), crc)
        if crc != entry.crc32:
            damaged_names.append(entry.name)
    return damaged_names


def _find_directory(read: ReadBytes, size: int) -> tuple[int, int, int]:
    """Return the number of entries, and the size and offset of the central directory."""
    base = max(0, size - _END.size - _MAX_COMMENT_BYTES)
    tail = read(base, size - base) if size else b""
    at = tail.rfind(_END_MAGIC)
    while at >= 0:
        if at + _END.size <= len(tail):
            _, disk, first_disk, here, count, length, start, comment = _END.unpack_from(tail, at)
            if at + _END.size + comment == len(tail):
                break
        at = tail.rfind(_END_MAGIC, 0, at)
    else:
        raise damaged("it does not end with a central directory: it is truncated, or no zip")
    end = base + at
    if _MAX_U16 in (disk, first_disk, here, count) or _MAX_U32 in (length, start):
        disk, first_disk, here, count, length, start, end = _read_zip64(
            read, end, (disk, first_disk, here, count, length, start)
        )
    if disk or first_disk or here != count:
        raise unsupported("the archive has several disks")
    if start + length > end:
        raise damaged("its central directory lies outside the archive")
    if start + length < end:
        raise unsupported("there are bytes before the archive, or between its central directory and its end")
    if length > scale_limit(_MAX_DIRECTORY_BYTES):
        raise unsupported(
            f"its central directory has {length:,} bytes, more than {scale_limit(_MAX_DIRECTORY_BYTES):,}"
        )
    if count * _ENTRY.size > length:
        raise damaged(f"its central directory of {length:,} bytes cannot hold {count:,} entries")
    return count, length, start


def _read_zip64(read: ReadBytes, end: int, stated: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of the zip64 record before the end at `end`; the stated ones if there is no such record."""
    at = end - _END64_LOCATOR.size
    locator = read(at, _END64_LOCATOR.size) if at >= 0 else b""
    if locator[:4] != _END64_LOCATOR_MAGIC:
        return (*stated, end)
    _, disk, start, disks = _END64_LOCATOR.unpack(locator)
    if disk or disks > 1:
        raise unsupported("the archive has several disks")
    if start + _END64.size > at:
        raise damaged("its zip64 record lies outside the archive")
    magic, length, _, _, *numbers = _END64.unpack(read(start, _END64.size))
    if magic != _END64_MAGIC or start + 12 + length != at:
        raise damaged("its zip64 record is damaged")
    first_disk_and_rest = tuple(numbers)
    return (*first_disk_and_rest, start)


def _parse_entry(data: bytes, at: int, directory: int) -> tuple[ZipEntry, int, str]:
    """Return an entry, the offset of the next one, and why its data cannot be read in place (empty if it can)."""
    if at + _ENTRY.size > len(data):
        raise damaged("its central directory is truncated")
    fields = _ENTRY.unpack_from(data, at)
    magic, _, _, flags, method, _, _, crc32, packed, size, name_bytes, extra_bytes, comment_bytes, disk = fields[:14]
    header = fields[16]
    if magic != _ENTRY_MAGIC:
        raise damaged("its central directory is damaged")
    begin = at + _ENTRY.size
    stop = begin + name_bytes + extra_bytes + comment_bytes
    if stop > len(data):
        raise damaged("its central directory is truncated")
    raw = data[begin : begin + name_bytes]
    try:
        name = decode_zip_name(raw, flags, data[begin + name_bytes : begin + name_bytes + extra_bytes])
    except UnicodeDecodeError as error:
        raise damaged(f"the name {raw!r} is not UTF-8, although its entry says so") from error
    if name is None:
        raise unsupported(f"the name {raw!r} is not UTF-8, and the zip does not say its encoding")
    if "\0" in name:
        raise damaged(f"the name {name!r} has a zero byte")
    if _MAX_U32 in (packed, size, header) or disk == _MAX_U16:
        extra = data[begin + name_bytes : begin + name_bytes + extra_bytes]
        size, packed, header, disk = _zip64_sizes(extra, size, packed, header, disk, name)
    if disk:
        raise unsupported("the archive has several disks")
    entry = ZipEntry(name, size, crc32, header, raw)
    refusal = _entry_refusal(flags, method)
    if not refusal and packed != size:
        raise damaged(f"the entry {name!r} is stored, but has two sizes: {packed:,} and {size:,} bytes")
    if not refusal and header + _LOCAL_BYTES + name_bytes + size > directory:
        raise damaged(f"the entry {name!r} does not end before the central directory")
    return entry, stop, refusal


def _entry_refusal(flags: int, method: int) -> str:
    """Why the data of an entry are no range of bytes; empty if they are."""
    if flags & (_ENCRYPTED | _STRONG | _MASKED):
        return "encrypted"
    if flags & _PATCHED:
        return "patches of other files"
    return _METHODS.get(method, f"compressed with method {method}") if method else ""


def _zip64_sizes(extra: bytes, size: int, packed: int, header: int, disk: int, name: str) -> tuple[int, int, int, int]:
    """The numbers of an entry whose fields of 32 bits are full: the zip64 extra field has those, in this order."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64_EXTRA:
            break
        at += 4 + length
    else:
        return size, packed, header, disk
    numbers = [size, packed, header]
    field = extra[at + 4 : at + 4 + length]
    done = 0
    for i, number in enumerate(numbers):
        if number == _MAX_U32:
            if done + 8 > len(field):
                raise damaged(f"the zip64 field of the entry {name!r} is truncated")
            (numbers[i],) = struct.unpack_from("<Q", field, done)
            done += 8
    if disk == _MAX_U16 and done + 4 <= len(field):
        (disk,) = struct.unpack_from("<I", field, done)
    return numbers[0], numbers[1], numbers[2], disk


def _data_offsets(read: ReadBytes, entries: list[ZipEntry], directory: int) -> Int64Array:
    """Where the data of each entry begin: after the local header, whose extra field may differ from the directory's.

    Its name may not: tools that read the one or the other would disagree about what the archive holds.
    """
    headers = np.array([each.header for each in entries], np.int64)
    if not len(headers):
        return headers
    names = np.array([len(each.stored_name) for each in entries], np.int64)
    found = list(read_values(read, headers, _LOCAL_BYTES + names))
    local = np.frombuffer(b"".join(each[:_LOCAL_BYTES] for each in found), np.uint8).reshape(-1, _LOCAL_BYTES)
    has_name = np.array([each.endswith(entry.stored_name) for each, entry in zip(found, entries, strict=True)])
    numbers = local[:, 26:30].copy().view("<u2").astype(np.int64)  # lengths of name and extra field
    methods = local[:, 8:10].copy().view("<u2").ravel()
    is_header = (local[:, :4] == np.frombuffer(b"PK\3\4", np.uint8)).all(axis=1)
    wrong = np.flatnonzero(~is_header | (methods != 0) | (numbers[:, 0] != names) | ~has_name)
    if len(wrong):
        raise damaged(f"the entry {entries[int(wrong[0])].name!r} and its local header differ")
    starts: Int64Array = headers + _LOCAL_BYTES + numbers.sum(axis=1)
    ends = starts + np.array([each.size for each in entries], np.int64)
    overlaps = np.flatnonzero(ends > np.append(headers[1:], directory))
    if len(overlaps):
        raise damaged(f"the entry {entries[int(overlaps[0])].name!r} overlaps the next one")
    return starts
