"""MDS, the shards of Mosaic Streaming: index.json and `shard.NNNNN.mds` files, plain or compressed.

A shard is a table of offsets, the writer's settings as JSON, and samples; a sample is the sizes of its fields of open
size, and its fields. Columns of images and bytes become parts, arrays `.npy`, the others one part `json`. Shards with a
column `__key__`, as `wdsctl convert --to mds` writes them, become the samples that they were.

Source: https://docs.mosaicml.com/projects/streaming (dataset format, MDS encodings).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.inflate import inflated
from wdsctl.core.convert.rows.looking import head_of
from wdsctl.core.convert.rows.mds_encodings import Decode, decoder, is_media
from wdsctl.core.convert.rows.offset_shard import OffsetShard
from wdsctl.core.convert.rows.references import inside
from wdsctl.core.convert.rows.samples import KEY, Shape, kept_shape
from wdsctl.core.convert.rows.shard_rows import Shard, ShardRows, plain_shard
from wdsctl.core.convert.rows.source import row_source
from wdsctl.core.convert.source import Options, Recognised, Source
from wdsctl.core.errors import DatasetError
from wdsctl.core.json_text import read_json
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.regular_file import regular

#: In shards that were samples: which parts a sample has, where not all have all.
PARTS = "__parts__"

INDEX = "index.json"


class Mds:
    """`-O drop=a,b` leaves columns out, `key=FIELD` takes keys from one."""

    name = "mds"
    about = "MDS shards of Mosaic Streaming, plain or compressed"

    def recognise(self, path: str) -> Recognised | None:
        head = head_of_index(path)
        if b'"shards"' in head and (b'"mds"' in head or b'.mds"' in head):
            return Recognised(0.95, "index.json lists MDS shards")
        return None

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, ("key", "text", "drop"))
        index = os.path.join(path, INDEX)
        shards = read_index(index).get("shards")
        if not isinstance(shards, list) or not shards or not all(isinstance(shard, dict) for shard in shards):
            raise damaged_index("it lists no shards", index)
        columns = dict.fromkeys(name for shard in shards for name in shard.get("column_names") or ())
        dropped = given.names(options, "drop")
        rows = ShardRows(index, [_shard(path, shard, index, dropped) for shard in shards])
        if KEY in columns:
            return row_source(rows, kept_shape(self.name, options))
        encodings: dict[str, str] = {}
        for shard in shards:
            encodings |= dict(zip(shard["column_names"], shard["column_encodings"], strict=False))
        media = [name for name, encoding in encodings.items() if is_media(encoding) and name not in dropped]
        return row_source(rows, Shape.of(options, media=media, key=":row"))


IMPORTER = Mds()


def head_of_index(path: str) -> bytes:
    """The beginning of a folder's index.json; empty where there is none."""
    return head_of(os.path.join(path, INDEX))


def read_index(index: str) -> dict[str, Any]:
    """index.json. Raises DatasetError WDS233 where it is no JSON object."""
    with translated(index, "read"), open(index, "rb") as file:
        data = file.read()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged_index(f"it is no JSON: {error}", index) from error
    if not isinstance(value, dict):
        raise damaged_index("it is no JSON object", index)
    return value


def damaged_index(what: str, index: str) -> DatasetError:
    return DatasetError(what, hint="copy the dataset again from its origin", where=named(index), code="WDS233")


def _shard(folder: str, said: Mapping[str, Any], index: str, dropped: Sequence[str]) -> Shard:
    """Raises DatasetError: WDS233 a broken index, WDS234 an encoding that needs code, WDS230 a file outside."""
    try:
        names, encodings = list(said["column_names"]), list(said["column_encodings"])
        sizes = list(said["column_sizes"])
        samples, raw, packed = int(said["samples"]), said["raw_data"], said.get("zip_data")
        raw_name, raw_size = str(raw["basename"]), int(raw["bytes"])
        file = str(packed["basename"]) if packed else raw_name
        form, compression = str(said["format"]), str(said.get("compression") or "")
    except (LookupError, TypeError, ValueError) as error:
        raise damaged_index(f"a shard is described in part only ({error})", index) from error
    if form != "mds" or not len(names) == len(encodings) == len(sizes):
        raise damaged_index(f"a shard is of form {form!r}, or its columns do not fit", index)
    columns = zip(names, encodings, strict=True)
    decoders = [None if name in dropped else decoder(name, str(encoding), index) for name, encoding in columns]
    plain = inside(folder, raw_name, named(index))
    path = inside(folder, file, named(index))
    if packed and not os.path.exists(path) and os.path.exists(plain):
        path = plain
    if path == plain or not compression:
        opening = partial(_plain, path, samples, raw_size)
    else:
        opening = partial(_unpacked, path, samples, raw_size, compression)
    if KEY in names:
        return Shard(path, samples, opening, partial(_kept, names, sizes))
    return Shard(path, samples, opening, partial(_values, names, sizes, decoders))


def _plain(path: str, samples: int, size: int) -> OffsetShard:
    shard = plain_shard(path, samples)
    found = os.path.getsize(path)
    if found != size:
        raise shard.damaged(f"it has {found:,} bytes, and its index says {size:,}")
    return shard


def _unpacked(path: str, samples: int, size: int, compression: str) -> OffsetShard:
    """A shard that is compressed: all of it in memory, as its readers have it."""
    with translated(path, "read"), open(path, "rb", opener=regular) as file:
        data = file.read()
    return OffsetShard(inflated(data, compression, size, path), path, samples)


def _values(
    names: Sequence[str], sizes: Sequence[int | None], decoders: Sequence[Decode | None], shard: OffsetShard, row: int
) -> dict[str, Any]:
    fields = zip(names, decoders, shard.fields(row, sizes), strict=True)
    return {name: decode(data) for name, decode, data in fields if decode is not None}


def _kept(names: Sequence[str], sizes: Sequence[int | None], shard: OffsetShard, row: int) -> dict[str, Any]:
    """The parts of a sample that was exported, byte for byte."""
    fields: dict[str, Any] = dict(zip(names, shard.fields(row, sizes), strict=True))
    fields[KEY] = fields[KEY].decode()
    if PARTS not in fields:
        return fields
    kept = read_json(fields.pop(PARTS))
    return {name: value for name, value in fields.items() if name == KEY or name in kept}
