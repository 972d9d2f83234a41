"""LitData chunks: a table of offsets, then the items; an item is the sizes of its leaves, then the leaves.

What the leaves are is in index.json only, which `parse_index` reads.

Source: https://github.com/Lightning-AI/litData (README), and files that its writer produces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from wdsctl.core.json_text import read_json
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.samples.stored_values import RAW_IMAGE_EXTENSION, litdata_dtype, raw_extension
from wdsctl.core.shards.in_place.errors import damaged, unsupported
from wdsctl.core.shards.in_place.kinds import INDEX_FILE
from wdsctl.core.shards.in_place.ranges import field_ranges, read_offset_table
from wdsctl.core.shards.in_place.table_scan import BY_CONTENT, Column, scan_columns
from wdsctl.core.shards.readers import ReadBytes
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.text import escape_unprintable

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
FRAMED_MAGIC = b"LDFZ01\0\0"  # items in zstd frames: header, offsets, frame table
ARROW_MAGIC = b"LDARW01\0"  # at the end of a chunk with Arrow rows

#: Field -> the number of its leaf, or the numbers of the leaves of a list. Names of nested fields are joined with dots.
LeafTree = Mapping[str, "int | Sequence[int]"]

#: Format of a leaf -> the extension of its values, if they are ranges of bytes that the loader decodes.
_EXTENSIONS = {
    "str": "txt",
    "text": "txt",
    "bool": "bool",
    "int": "int64",
    "float": "float64",
    "json": "litjson",
    "bytes": BY_CONTENT,
    "file": BY_CONTENT,
    "jpeg": "jpg",
    "pil": RAW_IMAGE_EXTENSION,
    "pdf": "pdf",
    "tiff": "tif",
    "tifffile": "tif",
    "numpy": "litarray",
    "tensor": "littensor",
    "pickle": "pkl",  # the loader returns its bytes
}
LIST_FORMATS = ("jpeg_array",)
_FILE_KINDS = ("file", "image", "video", "audio", "nifti", "mesh")


def leaf_extension(encoding: str) -> str | None:
    """The extension of values of a leaf; None if its format is not known, or its values are lists."""
    kind, _, rest = encoding.partition(":")
    if kind in _FILE_KINDS:
        return rest.lower() if rest.isalnum() else BY_CONTENT if not rest else None
    if kind in ("no_header_numpy", "no_header_tensor") and rest.isdigit():
        try:
            return raw_extension(litdata_dtype(int(rest), is_tensor=kind == "no_header_tensor"), (-1,))
        except ValueError:
            return None
    return _EXTENSIONS.get(encoding)


class LitDataChunk(NamedTuple):
    """`size`: bytes of the chunk at least."""

    name: str
    samples: int
    size: int


class LitDataIndex(NamedTuple):
    """`formats`: of the leaves. `refusal`: why no item can be read; empty if items can. `is_compressed`: by zstd.

    `is_exported`: whether `wdsctl convert` wrote the items, whose fields are the parts of samples.
    """

    chunks: tuple[LitDataChunk, ...]
    formats: tuple[str, ...]
    tree: LeafTree
    refusal: str
    is_compressed: bool
    are_items_compressed: bool
    is_exported: bool


def parse_index(content: Any) -> LitDataIndex:
    """The content of index.json. Raises ValueError with a message about the index."""
    chunks, config = (content.get(name) for name in ("chunks", "config")) if isinstance(content, dict) else (None, None)
    if not isinstance(chunks, list) or not isinstance(config, dict) or not chunks:
        raise ValueError("it lists no chunks")
    refusal = _refusal(config)
    formats = [str(form) for form in config.get("data_format") or ()]
    tree: LeafTree = {}
    if not refusal:
        try:
            tree = parse_leaf_tree(str(config.get("data_spec")), len(formats))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"the shape of a row cannot be read: {error}") from error
    try:
        listed = tuple(
            LitDataChunk(str(chunk["filename"]), int(chunk["chunk_size"]), int(chunk["chunk_bytes"]))
            for chunk in chunks
        )
    except (LookupError, TypeError, ValueError, OverflowError) as error:  # of infinity
        raise ValueError(f"a chunk's entry is incomplete ({error})") from error
    is_compressed = bool(config.get("compression"))
    by_item = is_compressed and config.get("compression_level") == "sample"
    is_exported = content.get("written_by") == "wdsctl" and KEY_COLUMN in tree
    return LitDataIndex(listed, tuple(formats), tree, refusal, is_compressed, by_item, is_exported)


def _refusal(config: Mapping[str, Any]) -> str:
    loader = str(config.get("item_loader") or "PyTreeLoader")
    if config.get("encryption"):
        return "the chunks are encrypted"
    if loader != "PyTreeLoader":
        return f"the chunks are written for the item loader {escape_unprintable(loader)}"
    compression = str(config.get("compression") or "zstd")
    return "" if compression.partition(":")[0] == "zstd" else f"unknown compression {compression!r}"


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


@lru_cache(maxsize=4)
def _parse_index_file(data: bytes) -> LitDataIndex:
    return parse_index(read_json(data))


def scan_litdata(shard: str, read: ReadBytes, size: int, read_sibling: Callable[[str], bytes | None]) -> ShardScan:
    """Scan a chunk of `size` bytes. `read_sibling`: reads a file of the same folder; None if there is none.

    Raises ShardFormatError, and what the readers raise. Cost: as `scan_mds`.
    """
    name = shard.rpartition("/")[2]
    index = _read_index(read_sibling)
    chunk = next((each for each in index.chunks if each.name == name), None)
    if chunk is None:
        raise damaged(f"{INDEX_FILE} does not list the chunk")
    head, tail = read(0, min(8, size)), read(max(0, size - 8), min(8, size))
    if index.refusal or index.is_compressed or head[:4] == ZSTD_MAGIC or head == FRAMED_MAGIC:
        raise unsupported(index.refusal or "the chunks are compressed with zstd")
    if tail == ARROW_MAGIC:
        raise unsupported("the chunk stores its rows as Arrow")
    if size < chunk.size:
        raise damaged(f"it has {size:,} bytes, but its index says {chunk.size:,}")
    offsets = read_offset_table(read, size, chunk.samples)
    places, sizes = field_ranges(read, offsets, [None] * len(index.formats))
    columns = []
    for field, numbers in index.tree.items():
        for leaf_name, leaf in _leaves(field, numbers):
            encoding = index.formats[leaf]
            extension = leaf_extension(encoding)
            if extension is None:
                what = "lists of files" if encoding in LIST_FORMATS else "a format that is not known"
                raise unsupported(f"the field {leaf_name!r} is stored as {encoding!r}, {what}")
            if index.is_exported and encoding in ("int", "float"):
                raise unsupported(f"the field {leaf_name!r} is a number, which is text in the part of the sample")
            if leaf_name == KEY_COLUMN and not index.is_exported:
                raise unsupported(f"the field {KEY_COLUMN} is not from `wdsctl convert`")
            columns.append(Column(leaf_name, extension, places[leaf], sizes[leaf]))
    return scan_columns(shard, read, columns, len(offsets) - 1)


def _leaves(field: str, numbers: int | Sequence[int]) -> list[tuple[str, int]]:
    """(name, number) of the leaves of a field: those of a list are named by their position, too."""
    if isinstance(numbers, int):
        return [(field, numbers)]
    return [(f"{field}.{i}", number) for i, number in enumerate(numbers)]


def _read_index(read_sibling: Callable[[str], bytes | None]) -> LitDataIndex:
    data = read_sibling(INDEX_FILE)
    if data is None:
        raise damaged(f"there is no {INDEX_FILE} beside it, which says what its bytes are")
    try:
        return _parse_index_file(data)
    except ValueError as error:
        raise damaged(f"{INDEX_FILE} beside it cannot be read: {error}") from error
