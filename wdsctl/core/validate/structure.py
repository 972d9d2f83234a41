"""Level `structure`: the findings of a scan, and whether a shard is still the indexed one.

If a tar was intact when it was indexed, `is_as_indexed` first compares it with the catalog. The offsets file has the
position of every header, so `is_as_indexed` reads and compares all headers of a shard at once, at 0.5 µs per member
plus the reads. Any difference, and anything unusual (long names, links, parts of 0 bytes), leads to a scan.

`check_jsonl_lines` parses every line of a JSONL shard, since the scan only finds where lines begin. Cost: 100 to 300
MB/s per core, the speed of Python's JSON parser. Memory: the lines of one read, or three times a longer line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from wdsctl.core import tar_header
from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.ledger_checks import LocatedFinding
from wdsctl.core.dataset.shard_names import is_jsonl_name, shard_format
from wdsctl.core.errors import Finding, PermissionDenied, Severity, StorageError
from wdsctl.core.json_text import JsonReader
from wdsctl.core.offsets.read import ShardColumns, open_cached_offsets
from wdsctl.core.shards.in_place.zip import find_damaged_entries
from wdsctl.core.shards.jsonl_findings import JsonlFindings
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_blocks import ByteRows, parse_size_fields, valid_checksums
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import LocalStorage, Storage
from wdsctl.core.tar_header import TAR_BLOCK_BYTES

READ_WINDOW_BYTES = 128 << 10  # bytes per read, so that the headers are copied while they are in the processor's cache
MIN_SKIP_BYTES = 4 << 10  # from this distance of two headers on, seeking is faster than reading
MAX_END_PADDING_BYTES = 64 << 10  # zeros after the last member; tar writers pad to 10 KiB
JSONL_READ_BYTES = 4 << 20  # bytes per read; a longer line is read alone

_MAX_BATCH_HEADERS = 4096  # headers per comparison: 2 MB
_REPEATED_KEY_CODES = ("WDS104", "WDS105")
#: Lines that Python parses, but other readers reject or read differently.
_ODD_LINE_MESSAGES = {
    "WDS158": "lines with numbers that are not valid JSON",
    "WDS159": "lines with a repeated name in an object",
}

MemberNames = NDArray[np.bytes_]


def check_structure(
    root: str, shard: ShardFile, scan: ShardScan, indexed_layout_hash: str
) -> tuple[LocatedFinding, ...]:
    """Report what the scan of a shard found, and whether its layout differs from the catalog's.

    `indexed_layout_hash`: the hash of the shard of this size in the catalog; empty if unknown. Reads the lines of
    JSONL.
    """
    findings: Iterable[Finding] = scan.findings
    if is_jsonl_name(shard.path) and scan.samples:
        findings = check_jsonl_lines(root, shard, scan)
    elif shard_format(shard.path) == "zip" and scan.samples:
        findings = (*scan.findings, *_check_zip_entries(root, shard))
    found = [LocatedFinding(finding, _positions_of_finding(finding.code, scan)) for finding in findings]
    if indexed_layout_hash and scan.status != "unreadable" and indexed_layout_hash != scan.layout_hash():
        message = "has changed since it was indexed, though its size is the same"
        changed = Finding(code="WDS305", severity="error", message=message, shard=shard.path)
        found.append(LocatedFinding(changed, covers_shard=True))
    return tuple(found)


def _check_zip_entries(root: str, shard: ShardFile) -> Iterator[Finding]:
    """Compare each entry with its CRC-32. Reads the whole archive."""
    path = os.path.join(root, shard.path)
    with closing(storage_for(root, {path: shard.size})) as storage:
        try:
            wrong = find_damaged_entries(partial(storage.read, path), shard.size)
        except (StorageError, PermissionDenied) as error:
            yield Finding(code=error.code, severity="error", message=error.message, shard=shard.path)
            return
    if wrong:
        message = f"entries whose bytes do not have their CRC-32, such as {wrong[0]!r}"
        yield Finding(code="WDS233", severity="error", message=message, shard=shard.path, count=len(wrong))


def _positions_of_finding(code: str, scan: ShardScan) -> tuple[int, ...]:
    """Return the positions of the samples that a training run would read wrongly."""
    if code == "WDS107":
        samples = np.repeat(np.arange(scan.samples), scan.counts)
        sample_parts = np.sort((samples << 32) + scan.part_names)
        return tuple(np.unique(sample_parts[1:][sample_parts[1:] == sample_parts[:-1]] >> 32).tolist())
    # If a shard has both kinds of repeated keys, the kind of each sample is unknown.
    if {finding.code for finding in scan.findings if finding.code in _REPEATED_KEY_CODES} != {code}:
        return ()
    rows: dict[str, list[int]] = {}
    for row, key in enumerate(scan.decode_keys()):
        rows.setdefault(key, []).append(row)
    # All fragments of an interleaved sample are incomplete. Of duplicates, the first is kept.
    skipped = 0 if code == "WDS104" else 1
    return tuple(sorted(row for repeats in rows.values() if len(repeats) > 1 for row in repeats[skipped:]))


def is_as_indexed(storage: LocalStorage, path: str, size: int, offsets_path: str, shard_id: int) -> bool:
    """Whether a scan of this tar of `size` bytes would find no problem and the indexed layout.

    Only for shards that were intact when they were indexed: without repeated keys or parts. False if only a scan can
    decide. Raises the errors of opening the shard.
    """
    known = open_cached_offsets(offsets_path)
    i = _shard_indices(offsets_path, known.generation).get(shard_id, -1)
    if i < 0 or known.shards[i].size != size or not known.shards[i].samples or len(known.layouts) > TAR_BLOCK_BYTES:
        return False
    rows = known.shard_columns(i, {name: number for number, name in enumerate(known.extensions)})
    data, sizes = rows.part_offsets, rows.part_sizes
    ends = data + sizes + -sizes % TAR_BLOCK_BYTES
    is_plain = data[0] == TAR_BLOCK_BYTES and (data[1:] - TAR_BLOCK_BYTES == ends[:-1]).all() and (sizes > 0).all()
    if not is_plain or not 0 < size - int(ends[-1]) <= MAX_END_PADDING_BYTES:
        return False
    if any(storage.read(path, int(ends[-1]), size - int(ends[-1]))):
        return False
    names = _member_names(rows, known.extensions)
    return names is not None and _are_headers_at(storage.descriptor(path), data - TAR_BLOCK_BYTES, sizes, names)


@lru_cache(maxsize=2)
def _shard_indices(offsets_path: str, _generation: int) -> dict[int, int]:
    return {shard.id: i for i, shard in enumerate(open_cached_offsets(offsets_path).shards)}


def _member_names(rows: ShardColumns, parts: Sequence[str]) -> MemberNames | None:
    """Return the names of all members; None if a scan might report one of them."""
    if not rows.keys.isascii() or b".." in rows.keys or b"//" in rows.keys or b"\\" in rows.keys:
        return None
    suffixes = np.array([f".{part}".encode() for part in parts])
    lengths = np.repeat(rows.key_sizes, rows.counts) + np.char.str_len(suffixes)[rows.part_names]
    longest, longest_key = int(lengths.max()), max(1, int(rows.key_sizes.max()))
    if longest > tar_header.NAME_FIELD[1]:
        return None
    keys = np.zeros((len(rows.key_sizes), longest_key), np.uint8)
    keys[np.arange(longest_key) < rows.key_sizes[:, None]] = np.frombuffer(rows.keys, np.uint8)
    if (keys[:, 0] == ord("/")).any():
        return None
    member_keys = np.repeat(keys.view(f"S{longest_key}").ravel(), rows.counts)
    return np.char.add(member_keys, suffixes[rows.part_names]).astype(f"S{longest}")


def _are_headers_at(descriptor: int, header_offsets: Int64Array, sizes: Int64Array, names: MemberNames) -> bool:
    """Whether plain headers of members with these sizes and names are at these offsets."""
    for start in range(0, len(header_offsets), _MAX_BATCH_HEADERS):
        batch = slice(start, start + _MAX_BATCH_HEADERS)
        headers = _read_headers(descriptor, header_offsets[batch])
        if headers is None or not _have_plain_headers(headers, sizes[batch], names[batch]):
            return False
    return True


def _read_headers(descriptor: int, header_offsets: Int64Array) -> ByteRows | None:
    """Read the blocks of 512 bytes at these ascending offsets: (offsets, 512).

    Also reads the bytes between two headers if seeking would be slower. None if a read fails; a scan reports why.
    """
    # A span is one read. It ends if the next header is far away, and at the end of every window.
    ends = (
        np.flatnonzero((np.diff(header_offsets) > MIN_SKIP_BYTES) | (np.diff(header_offsets // READ_WINDOW_BYTES) > 0))
        + 1
    )
    bounds = np.concatenate(([0], ends, [len(header_offsets)]))
    starts = header_offsets[bounds[:-1]]
    lengths = header_offsets[bounds[1:] - 1] + TAR_BLOCK_BYTES - starts
    buffer_starts = np.cumsum(lengths) - lengths  # start of each span in the buffer
    rows = (header_offsets + np.repeat(buffer_starts - starts, np.diff(bounds))) // TAR_BLOCK_BYTES
    windows = np.append(np.flatnonzero(np.diff(buffer_starts // READ_WINDOW_BYTES, prepend=-1)), len(buffer_starts))
    headers = np.empty((len(header_offsets), TAR_BLOCK_BYTES), np.uint8)
    for first, stop in pairwise(windows.tolist()):
        try:
            # Many small reads: `map` runs no Python code between them.
            data = b"".join(
                map(os.pread, repeat(descriptor), lengths[first:stop].tolist(), starts[first:stop].tolist())
            )
        except OSError:
            return None
        if len(data) != lengths[first:stop].sum():
            return None
        window = slice(bounds[first], bounds[stop])
        blocks = np.frombuffer(data, np.uint8).reshape(-1, TAR_BLOCK_BYTES)
        # Without a mode, numpy copies twice, to leave the output unchanged if a row is out of bounds.
        np.take(
            blocks, rows[window] - buffer_starts[first] // TAR_BLOCK_BYTES, axis=0, out=headers[window], mode="clip"
        )
    return headers


def _have_plain_headers(headers: ByteRows, sizes: Int64Array, names: MemberNames) -> bool:
    """Whether these are plain headers of members with these sizes and names."""
    types = headers[:, tar_header.TYPE_OFFSET]
    if not ((types == ord("0")) | (types == 0)).all() or headers[:, tar_header.PREFIX_FIELD[0]].any():
        return False
    longest = names.dtype.itemsize
    found: MemberNames = headers[:, :longest].view(names.dtype).ravel()
    if not (found == names).all() or headers[:, longest : tar_header.NAME_FIELD[1]].any():
        return False
    magic = headers[:, tar_header.MAGIC_FIELD[0] : tar_header.MAGIC_FIELD[0] + 5]
    if not (magic == np.frombuffer(b"ustar", np.uint8)).all():
        return False
    numbers, are_plain = parse_size_fields(headers)
    return bool(are_plain.all() and (numbers == sizes).all() and valid_checksums(headers).all())


def check_jsonl_lines(root: str, shard: ShardFile, scan: ShardScan) -> tuple[Finding, ...]:
    """Parse every line. Return the findings of the scan, and one finding per kind of defect in lines."""
    path = os.path.join(root, shard.path)
    defects: dict[str, tuple[int, str, int]] = {}  # code -> first row, message, number of lines
    reader = JsonReader()
    try:
        with closing(storage_for(root, {path: shard.size})) as storage:
            for row, line in _read_lines(storage, path, scan):
                for code, message in line_defects(line, reader).items():
                    first_row, first_message, count = defects.get(code, (row, message, 0))
                    defects[code] = first_row, first_message, count + 1
    except (StorageError, PermissionDenied) as error:
        unread = Finding(code=error.code, severity="error", message=error.message, shard=shard.path)
        return (*scan.findings, unread)
    collector = JsonlFindings(shard.path)
    for code, (row, message, count) in defects.items():
        [key] = scan.decode_keys(slice(row, row + 1))
        severity: Severity = "warning" if code in _ODD_LINE_MESSAGES else "error"
        collector.add_line(code, message, key, int(scan.offsets[row]), count, severity=severity)
    return (*(each for each in scan.findings if each.code != "WDS121"), *collector.to_findings())


def line_defects(line: bytes, reader: JsonReader) -> dict[str, str]:
    """Return the codes of a line's defects, each with a message for lines like it; empty if the line is valid."""
    try:
        value = reader.read(line)
    except UnicodeDecodeError as error:
        return {
            "WDS124": f"lines that are not UTF-8, such as one with {error.reason} at byte {error.start:,} of the line"
        }
    except json.JSONDecodeError as error:
        example = f"{error.msg}, at character {error.pos:,} of the line"
        return {"WDS123": f"lines that do not parse, such as one with: {example}"}
    except RecursionError:
        return {"WDS123": "lines that do not parse, such as one with objects nested too deep"}
    except ValueError:  # an integer with more digits than Python parses
        return {"WDS123": "lines that do not parse, such as one with a number of too many digits"}
    if not isinstance(value, dict):
        return {"WDS121": "lines that are not JSON objects"}
    return {code: f"{_ODD_LINE_MESSAGES[code]}, such as one where {odd}" for code, odd in reader.oddities.items()}


def _read_lines(storage: Storage, path: str, scan: ShardScan) -> Iterator[tuple[int, bytes]]:
    """Yield (row, line) for all lines in order, with many lines per read."""
    starts, stops = scan.offsets, scan.offsets + scan.sizes
    row = 0
    while row < scan.samples:
        last = max(row, int(stops.searchsorted(starts[row] + JSONL_READ_BYTES, "right")) - 1)
        base = int(starts[row])
        data = storage.read(path, base, int(stops[last]) - base)
        for i in range(row, last + 1):
            yield i, data[int(starts[i]) - base : int(stops[i]) - base]
        row = last + 1
