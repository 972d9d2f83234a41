"""Make the scan of a shard whose samples are rows: each column gives a part, at an offset and with a size.

The key of a row is its number after the path of the shard without the extension: `train/shard.00000/17`. Rows with a
column `__key__`, as `wdsctl convert` writes them, become the original samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import Finding
from wdsctl.core.json_text import read_json
from wdsctl.core.media.sniff import JPEG_SIGNATURE, PNG_SIGNATURE, extension_of_content
from wdsctl.core.samples.naming import KEY_COLUMN, PARTS_COLUMN, exported_key, part_name_of_field
from wdsctl.core.shards.in_place.errors import damaged, unsupported
from wdsctl.core.shards.in_place.ranges import read_rows, read_values
from wdsctl.core.shards.jsonl_keys import LINE_NUMBER_KEYS, build_numbered_keys
from wdsctl.core.shards.readers import ReadBytes
from wdsctl.core.shards.shard_scan import ShardScan, ShardStatus
from wdsctl.core.shards.tar_findings import duplicate_findings

_SNIFFED_BYTES = 4096  # of a value whose content decides its extension
_MAX_KEY_BYTES = 1 << 16

BY_CONTENT = ""  # the extension of a column of bytes, whose values decide it


class Column(NamedTuple):
    """The values of all rows. `extension`: of the parts, without the dot; `BY_CONTENT` if each value decides.

    `present`: whether a row of exported samples has the part; None if all have.
    """

    name: str
    extension: str
    offsets: Int64Array
    sizes: Int64Array
    present: NDArray[np.bool_] | None = None


class _Parts(NamedTuple):
    """A column as parts: `which` is one name for all rows, or an index into `names` for each."""

    names: Sequence[str]
    which: NDArray[np.uint32]
    column: Column


def scan_columns(shard: str, read: ReadBytes, columns: Sequence[Column], rows: int) -> ShardScan:
    """Make a scan of these columns. Raises ShardFormatError, and what `read` raises.

    Reads the first bytes of values whose content decides their extension, and the keys of exported rows.
    """
    exported = next((each for each in columns if each.name == KEY_COLUMN), None)
    if exported is None:
        prefix = LINE_NUMBER_KEYS.prefix(shard)
        keys, key_sizes = build_numbered_keys(prefix.encode(), rows)
        bases = _unique(part_name_of_field(each.name) for each in columns)
        parts = [_name_parts(read, base, each) for base, each in zip(bases, columns, strict=True)]
        return _assemble(shard, keys, key_sizes, parts, rows, prefix)
    keys, key_sizes = _read_keys(read, exported)
    columns = _without_absent(read, columns, rows) if any(each.name == PARTS_COLUMN for each in columns) else columns
    rest = [each for each in columns if each.name != KEY_COLUMN]
    for each in rest:
        if not each.name or "/" in each.name or "\0" in each.name:
            raise unsupported(f"the column {each.name!r} cannot name a part")
    parts = [_Parts((each.name,), np.zeros(rows, np.uint32), each) for each in rest]
    return _assemble(shard, keys, key_sizes, parts, rows, None)


def bad_scan(finding: Finding, status: ShardStatus = "bad") -> ShardScan:
    """The scan of a shard without readable samples."""
    empty = np.empty(0, np.int64)
    few = np.empty(0, np.uint32)
    return ShardScan(
        status=status,
        keys=b"",
        key_sizes=few,
        offsets=empty,
        sizes=empty,
        counts=few,
        extensions=(),
        part_names=few,
        part_offsets=empty,
        part_sizes=empty,
        findings=(finding,),
    )


def _unique(bases: Iterable[str]) -> list[str]:
    """Number names that occur twice, as importers do: the second `image` becomes `2.image`."""
    seen: Counter[str] = Counter()
    unique = []
    for base in bases:
        seen[base] += 1
        unique.append(base if seen[base] == 1 else f"{seen[base]}.{base}")
    return unique


def _name_parts(read: ReadBytes, base: str, column: Column) -> _Parts:
    rows = len(column.offsets)
    if column.extension != BY_CONTENT:
        return _Parts((f"{base}.{column.extension}",), np.zeros(rows, np.uint32), column)
    offsets, sizes = column.offsets, column.sizes
    numbers: dict[str, int] = {}
    which = np.zeros(rows, np.uint32)
    # Most columns of bytes are JPEG or PNG, which a few bytes identify for all rows at once.
    head_bytes = len(PNG_SIGNATURE)
    long = np.flatnonzero(sizes >= head_bytes)
    heads = read_rows(read, offsets[long], head_bytes) if len(long) else np.empty((0, head_bytes), np.uint8)
    known = np.zeros(rows, np.bool_)
    for extension, magic in (("jpg", JPEG_SIGNATURE), ("png", PNG_SIGNATURE)):
        found = long[(heads[:, : len(magic)] == np.frombuffer(magic, np.uint8)).all(axis=1)]
        if len(found):
            which[found] = numbers.setdefault(extension, len(numbers))
            known[found] = True
    others = np.flatnonzero(~known)
    some = np.minimum(sizes[others], _SNIFFED_BYTES)
    for row, size, head in zip(
        others.tolist(), sizes[others].tolist(), read_values(read, offsets[others], some), strict=True
    ):
        extension = extension_of_content(head, size)
        which[row] = numbers.setdefault(extension, len(numbers))
    return _Parts([f"{base}.{extension}" for extension in numbers] or [f"{base}.bin"], which, column)


def _read_keys(read: ReadBytes, column: Column) -> tuple[bytes, NDArray[np.uint32]]:
    if len(column.sizes) and int(column.sizes.max()) > _MAX_KEY_BYTES:
        raise damaged(f"row {int(column.sizes.argmax()):,} has a {KEY_COLUMN} of {int(column.sizes.max()):,} bytes")
    keys = []
    for row, data in enumerate(read_values(read, column.offsets, column.sizes)):
        try:
            key = exported_key(data.decode())
        except UnicodeDecodeError:
            key = ""
        if not key:
            raise damaged(f"row {row:,} has no valid {KEY_COLUMN}")
        keys.append(key.encode())
    return b"".join(keys), np.fromiter(map(len, keys), np.uint32, len(keys))


def _assemble(
    shard: str, keys: bytes, key_sizes: NDArray[np.uint32], parts: Sequence[_Parts], rows: int, prefix: str | None
) -> ShardScan:
    """Join the columns, with the parts of each sample in the order of their offsets."""
    extensions: dict[str, int] = {}
    # Arrays of shape (columns, rows).
    names: NDArray[Any] = np.empty((len(parts), rows), np.uint32)
    offsets: NDArray[Any] = np.empty((len(parts), rows), np.int64)
    sizes: NDArray[Any] = np.empty((len(parts), rows), np.int64)
    present: NDArray[Any] = np.ones((len(parts), rows), np.bool_)
    for i, each in enumerate(parts):
        numbers = np.array([extensions.setdefault(name, len(extensions)) for name in each.names], np.uint32)
        names[i], offsets[i], sizes[i] = numbers[each.which], each.column.offsets, each.column.sizes
        if each.column.present is not None:
            present[i] = each.column.present
    if len(parts) > 1 and (offsets[1:] < offsets[:-1]).any():
        order = np.argsort(offsets, axis=0, kind="stable")
        names, offsets, sizes, present = (
            np.take_along_axis(array, order, axis=0) for array in (names, offsets, sizes, present)
        )
    counts = present.sum(axis=0, dtype=np.uint32)
    begins = np.where(present, offsets, np.iinfo(np.int64).max).min(axis=0, initial=np.iinfo(np.int64).max)
    begins = np.where(counts > 0, begins, 0)
    part_names, part_offsets, part_sizes = (_flatten(array, present) for array in (names, offsets, sizes))
    scan = ShardScan(
        status="ok",
        keys=keys,
        key_sizes=key_sizes,
        offsets=begins,
        sizes=np.where(present, sizes, 0).sum(axis=0, dtype=np.int64),
        counts=counts,
        extensions=tuple(extensions),
        part_names=part_names,
        part_offsets=part_offsets,
        part_sizes=part_sizes,
        findings=(),
        numbered_key_prefix=prefix,
    )
    if not rows:
        message = "no samples in this shard"
        return _with_findings(scan, [Finding(code="WDS115", severity="warning", message=message, shard=shard)])
    return _with_findings(scan, [] if prefix is not None else duplicate_findings(shard, scan))


def _with_findings(scan: ShardScan, findings: Iterable[Finding]) -> ShardScan:
    return replace(scan, findings=tuple(findings))


def _flatten(array: NDArray[Any], present: NDArray[np.bool_]) -> NDArray[Any]:
    """(columns, rows) -> the values of the first row, then those of the second, and so on, without absent ones."""
    if present.all():
        return np.ascontiguousarray(array.T).ravel()
    flat: NDArray[Any] = array.T[present.T]
    return flat


def _without_absent(read: ReadBytes, columns: Sequence[Column], rows: int) -> list[Column]:
    """The columns of exported samples, with the parts that each sample has according to `PARTS_COLUMN`."""
    listed = next(each for each in columns if each.name == PARTS_COLUMN)
    present = {each.name: np.zeros(rows, np.bool_) for each in columns}
    for row, text in enumerate(read_values(read, listed.offsets, listed.sizes)):
        try:
            names = [*map(str, read_json(text))]
        except (ValueError, TypeError) as error:
            raise damaged(f"the list of parts of sample {row:,} cannot be read: {error}") from error
        for name in names:
            if name in present:
                present[name][row] = True
    return [
        each if each.name == KEY_COLUMN else each._replace(present=present[each.name])
        for each in columns
        if each.name != PARTS_COLUMN
    ]
