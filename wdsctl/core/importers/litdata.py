"""LitData folders: index.json and `chunk-*.bin` files, plain or compressed with zstd.

Leaves that are images, arrays or bytes become parts, all others one part `json`. Chunks that `wdsctl convert --to
litdata` wrote become the original samples. The parsing of the index and of plain chunks is in
`wdsctl.core.shards.in_place`.

Source: https://github.com/Lightning-AI/litData (README), and files that its writer produces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from wdsctl.core.errors import DatasetError
from wdsctl.core.file_limits import held_limit, unpacked_size_error
from wdsctl.core.importers.common.files import resolve_reference
from wdsctl.core.importers.common.indexed_folders import FolderIndex, IndexedFolder, IndexedFormat
from wdsctl.core.importers.common.offset_shards import (
    IndexedShardFile,
    OffsetShard,
    decompress,
    map_shard_file,
    read_packed,
    split_fields,
)
from wdsctl.core.importers.common.stored_fields import (
    FieldDecoder,
    exported_parts,
    field_decoder,
    file_decoder,
    list_decoder,
)
from wdsctl.core.importers.protocol import damaged_file_error, read_json_object
from wdsctl.core.shards.in_place.litdata import (
    ARROW_MAGIC,
    FRAMED_MAGIC,
    LIST_FORMATS,
    ZSTD_MAGIC,
    LeafTree,
    LitDataChunk,
    leaf_extension,
    parse_index,
)
from wdsctl.core.text import path_for_message


def is_media_format(encoding: str) -> bool:
    """Whether the values of a leaf are files, or are converted to files."""
    return encoding.partition(":")[0] not in {"str", "text", "bool", "int", "float", "json"}


def leaf_decoder(encoding: str, index: str) -> FieldDecoder:
    """The decoder of a leaf. Raises DatasetError WDS234 for pickles and for unknown encodings."""
    kind = encoding.partition(":")[0]
    if kind in ("pickle", "graph"):
        raise _unsupported_error(f"a value is stored as {encoding!r}, and reading it could run code", index)
    if encoding in LIST_FORMATS:
        return list_decoder(file_decoder("jpg"))
    extension = leaf_extension(encoding)
    if extension is None:
        raise _unsupported_error(f"a value is stored as {encoding!r}, which is not known", index)
    return field_decoder(extension)


def _unsupported_error(what: str, index: str) -> DatasetError:
    return DatasetError(
        what, hint="pass `-O drop=FIELD` to skip the field", where=path_for_message(index), code="WDS234"
    )


_FILE_HEADER = struct.Struct("<8sHHIII")  # magic, version, flags, items, items per frame, frames
_FRAME_HEADER = struct.Struct("<IIQII")  # first item, items, offset, bytes, decompressed bytes


def _is_index(head: bytes) -> bool:
    return b'"chunks"' in head and b'"chunk_size"' in head


def _read_index(folder: IndexedFolder, dropped: Sequence[str]) -> FolderIndex:
    index = folder.index_file
    content = read_json_object(index)
    try:
        known = parse_index(content)
    except ValueError as error:
        raise damaged_file_error(str(error), index) from error
    if known.refusal:
        raise DatasetError(
            f"{known.refusal}, and wdsctl cannot read them",
            hint="write the chunks again with litdata, unencrypted, for its default loader, and without compression or "
            "with zstd; read Parquet files with `--from parquet`",
            where=path_for_message(index),
            code="WDS234",
        )
    forms, tree = known.formats, known.tree
    tree = {name: numbers for name, numbers in tree.items() if name not in dropped}
    used = sorted({number for numbers in tree.values() for number in _leaf_numbers(numbers)})
    decoders = {number: leaf_decoder(forms[number], index) for number in used}
    unpack = (lambda data: decompress(data, "zstd", None, "an item")) if known.are_items_compressed else bytes

    def decode(shard: OffsetShard, row: int) -> dict[str, Any]:
        where = f"{path_for_message(shard.path)}, sample {row:,}"
        leaves = split_fields(unpack(shard.sample(row)), [None] * len(forms), where)
        if known.is_exported:
            return _decode_exported(tree, forms, decoders, leaves)
        values = {number: decode_leaf(leaves[number]) for number, decode_leaf in decoders.items()}
        return {
            name: values[numbers] if isinstance(numbers, int) else [values[number] for number in numbers]
            for name, numbers in tree.items()
        }

    shards = [_make_shard(folder.path, chunk, index, decode) for chunk in known.chunks]
    is_media = {
        name: any(is_media_format(forms[i]) for i in _leaf_numbers(numbers)) for name, numbers in known.tree.items()
    }
    return FolderIndex(shards, is_media, is_exported=content.get("written_by") == "wdsctl")


def _leaf_numbers(numbers: int | Sequence[int]) -> Sequence[int]:
    return (numbers,) if isinstance(numbers, int) else numbers


def _make_shard(
    folder: str, chunk: LitDataChunk, index: str, decode: Callable[[OffsetShard, int], Mapping[str, Any]]
) -> IndexedShardFile:
    path = resolve_reference(folder, chunk.name, path_for_message(index))
    stem = chunk.name.removesuffix(".bin").removesuffix(".zstd")
    return IndexedShardFile(
        path, chunk.samples, partial(_open_chunk, path, chunk.samples, chunk.size), decode, stem=stem
    )


def _open_chunk(path: str, samples: int, size: int) -> OffsetShard:
    data = map_shard_file(path)
    if data[:4] == ZSTD_MAGIC:
        return OffsetShard(decompress(read_packed(path), "zstd", None, path), path, samples)
    if len(data) < size:
        raise damaged_file_error(f"it has {len(data):,} bytes, but its index says {size:,}", path, copied="chunk")
    if data[-8:] == ARROW_MAGIC:
        raise DatasetError(
            "the chunk stores its rows as Arrow, which wdsctl cannot read",
            hint="write the chunk again from rows with an image or bytes, or convert the original data",
            where=path_for_message(path),
            code="WDS234",
        )
    return OffsetShard(_join_frames(read_packed(path), path) if data[:8] == FRAMED_MAGIC else data, path, samples)


def _join_frames(data: bytes | memoryview, path: str) -> bytes:
    """Decompress a chunk of frames to a plain chunk: a table of offsets, then the items."""
    try:
        _, _, _, items, _, frames = _FILE_HEADER.unpack_from(data)
        offsets = struct.unpack_from(f"<{items + 1}I", data, _FILE_HEADER.size)
        table = _FILE_HEADER.size + 4 * (items + 1)
        pieces, allowed, total = [], held_limit(len(data)), 0
        for i in range(frames):
            _, _, at, packed, size = _FRAME_HEADER.unpack_from(data, table + i * _FRAME_HEADER.size)
            total += size  # frames may share their bytes
            if total > allowed:
                raise unpacked_size_error(allowed, path)
            pieces.append(decompress(data[at : at + packed], "zstd", size, path))
    except struct.error as error:
        raise damaged_file_error("its table of frames is truncated", path, copied="chunk") from error
    head = 4 * (items + 2)
    return b"".join((struct.pack(f"<{items + 2}I", items, *(head + offset for offset in offsets)), *pieces))


def _decode_exported(
    tree: LeafTree, forms: Sequence[str], decoders: Mapping[int, FieldDecoder], leaves: Sequence[bytes]
) -> dict[str, Any]:
    fields: dict[str, bytes] = {}
    for name, numbers in tree.items():
        (number,) = _leaf_numbers(numbers)  # a value per field, not a list
        is_number = forms[number] in ("int", "float")
        fields[name] = repr(decoders[number](leaves[number])).encode() if is_number else leaves[number]
    return exported_parts(fields)


IMPORTER = IndexedFormat(
    "litdata", "a folder of LitData chunks, plain or compressed with zstd", "LitData chunks", _is_index, _read_index
)
