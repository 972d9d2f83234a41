"""MDS, the shards of Mosaic Streaming: index.json and `shard.NNNNN.mds` files, plain or compressed.

A shard is a table of offsets, the writer's settings as JSON, and the samples; a sample is the sizes of its fields of
variable size, then the fields. Columns of images and bytes become parts, arrays become `.npy`, all others one part
`json`. Shards with a column `__key__`, as `wdsctl convert --to mds` writes them, become the original samples.

Source: https://docs.mosaicml.com/projects/streaming (dataset format, MDS encodings), and files that it writes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np

from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common.description import make_table_source
from wdsctl.core.importers.common.files import resolve_reference
from wdsctl.core.importers.common.indexed_folders import (
    IndexedFolder,
    check_splits,
    find_indexed_folders,
    match_indexed_folders,
)
from wdsctl.core.importers.common.offset_shards import (
    IndexedShardFile,
    IndexedShardRows,
    OffsetShard,
    decompress,
    open_plain_shard,
    read_packed,
)
from wdsctl.core.importers.common.samples import RowMapping, exported_row_mapping
from wdsctl.core.importers.common.source import make_row_source
from wdsctl.core.importers.common.values import check_format_options, encode_npy, parse_list_option
from wdsctl.core.importers.protocol import (
    FieldUse,
    FormatMatch,
    Options,
    Source,
    damaged_file_error,
    read_json_object,
)
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.naming import KEY_COLUMN, PARTS_COLUMN
from wdsctl.core.samples.stored_values import (
    RAW_IMAGE_EXTENSION,
    is_stored_array,
    raw_image_to_png,
    stored_value_decoder,
)
from wdsctl.core.shards.in_place.mds import encoding_extension, parse_entry
from wdsctl.core.shards.in_place.table_scan import BY_CONTENT
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

ColumnDecoder = Callable[[bytes], Any]


def is_media_encoding(encoding: str) -> bool:
    """Whether values of an encoding are files, or are converted to files."""
    kind = encoding.partition(":")[0]
    return kind in {*_FILE_EXTENSIONS, *_LIST_DECODERS, RAW_IMAGE_EXTENSION, "ndarray", "bytes"}


def column_decoder(column: str, encoding: str, index: str) -> ColumnDecoder:
    """The decoder of a column. Raises DatasetError WDS234 for pickles and for unknown encodings."""
    extension = encoding_extension(encoding)
    if extension == "pkl":
        raise DatasetError(
            f"the column {column!r} is pickled, and reading it could run code",
            hint=f"pass `-O {quote_shell_word(f'drop={column}')}` to skip the column",
            where=path_for_message(index),
            code="WDS234",
        )
    found = _LIST_DECODERS.get(encoding) if extension is None else _value_decoder(extension)
    if found is None:
        raise DatasetError(
            f"the column {column!r} has the unknown encoding {encoding!r}",
            hint=f"pass `-O {quote_shell_word(f'drop={column}')}` to skip the column",
            where=path_for_message(index),
            code="WDS234",
        )
    return found


#: Encodings whose values are files.
_FILE_EXTENSIONS = {"jpeg": "jpg", "png": "png"}


def _value_decoder(extension: str) -> ColumnDecoder:
    """The decoder of values that have this extension in place (`wdsctl.core.shards.in_place.mds`)."""
    if extension in _FILE_EXTENSIONS.values():
        return _file_decoder(extension)
    if extension in _SPECIAL_DECODERS:
        return _SPECIAL_DECODERS[extension]
    decode = stored_value_decoder(extension)
    if decode is None:
        raise ValueError(f"no decoder for {extension}")
    return _npy_decoder(decode) if is_stored_array(extension) else decode


def _file_decoder(extension: str) -> ColumnDecoder:
    return lambda data: {"bytes": data, "path": f"x.{extension}"}


def _npy_decoder(decode: ColumnDecoder) -> ColumnDecoder:
    return lambda data: {"bytes": encode_npy(decode(data)), "path": "x.npy"}


def _decode_pil(data: bytes) -> dict[str, Any]:
    return {"bytes": raw_image_to_png(data), "path": "x.png"}


_SPECIAL_DECODERS: dict[str, ColumnDecoder] = {
    BY_CONTENT: bytes,
    "txt": bytes.decode,
    "json": read_json,
    "cls": lambda data: int(data.decode()),
    RAW_IMAGE_EXTENSION: _decode_pil,
}


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


#: Several JPEG files in one value.
decode_jpeg_list = _list_decoder(_file_decoder("jpg"), 0)

_LIST_DECODERS: dict[str, ColumnDecoder] = {
    "jpeg_array": decode_jpeg_list,
    "jpegarray": decode_jpeg_list,
    "list[jpeg]": _list_decoder(_file_decoder("jpg"), 4),
    "list[png]": _list_decoder(_file_decoder("png"), 4),
    "list[pil]": _list_decoder(_decode_pil, 4),
}

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
        check_format_options(self.name, options, ("key", "text", "drop"))
        folders = find_indexed_folders(path, _is_index) or [IndexedFolder(path)]
        check_splits(path, folders)
        dropped = parse_list_option(options, "drop")
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
        known = parse_entry(entry)
    except (LookupError, TypeError, ValueError, OverflowError) as error:  # of infinity
        raise damaged_file_error(f"a shard's entry is incomplete ({error})", index) from error
    (names, encodings, sizes), samples, raw_size = known.columns, known.samples, known.size
    columns = zip(names, encodings, strict=True)
    decoders = [None if name in dropped else column_decoder(name, encoding, index) for name, encoding in columns]
    plain = resolve_reference(folder, known.name, path_for_message(index))
    path = resolve_reference(folder, known.file_name, path_for_message(index))
    if known.packed_name and not source_files.exists(path) and source_files.exists(plain):
        path = plain
    compression, stem = known.compression, known.name.removesuffix(".mds")
    if path == plain or not compression:
        opening = partial(_open_plain, path, samples, raw_size)
    else:
        opening = partial(_open_compressed, path, samples, raw_size, compression)
    if KEY_COLUMN in names:
        return IndexedShardFile(path, samples, opening, partial(_exported_parts, names, sizes), stem=stem)
    return IndexedShardFile(path, samples, opening, partial(_row_values, names, sizes, decoders), stem=stem)


def _open_plain(path: str, samples: int, size: int) -> OffsetShard:
    shard = open_plain_shard(path, samples)
    found = source_files.stat_file(path).size
    if found != size:
        raise shard.damaged(f"it has {found:,} bytes, but its index says {size:,}")
    return shard


def _open_compressed(path: str, samples: int, size: int, compression: str) -> OffsetShard:
    """Decompress a shard. Memory: the whole decompressed shard."""
    return OffsetShard(decompress(read_packed(path), compression, size, path), path, samples)


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
