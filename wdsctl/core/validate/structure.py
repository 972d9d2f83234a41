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
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from wdsctl.core import tar_header
from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.ledger_checks import MAX_NAMED_SAMPLES, LocatedFinding, SampleFault, locate_finding
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.shard_names import is_jsonl_name, shard_format
from wdsctl.core.errors import Finding, PermissionDenied, StorageError
from wdsctl.core.json_text import JsonReader
from wdsctl.core.offsets.read import ShardColumns, open_cached_offsets
from wdsctl.core.shards.in_place.zip import find_damaged_entries
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_blocks import ByteRows, parse_size_fields, valid_checksums
from wdsctl.core.shards.tar_findings import repeated_key_rows
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import LocalStorage, Storage
from wdsctl.core.tar_header import TAR_BLOCK_BYTES

READ_WINDOW_BYTES = 128 << 10  # bytes per read, so that the headers are copied while they are in the processor's cache
MIN_SKIP_BYTES = 4 << 10  # from this distance of two headers on, seeking is faster than reading
MAX_END_PADDING_BYTES = 64 << 10  # zeros after the last member; tar writers pad to 10 KiB
JSONL_READ_BYTES = 4 << 20  # bytes per read; a longer line is read alone

_MAX_BATCH_HEADERS = 4096  # headers per comparison: 2 MB
_REPEATED_KEY_CODES = ("WDS104", "WDS105")
#: Messages about one sample. Those of the scan are about all samples of a shard.
_MESSAGES_OF_SAMPLE = {
    "WDS104": "its files are not adjacent",
    "WDS105": "its key is a duplicate, with the same parts",
    "WDS107": "it has a part twice",
    "WDS110": "it has 0 bytes",
}
#: Codes of lines that Python parses, but other readers reject or read differently.
_ODD_LINE_CODES = ("WDS158", "WDS159")

MemberNames = NDArray[np.bytes_]


def check_structure(
    root: str, shard: ShardFile, scan: ShardScan, indexed_layout_hash: str
) -> tuple[LocatedFinding, ...]:
    """Report what the scan of a shard found, and whether its layout differs from the catalog's.

    `indexed_layout_hash`: the hash of the shard of this size in the catalog; empty if unknown. Reads the lines of
    JSONL.
    """
    if is_jsonl_name(shard.path) and scan.samples:
        found = check_jsonl_lines(root, shard, scan)
    else:
        found = [located for finding in scan.findings for located in _name_samples(finding, scan)]
    if shard_format(shard.path) == "zip" and scan.samples:
        found += map(LocatedFinding, _check_zip_entries(root, shard))
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


def _name_samples(finding: Finding, scan: ShardScan) -> Iterator[LocatedFinding]:
    """Add the samples to a finding of a scan, which names only the first one, if the scan still has them."""
    if finding.code == "WDS110":
        yield from _name_empty_parts(finding, scan)
        return
    positions, rows = _rows_of_finding(finding.code, scan)
    named = rows[:MAX_NAMED_SAMPLES] if len(rows) > 1 else []
    message = _MESSAGES_OF_SAMPLE.get(finding.code, finding.message)
    faults = [
        SampleFault(row, key, int(scan.offsets[row]), 1, message)
        for row, key in zip(named, scan.decode_keys_at(named), strict=True)
    ]
    yield locate_finding(finding, positions, faults)


def _name_empty_parts(finding: Finding, scan: ShardScan) -> Iterator[LocatedFinding]:
    """Divide a finding by the names of parts. Members that belong to no sample are only counted."""
    members = np.flatnonzero(scan.part_sizes == 0)
    rows = np.repeat(np.arange(scan.samples), scan.counts)[members]
    names, offsets = scan.part_names[members], scan.part_offsets[members]
    for name in np.unique(names).tolist():
        same = np.flatnonzero(names == name)
        named, starts = rows[same[:MAX_NAMED_SAMPLES]].tolist(), offsets[same[:MAX_NAMED_SAMPLES]].tolist()
        faults = [
            SampleFault(row, key, start, 1, _MESSAGES_OF_SAMPLE[finding.code])
            for row, key, start in zip(named, scan.decode_keys_at(named), starts, strict=True)
        ]
        first = replace(
            finding,
            message=faults[0].message,
            key=faults[0].key,
            part=scan.extensions[name],
            offset=faults[0].offset,
            count=len(same),
        )
        yield locate_finding(first, set(rows[same].tolist()), faults)
    if finding.count > len(members):
        yield LocatedFinding(replace(finding, count=finding.count - len(members)))


def _rows_of_finding(code: str, scan: ShardScan) -> tuple[list[int], list[int]]:
    """Return the positions of the samples that a training run would read wrongly, and of those that a finding names."""
    if code == "WDS107":
        samples = np.repeat(np.arange(scan.samples), scan.counts)
        sample_parts = np.sort((samples << 32) + scan.part_names)
        rows: list[int] = np.unique(sample_parts[1:][sample_parts[1:] == sample_parts[:-1]] >> 32).tolist()
        return rows, rows
    if code not in _REPEATED_KEY_CODES:
        return [], []
    keys = scan.decode_keys()
    repeats = repeated_key_rows(scan, keys)[code]
    if code != "WDS104":
        return repeats, repeats  # of duplicates, the first is kept
    # All fragments of an interleaved sample are incomplete.
    interleaved = {keys[row] for row in repeats}
    return [row for row, key in enumerate(keys) if key in interleaved], repeats


def is_as_indexed(storage: LocalStorage, path: str, size: int, offsets_path: str, row: ShardRow) -> bool:
    """Whether a scan of this tar of `size` bytes would find no problem and the indexed layout.

    Only for shards that were intact when they were indexed: without repeated keys or parts. False if only a scan can
    decide. Raises the errors of opening the shard.
    """
    known = open_cached_offsets(offsets_path)
    i = _shard_indices(offsets_path, known.generation).get(row.id, -1)
    if i < 0 or (known.shards[i].path, known.shards[i].size) != (row.path, size):
        return False
    if not known.shards[i].samples or len(known.layouts) > TAR_BLOCK_BYTES:
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


def check_jsonl_lines(root: str, shard: ShardFile, scan: ShardScan) -> list[LocatedFinding]:
    """Parse every line. Return the findings of the scan, and one finding per kind of defect with its first lines.

    Leaves out the positions of lines with warnings, as these may be all of many million lines.
    """
    path = os.path.join(root, shard.path)
    defects: dict[str, list[tuple[int, str]]] = {}  # code -> row and message of the first lines
    counts: Counter[str] = Counter()
    positions: dict[str, list[int]] = {}  # code of an error -> rows
    reader = JsonReader()
    try:
        with closing(storage_for(root, {path: shard.size})) as storage:
            for row, line in _read_lines(storage, path, scan):
                for code, message in line_defects(line, reader).items():
                    counts[code] += 1
                    if code not in _ODD_LINE_CODES:
                        positions.setdefault(code, []).append(row)
                    if counts[code] <= MAX_NAMED_SAMPLES:
                        defects.setdefault(code, []).append((row, message))
    except (StorageError, PermissionDenied) as error:
        unread = Finding(code=error.code, severity="error", message=error.message, shard=shard.path)
        return [*map(LocatedFinding, scan.findings), LocatedFinding(unread)]
    found = [LocatedFinding(each) for each in scan.findings if each.code != "WDS121"]
    for code, lines in defects.items():
        keys = scan.decode_keys_at([row for row, _ in lines])
        faults = tuple(
            SampleFault(row, key, int(scan.offsets[row]), 1, message)
            for (row, message), key in zip(lines, keys, strict=True)
        )
        first = Finding(
            code=code,
            severity="warning" if code in _ODD_LINE_CODES else "error",
            message=faults[0].message,
            shard=shard.path,
            key=faults[0].key,
            offset=faults[0].offset,
            count=counts[code],
        )
        rows = tuple(positions.get(code, ()))
        found.append(LocatedFinding(first, rows, faults=faults if len(faults) > 1 else ()))
    return found


def line_defects(line: bytes, reader: JsonReader) -> dict[str, str]:
    """Return the codes of a line's defects, each with a message; empty if the line is valid."""
    try:
        value = reader.read(line)
    except UnicodeDecodeError as error:
        return {"WDS124": f"the line is not UTF-8: {error.reason} at byte {error.start:,} of the line"}
    except json.JSONDecodeError as error:
        return {"WDS123": f"the line does not parse: {error.msg}, at character {error.pos:,} of the line"}
    except ValueError as error:
        return {"WDS123": f"the line does not parse: {error}"}
    if not isinstance(value, dict):
        return {"WDS121": "the line is not a JSON object"}
    return dict(reader.oddities)


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
