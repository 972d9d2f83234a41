"""MDS, the shards of Mosaic Streaming: index.json and `shard.NNNNN.mds` files, plain or compressed.

A shard is a table of offsets, the writer's settings as JSON, and the samples; a sample is the sizes of its fields of
variable size, then the fields. Columns of images and bytes become parts, arrays become `.npy`, all others one part
`json`. Shards with a column `__key__`, as `wdsctl convert --to mds` writes them, become the original samples.

Source: https://docs.mosaicml.com/projects/streaming (dataset format, MDS encodings), and files that it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common.files import resolve_reference
from wdsctl.core.importers.common.indexed_folders import FolderIndex, IndexedFolder, IndexedFormat
from wdsctl.core.importers.common.offset_shards import (
    IndexedShardFile,
    OffsetShard,
    decompress,
    map_shard_file,
    read_packed,
)
from wdsctl.core.importers.common.stored_fields import (
    FieldDecoder,
    decode_raw_image,
    exported_parts,
    field_decoder,
    file_decoder,
    list_decoder,
)
from wdsctl.core.importers.protocol import damaged_file_error, read_json_object
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.shards.in_place.mds import encoding_extension, parse_entry
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

#: Encodings with several files in a value.
_LIST_DECODERS: dict[str, FieldDecoder] = {
    "jpeg_array": list_decoder(file_decoder("jpg")),
    "jpegarray": list_decoder(file_decoder("jpg")),
    "list[jpeg]": list_decoder(file_decoder("jpg"), 4),
    "list[png]": list_decoder(file_decoder("png"), 4),
    "list[pil]": list_decoder(decode_raw_image, 4),
}
#: By the extension that the values have in place. Other formats keep such values as files.
_VALUE_DECODERS: dict[str, FieldDecoder] = {"json": read_json, "cls": lambda data: int(data.decode())}


def is_media_encoding(encoding: str) -> bool:
    """Whether values of an encoding are files, or are converted to files."""
    return encoding.partition(":")[0] in {"jpeg", "png", *_LIST_DECODERS, "pil", "ndarray", "bytes"}


def column_decoder(column: str, encoding: str, index: str) -> FieldDecoder:
    """The decoder of a column. Raises DatasetError WDS234 for pickles and for unknown encodings."""
    extension = encoding_extension(encoding)
    problem = ""
    if extension == "pkl":
        problem = f"the column {column!r} is pickled, and reading it could run code"
    elif extension is None and encoding not in _LIST_DECODERS:
        problem = f"the column {column!r} has the unknown encoding {encoding!r}"
    if problem:
        hint = f"pass `-O {quote_shell_word(f'drop={column}')}` to skip the column"
        raise DatasetError(problem, hint=hint, where=path_for_message(index), code="WDS234")
    if extension is None:
        return _LIST_DECODERS[encoding]
    return _VALUE_DECODERS.get(extension) or field_decoder(extension)


def _is_index(head: bytes) -> bool:
    return b'"shards"' in head and (b'"mds"' in head or b'.mds"' in head)


def _read_index(folder: IndexedFolder, dropped: Sequence[str]) -> FolderIndex:
    index = folder.index_file
    entries = _read_entries(index)
    shards = [_make_shard(folder.path, entry, index, dropped) for entry in entries]
    columns = (pair for each in entries for pair in zip(each["column_names"], each["column_encodings"], strict=True))
    return FolderIndex(shards, {name: is_media_encoding(encoding) for name, encoding in columns}, is_exported=True)


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
    (names, encodings, sizes), samples, size = known.columns, known.samples, known.size
    columns = zip(names, encodings, strict=True)
    decoders = {name: column_decoder(name, encoding, index) for name, encoding in columns if name not in dropped}

    def decode(shard: OffsetShard, row: int) -> dict[str, Any]:
        fields = dict(zip(names, shard.fields(row, sizes), strict=True))
        if KEY_COLUMN in names:
            return exported_parts(fields)
        return {name: decoders[name](data) for name, data in fields.items() if name in decoders}

    plain = resolve_reference(folder, known.name, path_for_message(index))
    path = resolve_reference(folder, known.file_name, path_for_message(index))
    if known.packed_name and not source_files.exists(path) and source_files.exists(plain):
        path = plain
    compression = "" if path == plain else known.compression
    opening = partial(_open_shard, path, samples, size, compression)
    return IndexedShardFile(path, samples, opening, decode, stem=known.name.removesuffix(".mds"))


def _open_shard(path: str, samples: int, size: int, compression: str) -> OffsetShard:
    """Memory: the whole decompressed shard, if it is compressed."""
    if compression:
        return OffsetShard(decompress(read_packed(path), compression, size, path), path, samples)
    shard = OffsetShard(map_shard_file(path), path, samples)
    found = source_files.stat_file(path).size
    if found != size:
        raise shard.damaged(f"it has {found:,} bytes, but its index says {size:,}")
    return shard


IMPORTER = IndexedFormat(
    "mds", "MDS shards of Mosaic Streaming, plain or compressed", "MDS shards", _is_index, _read_index
)
