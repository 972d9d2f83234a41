"""LitData folders: index.json and `chunk-*.bin` files, plain or compressed with zstd.

A chunk is a table of offsets and items; an item is the sizes of its leaves, and the leaves. Leaves that are images,
arrays or bytes become parts, the others one part `json`.

Source: https://github.com/Lightning-AI/litData (README), and what its writer writes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from wdsctl.core.convert.importers.mds import INDEX, damaged_index, head_of_index, read_index
from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.inflate import LARGEST, inflated_whole
from wdsctl.core.convert.rows.litdata_formats import Decode, Tree, decoder, is_media, tree_of
from wdsctl.core.convert.rows.offset_shard import OffsetShard, cut, mapped
from wdsctl.core.convert.rows.references import inside
from wdsctl.core.convert.rows.samples import Shape
from wdsctl.core.convert.rows.shard_rows import Shard, ShardRows
from wdsctl.core.convert.rows.source import row_source
from wdsctl.core.convert.source import Options, Recognised, Source
from wdsctl.core.errors import DatasetError
from wdsctl.core.printable import named, one_line

_ZSTD = b"\x28\xb5\x2f\xfd"
_FRAMED = b"LDFZ01\0\0"  # zstd by some items each; a head, logical offsets, a table of frames
_ARROW = b"LDARW01\0"  # at the end of a chunk whose rows are Arrow
_HEAD = struct.Struct("<8sHHIII")  # magic, version, flags, items, items a frame, frames
_FRAME = struct.Struct("<IIQII")  # first item, items, offset, bytes, bytes when unpacked


class LitData:
    """`-O drop=a,b` leaves fields out, `key=FIELD` takes keys from one."""

    name = "litdata"
    about = "a folder that LitData optimized: chunks, plain or in zstd"

    def recognise(self, path: str) -> Recognised | None:
        head = head_of_index(path)
        if b'"chunks"' in head and b'"chunk_size"' in head:
            return Recognised(0.95, "index.json lists LitData chunks")
        return None

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, ("key", "text", "drop"))
        index = os.path.join(path, INDEX)
        said = read_index(index)
        chunks, config = said.get("chunks"), said.get("config")
        if not isinstance(chunks, list) or not isinstance(config, dict) or not chunks:
            raise damaged_index("it lists no chunks", index)
        _check(config, index)
        forms = [str(form) for form in config.get("data_format") or ()]
        try:
            tree = tree_of(str(config.get("data_spec")), len(forms))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise damaged_index(f"the shape of a row cannot be read: {error}", index) from error
        dropped = given.names(options, "drop")
        tree = {name: places for name, places in tree.items() if name not in dropped}
        used = {place for places in tree.values() for place in _places(places)}
        decoders = [decoder(form, index) if i in used else None for i, form in enumerate(forms)]
        decode = partial(_values, tree, decoders, _unpacker(config))
        rows = ShardRows(index, [_shard(path, chunk, index, decode) for chunk in chunks])
        media = [name for name, places in tree.items() if any(is_media(forms[i]) for i in _places(places))]
        return row_source(rows, Shape.of(options, media=media, key=":row"))


IMPORTER = LitData()


def _places(places: int | Sequence[int]) -> Sequence[int]:
    return (places,) if isinstance(places, int) else places


def _check(config: Mapping[str, Any], index: str) -> None:
    loader = str(config.get("item_loader") or "PyTreeLoader")
    if config.get("encryption") or loader != "PyTreeLoader":
        what = "the chunks are encrypted" if config.get("encryption") else f"the chunks are for {one_line(loader)}"
        raise DatasetError(
            f"{what}, which wdsctl does not read",
            hint="Parquet files are read by `--from parquet`; others can be written again by litdata, plainly",
            where=named(index),
            code="WDS234",
        )
    compression = str(config.get("compression") or "zstd")
    if compression.partition(":")[0] != "zstd":
        raise DatasetError(
            f"the compression {compression!r} is not known",
            hint="wdsctl reads zstd",
            where=named(index),
            code="WDS234",
        )


def _unpacker(config: Mapping[str, Any]) -> Callable[[bytes], bytes]:
    """What is done to an item's bytes first: they may be compressed one by one."""
    if config.get("compression") and config.get("compression_level") == "sample":
        return lambda data: inflated_whole(data, "an item")
    return bytes


def _shard(folder: str, chunk: Any, index: str, decode: Callable[[OffsetShard, int], Mapping[str, Any]]) -> Shard:
    try:
        file, samples, size = str(chunk["filename"]), int(chunk["chunk_size"]), int(chunk["chunk_bytes"])
    except (LookupError, TypeError, ValueError) as error:
        raise damaged_index(f"a chunk is described in part only ({error})", index) from error
    path = inside(folder, file, named(index))
    return Shard(path, samples, partial(_opened, path, samples, size), decode)


def _opened(path: str, samples: int, size: int) -> OffsetShard:
    data = mapped(path)
    if data[:4] == _ZSTD:
        return OffsetShard(inflated_whole(data[:], path), path, samples)
    if len(data) < size:
        raise _broken(f"it has {len(data):,} bytes, and its index says {size:,}", path)
    if data[-8:] == _ARROW:
        raise DatasetError(
            "the chunk's rows are stored as Arrow, which wdsctl does not read",
            hint="write it again from rows with an image or bytes, or convert from its origin",
            where=named(path),
            code="WDS234",
        )
    return OffsetShard(_unframed(data[:], path) if data[:8] == _FRAMED else data, path, samples)


def _unframed(data: bytes, path: str) -> bytes:
    """A chunk of frames as it was before: a table of offsets, and the items."""
    try:
        _, _, _, items, _, frames = _HEAD.unpack_from(data)
        offsets = struct.unpack_from(f"<{items + 1}I", data, _HEAD.size)
        table = _HEAD.size + 4 * (items + 1)
        pieces = []
        for i in range(frames):
            _, _, at, packed, size = _FRAME.unpack_from(data, table + i * _FRAME.size)
            if size > LARGEST:
                raise _broken(f"a frame would have {size:,} bytes", path)
            pieces.append(inflated_whole(data[at : at + packed], path, size))
    except struct.error as error:
        raise _broken("its table of frames is cut short", path) from error
    head = 4 * (items + 2)
    return b"".join((struct.pack(f"<{items + 2}I", items, *(head + offset for offset in offsets)), *pieces))


def _broken(what: str, path: str) -> DatasetError:
    return DatasetError(what, hint="copy it again from its origin", where=named(path), code="WDS233")


def _values(
    tree: Tree, decoders: Sequence[Decode | None], unpack: Callable[[bytes], bytes], shard: OffsetShard, row: int
) -> dict[str, Any]:
    data = unpack(shard.sample(row))
    fields = cut(data, [None] * len(decoders), f"{named(shard.path)}, sample {row:,}")
    leaves = [decode(field) if decode else None for decode, field in zip(decoders, fields, strict=True)]
    return {
        name: leaves[places] if isinstance(places, int) else [leaves[i] for i in places]
        for name, places in tree.items()
    }
