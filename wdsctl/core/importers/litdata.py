"""LitData folders: index.json and `chunk-*.bin` files, plain or compressed with zstd.

A chunk is a table of offsets, then the items; an item is the sizes of its leaves, then the leaves. Leaves that are
images, arrays or bytes become parts, all others one part `json`. Chunks that `wdsctl convert --to litdata` wrote become
the original samples. A packed list or dict is a type byte, 32-bit counts,
and values, all little-endian.

Source: https://github.com/Lightning-AI/litData (README), and files that its writer produces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.mds import decode_jpeg_list
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
    MAX_UNSIZED_BYTES,
    IndexedShardFile,
    IndexedShardRows,
    OffsetShard,
    decompress_zstd,
    map_file,
    split_fields,
)
from wdsctl.core.importers.records.samples import KEY_COLUMN, PARTS_COLUMN, RowMapping, exported_row_mapping
from wdsctl.core.importers.records.source import make_row_source
from wdsctl.core.importers.records.values import encode_npy, raw_image_to_png
from wdsctl.core.json_text import read_json
from wdsctl.core.text import escape_unprintable, path_for_message

_MAX_TAG = 0x20  # tags are smaller; older files have JSON, whose first byte is larger


def parse_json_field(data: bytes) -> Any:
    """Parse a packed value or JSON. Raises ValueError for damaged data."""
    if not data or data[0] > _MAX_TAG:
        return read_json(data)
    try:
        return _BinaryReader(data).value()
    except RecursionError as error:
        raise ValueError("lists and dicts are nested too deep") from error
    except struct.error as error:
        raise ValueError(f"a list or dict is truncated: {error}") from error


class _BinaryReader:
    """Reads packed values in sequence from the start of the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self) -> Any:
        tag = self._unpack_one("B")
        if tag not in _READER_OF_TAG:
            raise ValueError(f"the tag {tag} is not known")
        return _READER_OF_TAG[tag](self)

    def text(self) -> str:
        return self._take_bytes(self._unpack_one("I")).decode()

    def json(self) -> Any:
        return read_json(self._take_bytes(self._unpack_one("I")))

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self._unpack_one("I"))]

    def numbers(self, kind: str) -> list[Any]:
        count = self._unpack_one("I")
        if count * struct.calcsize(kind) > len(self._data):
            raise ValueError("a list is truncated")
        return list(self._unpack(f"{count}{kind}"))

    def mapping(self) -> dict[str, Any]:
        return {self.text(): self.value() for _ in range(self._unpack_one("I"))}

    def records(self) -> list[dict[str, Any]]:
        count, width = self._unpack("II")
        names = [self.text() for _ in range(width)]
        if width == 0 or count > len(self._data):
            raise ValueError("a list of records is damaged")
        return [{name: self.value() for name in names} for _ in range(count)]

    def read_one(self, kind: str) -> Any:
        return self._unpack_one(kind)

    def _unpack_one(self, kind: str) -> Any:
        return self._unpack(kind)[0]

    def _unpack(self, kinds: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{kinds}", self._data, self._at)
        self._at += struct.calcsize(f"<{kinds}")
        return values

    def _take_bytes(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count]
        if len(data) != count:
            raise ValueError("a text is truncated")
        self._at += count
        return data


_READER_OF_TAG: dict[int, Callable[[_BinaryReader], Any]] = {
    0: _BinaryReader.json,
    1: _BinaryReader.texts,
    2: lambda reader: reader.numbers("q"),
    3: lambda reader: reader.numbers("d"),
    4: lambda reader: reader.numbers("?"),
    5: _BinaryReader.mapping,
    6: _BinaryReader.records,
    7: _BinaryReader.text,
    8: lambda reader: reader.read_one("q"),
    9: lambda reader: reader.read_one("d"),
    10: lambda reader: reader.read_one("?"),
    11: lambda _: None,
    # Tags of values in records.
    0x10: lambda _: None,
    0x11: _BinaryReader.text,
    0x12: lambda reader: reader.read_one("q"),
    0x13: lambda reader: reader.read_one("d"),
    0x14: lambda reader: reader.read_one("?"),
}


LeafDecoder = Callable[[bytes], Any]

#: Field -> the number of its leaf, or the numbers of the leaves of a list. Names of nested fields are joined with dots.
LeafTree = Mapping[str, "int | Sequence[int]"]

_NUMPY_DTYPES = ("<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "?")
_TORCH_DTYPES = {
    **dict.fromkeys((0, 1), "<f4"), **dict.fromkeys((2, 3), "<f8"), **dict.fromkeys((4, 5), "<c8"),
    **dict.fromkeys((6, 7), "<c16"), **dict.fromkeys((8, 9), "<f2"), 11: "u1", 12: "i1",
    **dict.fromkeys((13, 14), "<i2"), **dict.fromkeys((15, 16), "<i4"), **dict.fromkeys((17, 18), "<i8"),
    19: "?", 20: "<u2",
}  # fmt: skip


def is_media_format(encoding: str) -> bool:
    """Whether the values of a leaf are files, or are converted to files."""
    return encoding.partition(":")[0] not in {"str", "text", "bool", "int", "float", "json"}


def leaf_decoder(encoding: str, index: str) -> LeafDecoder:
    """The decoder of a leaf. Raises DatasetError WDS234 for pickles and for unknown encodings."""
    kind, _, rest = encoding.partition(":")
    if kind in ("pickle", "graph"):
        raise _unsupported_error(f"a value is stored as {encoding!r}, and reading it could run code", index)
    if kind in ("file", "image", "video", "audio", "nifti", "mesh"):
        return (lambda data: {"bytes": data, "path": f"x.{rest}"}) if rest else bytes
    if kind in ("no_header_numpy", "no_header_tensor") and rest.isdigit():
        dtype = _dtype(_NUMPY_DTYPES if kind == "no_header_numpy" else _TORCH_DTYPES, int(rest))
        return lambda data: _npy_file(np.frombuffer(data, dtype))
    if encoding not in _LEAF_DECODERS:
        raise _unsupported_error(f"a value is stored as {encoding!r}, which is not known", index)
    return _LEAF_DECODERS[encoding]


def _unsupported_error(what: str, index: str) -> DatasetError:
    return DatasetError(
        what, hint="pass `-O drop=FIELD` to skip the field", where=path_for_message(index), code="WDS234"
    )


def _dtype(table: Any, number: int) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(table[number])
    except LookupError:
        raise ValueError(f"an array has the unknown type {number}") from None
    return found


def _npy_file(array: NDArray[Any]) -> dict[str, Any]:
    return {"bytes": encode_npy(array), "path": "x.npy"}


def _decode_numpy(data: bytes) -> dict[str, Any]:
    number, count = struct.unpack_from("<2I", data)
    shape = struct.unpack_from(f"<{count}I", data, 8)
    return _npy_file(np.frombuffer(data, _dtype(_NUMPY_DTYPES, number), offset=8 + 4 * count).reshape(shape))


def _decode_tensor(data: bytes) -> dict[str, Any]:
    """Decode a tensor: like an array, but type, number of dimensions and shape are big-endian."""
    number, count = struct.unpack_from(">2I", data)
    shape = struct.unpack_from(f">{count}I", data, 8)
    return _npy_file(np.frombuffer(data, _dtype(_TORCH_DTYPES, number), offset=8 + 4 * count).reshape(shape))


_LEAF_DECODERS: dict[str, LeafDecoder] = {
    "str": bytes.decode,
    "text": bytes.decode,
    "bool": lambda data: data[0] != 0,
    "int": lambda data: struct.unpack("<q", data)[0],
    "float": lambda data: struct.unpack("<d", data)[0],
    "json": parse_json_field,
    "bytes": bytes,
    "file": bytes,
    "jpeg": lambda data: {"bytes": data, "path": "x.jpg"},
    "jpeg_array": decode_jpeg_list,
    "pil": lambda data: {"bytes": raw_image_to_png(data), "path": "x.png"},
    "pdf": lambda data: {"bytes": data, "path": "x.pdf"},
    "tiff": lambda data: {"bytes": data, "path": "x.tif"},
    "tifffile": lambda data: {"bytes": data, "path": "x.tif"},
    "numpy": _decode_numpy,
    "tensor": _decode_tensor,
}


def parse_leaf_tree(spec: str, leaves: int) -> LeafTree:
    """Map fields to leaves, from the `data_spec` of an index. Raises ValueError if it does not have `leaves` leaves.

    Keys of nested dicts are joined with dots; a list of leaves becomes a list. If a row is a list, its fields are named
    by their numbers; if it is a single value, the field is `value`.
    """
    described = read_json(spec)
    root = described[1] if isinstance(described, list) and len(described) == 2 else described
    fields: dict[str, int | Sequence[int]] = {}
    try:
        count = _number_leaves(root, "", fields, 0)
    except RecursionError as error:
        raise ValueError("the shape of a row is nested too deep") from error
    if count != leaves:
        raise ValueError(f"the shape of a row describes {count} values, but {leaves} are stored")
    return fields


def _number_leaves(node: Any, name: str, fields: dict[str, int | Sequence[int]], first: int) -> int:
    """Add the leaves below `node` to `fields`, numbered from `first`; returns the number of the next leaf."""
    kind, children = node.get("type"), node.get("children_spec") or []
    if kind is None:
        fields[name or "value"] = first
        return first + 1
    if kind.endswith("ict"):
        names = [str(each) for each in read_json(node["context"])]
    elif name and all(child.get("type") is None for child in children):
        fields[name] = range(first, first + len(children))
        return first + len(children)
    else:
        names = [str(i) for i in range(len(children))]
    for child_name, child in zip(names, children, strict=True):
        first = _number_leaves(child, f"{name}.{child_name}" if name else child_name, fields, first)
    return first


_DESCRIBED_ROWS = 4  # rows that are read to describe the source

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_FRAMED_MAGIC = b"LDFZ01\0\0"  # items in zstd frames: header, offsets, frame table
_ARROW_MAGIC = b"LDARW01\0"  # at the end of a chunk with Arrow rows
_FILE_HEADER = struct.Struct("<8sHHIII")  # magic, version, flags, items, items per frame, frames
_FRAME_HEADER = struct.Struct("<IIQII")  # first item, items, offset, bytes, decompressed bytes


class LitDataImporter:
    """Reads one dataset, or a folder with one dataset per split, whose names are the beginnings of the keys.

    Options: `-O drop=a,b` leaves fields out, `key=FIELD` holds the keys, `text=FIELD` becomes the part `txt`.
    """

    name = "litdata"
    about = "a folder of LitData chunks, plain or compressed with zstd"

    def recognise(self, path: str) -> FormatMatch | None:
        return match_indexed_folders(path, _is_index, "LitData chunks")

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ("key", "text", "drop"))
        folders = find_indexed_folders(path, _is_index) or [IndexedFolder(path)]
        check_splits(path, folders)
        dropped = given.parse_list_option(options, "drop")
        shards: list[IndexedShardFile] = []
        is_media: dict[str, bool] = {}
        for folder in folders:
            own_shards, own_fields = _read_index(folder, dropped)
            shards += own_shards
            is_media |= own_fields
        rows = IndexedShardRows([folder.index_file for folder in folders], shards)
        splits = [folder.split for folder in folders if folder.split]
        if KEY_COLUMN in is_media and all(_is_exported(folder.index_file) for folder in folders):
            return make_row_source(rows, exported_row_mapping(self.name, options), splits)
        return make_table_source(
            rows,
            RowMapping.from_options(options, media=[name for name in is_media if is_media[name]], key=":row"),
            lambda: [row.values for row in islice(rows.rows(0), _DESCRIBED_ROWS)],
            fields=list(is_media),
            more_uses=lambda: [FieldUse(name, "", "dropped by `-O drop`") for name in dropped],
            splits=splits,
            has_file_references=False,
        )


IMPORTER = LitDataImporter()


def _is_exported(index: str) -> bool:
    return read_json_object(index).get("written_by") == "wdsctl"


def _is_index(head: bytes) -> bool:
    return b'"chunks"' in head and b'"chunk_size"' in head


def _read_index(folder: IndexedFolder, dropped: Sequence[str]) -> tuple[list[IndexedShardFile], dict[str, bool]]:
    """The chunks of a folder, and its fields with whether they are media."""
    index = folder.index_file
    content = read_json_object(index)
    chunks, config = content.get("chunks"), content.get("config")
    if not isinstance(chunks, list) or not isinstance(config, dict) or not chunks:
        raise damaged_file_error("it lists no chunks", index)
    _check(config, index)
    forms = [str(form) for form in config.get("data_format") or ()]
    try:
        tree = parse_leaf_tree(str(config.get("data_spec")), len(forms))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged_file_error(f"the shape of a row cannot be read: {error}", index) from error
    tree = {name: numbers for name, numbers in tree.items() if name not in dropped}
    used = {number for numbers in tree.values() for number in _leaf_numbers(numbers)}
    decoders = [leaf_decoder(form, index) if i in used else None for i, form in enumerate(forms)]
    unpack = _item_decompressor(config)
    decode = partial(_row_values, tree, decoders, unpack)
    if content.get("written_by") == "wdsctl" and KEY_COLUMN in tree:
        decode = partial(_exported_parts, tree, forms, unpack)
    shards = [_make_shard(folder.path, chunk, index, decode)._replace(split=folder.split) for chunk in chunks]
    return shards, {
        name: any(is_media_format(forms[i]) for i in _leaf_numbers(numbers)) for name, numbers in tree.items()
    }


def _leaf_numbers(numbers: int | Sequence[int]) -> Sequence[int]:
    return (numbers,) if isinstance(numbers, int) else numbers


def _check(config: Mapping[str, Any], index: str) -> None:
    loader = str(config.get("item_loader") or "PyTreeLoader")
    if config.get("encryption") or loader != "PyTreeLoader":
        what = (
            "the chunks are encrypted"
            if config.get("encryption")
            else f"the chunks are written for the item loader {escape_unprintable(loader)}"
        )
        raise DatasetError(
            f"{what}, and wdsctl cannot read them",
            hint="write the chunks again with litdata, unencrypted and for its default loader; read Parquet files "
            "with `--from parquet`",
            where=path_for_message(index),
            code="WDS234",
        )
    compression = str(config.get("compression") or "zstd")
    if compression.partition(":")[0] != "zstd":
        raise DatasetError(
            f"unknown compression {compression!r}",
            hint="write the chunks again without compression or with zstd",
            where=path_for_message(index),
            code="WDS234",
        )


def _item_decompressor(config: Mapping[str, Any]) -> Callable[[bytes], bytes]:
    """The function that decompresses an item, for chunks whose items are compressed one by one."""
    if config.get("compression") and config.get("compression_level") == "sample":
        return lambda data: decompress_zstd(data, "an item")
    return bytes


def _make_shard(
    folder: str, chunk: Any, index: str, decode: Callable[[OffsetShard, int], Mapping[str, Any]]
) -> IndexedShardFile:
    try:
        file, samples, size = str(chunk["filename"]), int(chunk["chunk_size"]), int(chunk["chunk_bytes"])
    except (LookupError, TypeError, ValueError) as error:
        raise damaged_file_error(f"a chunk's entry is incomplete ({error})", index) from error
    path = resolve_reference(folder, file, path_for_message(index))
    return IndexedShardFile(path, samples, partial(_open_chunk, path, samples, size), decode)


def _open_chunk(path: str, samples: int, size: int) -> OffsetShard:
    data = map_file(path)
    if data[:4] == _ZSTD_MAGIC:
        return OffsetShard(decompress_zstd(data[:], path), path, samples)
    if len(data) < size:
        raise _broken_chunk_error(f"it has {len(data):,} bytes, but its index says {size:,}", path)
    if data[-8:] == _ARROW_MAGIC:
        raise DatasetError(
            "the chunk stores its rows as Arrow, which wdsctl cannot read",
            hint="write the chunk again from rows with an image or bytes, or convert the original data",
            where=path_for_message(path),
            code="WDS234",
        )
    return OffsetShard(_join_frames(data[:], path) if data[:8] == _FRAMED_MAGIC else data, path, samples)


def _join_frames(data: bytes, path: str) -> bytes:
    """Decompress a chunk of frames to a plain chunk: a table of offsets, then the items."""
    try:
        _, _, _, items, _, frames = _FILE_HEADER.unpack_from(data)
        offsets = struct.unpack_from(f"<{items + 1}I", data, _FILE_HEADER.size)
        table = _FILE_HEADER.size + 4 * (items + 1)
        pieces = []
        for i in range(frames):
            _, _, at, packed, size = _FRAME_HEADER.unpack_from(data, table + i * _FRAME_HEADER.size)
            if size > MAX_UNSIZED_BYTES:
                raise _broken_chunk_error(f"a frame would have {size:,} bytes", path)
            pieces.append(decompress_zstd(data[at : at + packed], path, size))
    except struct.error as error:
        raise _broken_chunk_error("its table of frames is truncated", path) from error
    head = 4 * (items + 2)
    return b"".join((struct.pack(f"<{items + 2}I", items, *(head + offset for offset in offsets)), *pieces))


def _broken_chunk_error(what: str, path: str) -> DatasetError:
    return DatasetError(what, hint="copy the chunk again from its origin", where=path_for_message(path), code="WDS233")


def _row_values(
    tree: LeafTree,
    decoders: Sequence[LeafDecoder | None],
    unpack: Callable[[bytes], bytes],
    shard: OffsetShard,
    row: int,
) -> dict[str, Any]:
    data = unpack(shard.sample(row))
    fields = split_fields(data, [None] * len(decoders), f"{path_for_message(shard.path)}, sample {row:,}")
    leaves = [decode(field) if decode else None for decode, field in zip(decoders, fields, strict=True)]
    return {
        name: leaves[numbers] if isinstance(numbers, int) else [leaves[i] for i in numbers]
        for name, numbers in tree.items()
    }


def _exported_parts(
    tree: LeafTree, forms: Sequence[str], unpack: Callable[[bytes], bytes], shard: OffsetShard, row: int
) -> dict[str, Any]:
    """The parts of an exported sample, byte for byte."""
    data = unpack(shard.sample(row))
    leaves = split_fields(data, [None] * len(forms), f"{path_for_message(shard.path)}, sample {row:,}")
    fields: dict[str, Any] = {}
    for name, numbers in tree.items():
        (number,) = _leaf_numbers(numbers)  # a value per field, not a list
        leaf, form = leaves[number], forms[number]
        fields[name] = repr(_LEAF_DECODERS[form](leaf)).encode() if form in ("int", "float") else leaf
    fields[KEY_COLUMN] = fields[KEY_COLUMN].decode()
    if PARTS_COLUMN not in fields:
        return fields
    kept = read_json(fields.pop(PARTS_COLUMN))
    return {name: value for name, value in fields.items() if name == KEY_COLUMN or name in kept}
