"""MDS shards: a table of offsets, the writer's settings as JSON, and the samples. Also the entries of index.json.

A sample is the sizes of its fields of variable size, then the fields. The settings have the columns, their encodings
and their fixed sizes, so that a shard describes itself.

Source: https://docs.mosaicml.com/projects/streaming (dataset format, MDS encodings), and files that it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from wdsctl.core.array_types import Int64Array
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.stored_values import NUMBER_TYPES, RAW_IMAGE_EXTENSION, raw_extension
from wdsctl.core.shards.in_place.errors import damaged, unsupported
from wdsctl.core.shards.in_place.ranges import field_ranges, read_offset_table
from wdsctl.core.shards.in_place.table_scan import BY_CONTENT, Column, scan_columns
from wdsctl.core.shards.readers import ReadBytes
from wdsctl.core.shards.shard_scan import ShardScan

#: Encoding -> the extension of its values, if they are ranges of bytes that the loader decodes.
_EXTENSIONS = {
    "bytes": BY_CONTENT,
    "str": "txt",
    "json": "json",
    "jpeg": "jpg",
    "png": "png",
    "pil": RAW_IMAGE_EXTENSION,
    "int": "int64",
    "str_int": "cls",
    "str_float": "float",
    "str_decimal": "txt",
    "pkl": "pkl",  # the loader returns its bytes
    **{name: name for name in NUMBER_TYPES},
}
#: Encodings with several files in a value: these have several ranges.
LIST_ENCODINGS = ("jpeg_array", "jpegarray", "list[jpeg]", "list[png]", "list[pil]")


def encoding_extension(encoding: str) -> str | None:
    """The extension of values of an encoding; None if the encoding is not known, or its values are lists."""
    kind, _, rest = encoding.partition(":")
    if kind != "ndarray":
        return None if rest else _EXTENSIONS.get(kind)
    name, _, dims = rest.partition(":")
    if name and name not in NUMBER_TYPES:
        return None
    if not dims:
        return f"mdsarray-{name}" if name else "mdsarray"
    sizes = dims.split(",")
    return raw_extension(name, tuple(map(int, sizes))) if name and all(map(str.isdigit, sizes)) else None


class MdsColumns(NamedTuple):
    """`sizes`: bytes of each value; None if each sample states it."""

    names: list[str]
    encodings: list[str]
    sizes: list[int | None]


class MdsEntry(NamedTuple):
    """A shard as index.json describes it. `packed_name`: of the compressed file; empty if there is none."""

    columns: MdsColumns
    samples: int
    name: str
    size: int
    packed_name: str
    compression: str
    hashes: Mapping[str, str]

    @property
    def file_name(self) -> str:
        return self.packed_name or self.name


def parse_columns(settings: Mapping[str, Any]) -> MdsColumns:
    """The columns of a shard, from its settings or its index entry.

    Raises ValueError, LookupError, TypeError, OverflowError.
    """
    names, encodings = [*map(str, settings["column_names"])], [*map(str, settings["column_encodings"])]
    sizes = [size if size is None else int(size) for size in settings["column_sizes"]]
    if settings["format"] != "mds" or not len(names) == len(encodings) == len(sizes):
        raise ValueError(f"a shard has format {settings['format']!r}, or columns without encoding or size")
    if len(set(names)) != len(names) or any(size is not None and size < 0 for size in sizes):
        raise ValueError("two columns have the same name, or a size is negative")
    return MdsColumns(names, encodings, sizes)


def parse_entry(entry: Mapping[str, Any]) -> MdsEntry:
    """An entry of index.json. Raises ValueError, LookupError, TypeError, OverflowError."""
    raw, packed = entry["raw_data"], entry.get("zip_data")
    samples = int(entry["samples"])
    return MdsEntry(
        parse_columns(entry),
        samples,
        str(raw["basename"]),
        int(raw["bytes"]),
        str(packed["basename"]) if packed else "",
        str(entry.get("compression") or ""),
        {str(name): str(digest) for name, digest in (raw.get("hashes") or {}).items()},
    )


def scan_mds(shard: str, read: ReadBytes, size: int) -> ShardScan:
    """Scan a shard of `size` bytes. Raises ShardFormatError, and what `read` raises.

    Cost: the table, and the sizes of each sample's fields; of columns of bytes also the first bytes of each value.
    """
    offsets = read_offset_table(read, size)
    if int(offsets[-1]) != size:
        raise damaged(f"its samples end at byte {int(offsets[-1]):,}, but it has {size:,} bytes")
    columns = _read_settings(read, offsets)
    extensions = []
    for name, encoding in zip(columns.names, columns.encodings, strict=True):
        extension = encoding_extension(encoding)
        if extension is None:
            what = "lists of files" if encoding in LIST_ENCODINGS else "an encoding that is not known"
            raise unsupported(f"the column {name!r} has the encoding {encoding!r}, {what}")
        extensions.append(extension)
    places, sizes = field_ranges(read, offsets, columns.sizes)
    rows = len(offsets) - 1
    found = [Column(*each) for each in zip(columns.names, extensions, places, sizes, strict=True)]
    return scan_columns(shard, read, found, rows)


def _read_settings(read: ReadBytes, offsets: Int64Array) -> MdsColumns:
    start = 4 * (len(offsets) + 1)
    try:
        settings = read_json(read(start, int(offsets[0]) - start))
        return parse_columns(settings)
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        raise damaged(f"its settings, before the samples, cannot be read: {error}") from error
