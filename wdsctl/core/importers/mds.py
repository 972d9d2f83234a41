"""MDS, the shards of Mosaic Streaming: index.json and `shard.NNNNN.mds` files, plain or compressed.

A shard is a table of offsets, the writer's settings as JSON, and the samples; a sample is the sizes of its fields of
variable size, then the fields. Columns of images and bytes become parts, arrays become `.npy`, all others one part
`json`. Shards with a column `__key__`, as `wdsctl convert --to mds` writes them, become the original samples.

Source: https://docs.mosaicml.com/projects/streaming (dataset format, MDS encodings), and files that it writes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np

from wdsctl.core.errors import DatasetError, translate_os_errors
from wdsctl.core.importers.protocol import (
    FieldUse,
    FormatMatch,
    Options,
    Source,
    damaged_file_error,
    read_json_object,
)
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.description import make_table_source
from wdsctl.core.importers.records.files import resolve_reference
from wdsctl.core.importers.records.indexed_folders import (
    IndexedFolder,
    check_splits,
    find_indexed_folders,
    match_indexed_folders,
)
from wdsctl.core.importers.records.offset_shards import (
    IndexedShardFile,
    IndexedShardRows,
    OffsetShard,
    decompress,
    open_plain_shard,
)
from wdsctl.core.importers.records.samples import KEY_COLUMN, PARTS_COLUMN, RowMapping, exported_row_mapping
from wdsctl.core.importers.records.source import make_row_source
from wdsctl.core.importers.records.values import encode_npy, raw_image_to_png
from wdsctl.core.json_text import read_json
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

ColumnDecoder = Callable[[bytes], Any]


def is_media_encoding(encoding: str) -> bool:
    """Whether values of an encoding are files, or are converted to files."""
    return encoding.partition(":")[0] in {*_FILE_DECODERS, *_LIST_DECODERS, "ndarray", "bytes"}


def column_decoder(column: str, encoding: str, index: str) -> ColumnDecoder:
    """The decoder of a column. Raises DatasetError WDS234 for pickles and for unknown encodings."""
    kind, _, rest = encoding.partition(":")
    if kind == "pkl":
        raise DatasetError(
            f"the column {column!r} is pickled, and reading it could run code",
            hint=f"pass `-O drop={column}` to skip the column",
            where=path_for_message(index),
            code="WDS234",
        )
    if kind == "ndarray":
        return _array_decoder(rest)
    found = _FILE_DECODERS.get(kind) or _LIST_DECODERS.get(kind) or _VALUE_DECODERS.get(kind)
    if found is None:
        raise DatasetError(
            f"the column {column!r} has the unknown encoding {encoding!r}",
            hint=f"pass `-O drop={column}` to skip the column",
            where=path_for_message(index),
            code="WDS234",
        )
    return found


def _file_decoder(extension: str) -> ColumnDecoder:
    return lambda data: {"bytes": data, "path": f"x.{extension}"}


def _decode_pil(data: bytes) -> dict[str, Any]:
    return {"bytes": raw_image_to_png(data), "path": "x.png"}


def _list_decoder(decode_element: ColumnDecoder, start: int) -> ColumnDecoder:
    """The decoder of lists: a count, the sizes, the elements. `start`: bytes before the count."""

    def decode(data: bytes) -> list[Any]:
        (count,) = struct.unpack_from("<I", data, start)
        head = start + 4 + 4 * count
        sizes = struct.unpack_from(f"<{count}I", data, start + 4) if head <= len(data) else ()
        if head + sum(sizes) != len(data):
            raise ValueError("a list's sizes do not fit its bytes")
        ends = np.cumsum([head, *sizes]).tolist()
        return [decode_element(data[a:b]) for a, b in pairwise(ends)]

    return decode


def _number_decoder(dtype: str) -> ColumnDecoder:
    kind = np.dtype(dtype)
    return lambda data: np.frombuffer(data, kind)[0].item()


#: Encodings whose values are files, or are converted to files.
_FILE_DECODERS: dict[str, ColumnDecoder] = {
    "jpeg": _file_decoder("jpg"),
    "png": _file_decoder("png"),
    "pil": _decode_pil,
}
#: Several JPEG files in one value.
decode_jpeg_list = _list_decoder(_file_decoder("jpg"), 0)

_LIST_DECODERS: dict[str, ColumnDecoder] = {
    "jpeg_array": decode_jpeg_list,
    "jpegarray": decode_jpeg_list,
    **{f"list[{kind}]": _list_decoder(decode, 4) for kind, decode in _FILE_DECODERS.items()},
}
_NUMBER_TYPES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
_VALUE_DECODERS: dict[str, ColumnDecoder] = {
    "bytes": bytes,
    "str": bytes.decode,
    "int": _number_decoder("<i8"),
    "str_int": lambda data: int(data.decode()),
    "str_float": lambda data: float(data.decode()),
    "str_decimal": bytes.decode,
    "json": json.loads,
    **{name: _number_decoder(np.dtype(name).newbyteorder("<").str) for name in _NUMBER_TYPES},
}
#: Code of an array's type -> dtype. The code is the number of bits, plus 1 for signed integers and 2 for floats.
_DTYPE_OF_CODE = {
    **{8 * size: f"<u{size}" for size in (1, 2, 4, 8)},
    **{8 * size + 1: f"<i{size}" for size in (1, 2, 4, 8)},
    **{8 * size + 2: f"<f{size}" for size in (2, 4, 8)},
}
_SHAPE_DTYPES = ("u1", "<u2", "<u4", "<u8")


def _array_decoder(rest: str) -> ColumnDecoder:
    """The decoder of arrays. Type and shape are in the encoding (`uint8:2,3`), or in the bytes before the values."""
    name, _, dims = rest.partition(":")
    fixed_type = np.dtype(name).newbyteorder("<") if name in _NUMBER_TYPES else None
    fixed_shape = tuple(map(int, dims.split(","))) if dims else None

    def decode(data: bytes) -> dict[str, Any]:
        at = 0
        dtype, shape = fixed_type, fixed_shape
        if dtype is None:
            dtype, at = np.dtype(_DTYPE_OF_CODE[data[0]]), 1
        if shape is None:
            width = np.dtype(_SHAPE_DTYPES[data[at] & 3])
            count = data[at] >> 2
            shape = tuple(np.frombuffer(data, width, count, at + 1).tolist())
            at += 1 + width.itemsize * count
        return {"bytes": encode_npy(np.frombuffer(data, dtype, offset=at).reshape(shape)), "path": "x.npy"}

    return decode


_DESCRIBED_ROWS = 4  # rows that are read to describe the source


class MdsImporter:
    """Reads one dataset, or a folder with one dataset per split, whose names are the beginnings of the keys.

    Options: `-O drop=a,b` leaves columns out, `key=FIELD` holds the keys, `text=FIELD` becomes the part `txt`.
    """

    name = "mds"
    about = "MDS shards of Mosaic Streaming, plain or compressed"

    def recognise(self, path: str) -> FormatMatch | None:
        return match_indexed_folders(path, _is_index, "MDS shards")

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ("key", "text", "drop"))
        folders = find_indexed_folders(path, _is_index) or [IndexedFolder(path)]
        check_splits(path, folders)
        dropped = given.parse_list_option(options, "drop")
        shards: list[IndexedShardFile] = []
        encodings: dict[str, str] = {}
        for folder in folders:
            entries = _read_entries(folder.index_file)
            shards += [
                _make_shard(folder.path, entry, folder.index_file, dropped)._replace(split=folder.split)
                for entry in entries
            ]
            for entry in entries:
                encodings |= dict(zip(entry["column_names"], entry["column_encodings"], strict=True))
        rows = IndexedShardRows([folder.index_file for folder in folders], shards)
        splits = [folder.split for folder in folders if folder.split]
        if KEY_COLUMN in encodings:
            return make_row_source(rows, exported_row_mapping(self.name, options), splits)
        columns = [name for name in encodings if name not in dropped]
        media = [name for name in columns if is_media_encoding(encodings[name])]
        return make_table_source(
            rows,
            RowMapping.from_options(options, media=media, key=":row"),
            lambda: [row.values for row in islice(rows.rows(0), _DESCRIBED_ROWS)],
            fields=columns,
            more_uses=lambda: [FieldUse(name, "", "dropped by `-O drop`") for name in encodings if name in dropped],
            splits=splits,
            has_file_references=False,
        )


IMPORTER = MdsImporter()


def _is_index(head: bytes) -> bool:
    return b'"shards"' in head and (b'"mds"' in head or b'.mds"' in head)


def _read_entries(index: str) -> list[Mapping[str, Any]]:
    """The entries of the shards. Raises DatasetError WDS233."""
    entries = read_json_object(index).get("shards")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise damaged_file_error("it lists no shards", index)
    return entries


def _make_shard(folder: str, entry: Mapping[str, Any], index: str, dropped: Sequence[str]) -> IndexedShardFile:
    """Describe a shard of the index.

    Raises DatasetError WDS233 for a damaged index, WDS234 for an encoding that cannot be read, WDS230 for a file
    outside the folder.
    """
    try:
        names, encodings = list(entry["column_names"]), list(entry["column_encodings"])
        sizes = list(entry["column_sizes"])
        samples, raw, packed = int(entry["samples"]), entry["raw_data"], entry.get("zip_data")
        raw_name, raw_size = str(raw["basename"]), int(raw["bytes"])
        file = str(packed["basename"]) if packed else raw_name
        form, compression = str(entry["format"]), str(entry.get("compression") or "")
    except (LookupError, TypeError, ValueError) as error:
        raise damaged_file_error(f"a shard's entry is incomplete ({error})", index) from error
    if form != "mds" or not len(names) == len(encodings) == len(sizes):
        raise damaged_file_error(f"a shard has format {form!r}, or columns without encoding or size", index)
    columns = zip(names, encodings, strict=True)
    decoders = [None if name in dropped else column_decoder(name, str(encoding), index) for name, encoding in columns]
    plain = resolve_reference(folder, raw_name, path_for_message(index))
    path = resolve_reference(folder, file, path_for_message(index))
    if packed and not source_files.exists(path) and source_files.exists(plain):
        path = plain
    if path == plain or not compression:
        opening = partial(_open_plain, path, samples, raw_size)
    else:
        opening = partial(_open_compressed, path, samples, raw_size, compression)
    if KEY_COLUMN in names:
        return IndexedShardFile(path, samples, opening, partial(_exported_parts, names, sizes))
    return IndexedShardFile(path, samples, opening, partial(_row_values, names, sizes, decoders))


def _open_plain(path: str, samples: int, size: int) -> OffsetShard:
    shard = open_plain_shard(path, samples)
    found = source_files.stat_file(path).size
    if found != size:
        raise shard.damaged(f"it has {found:,} bytes, but its index says {size:,}")
    return shard


def _open_compressed(path: str, samples: int, size: int, compression: str) -> OffsetShard:
    """Decompress a shard. Memory: the whole shard, compressed and decompressed."""
    with translate_os_errors(path, "read"), source_files.open_file(path) as file:
        data = file.read()
    return OffsetShard(decompress(data, compression, size, path), path, samples)


def _row_values(
    names: Sequence[str],
    sizes: Sequence[int | None],
    decoders: Sequence[ColumnDecoder | None],
    shard: OffsetShard,
    row: int,
) -> dict[str, Any]:
    fields = zip(names, decoders, shard.fields(row, sizes), strict=True)
    return {name: decode(data) for name, decode, data in fields if decode is not None}


def _exported_parts(names: Sequence[str], sizes: Sequence[int | None], shard: OffsetShard, row: int) -> dict[str, Any]:
    """The parts of an exported sample, byte for byte."""
    fields: dict[str, Any] = dict(zip(names, shard.fields(row, sizes), strict=True))
    fields[KEY_COLUMN] = fields[KEY_COLUMN].decode()
    if PARTS_COLUMN not in fields:
        return fields
    kept = read_json(fields.pop(PARTS_COLUMN))
    return {name: value for name, value in fields.items() if name == KEY_COLUMN or name in kept}
