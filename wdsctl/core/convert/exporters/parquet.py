"""To Parquet: a column `__key__`, and one a part. Texts and JSON are strings, images, sounds and films structs of bytes
and path as Hugging Face's datasets reads them, the rest is binary. A part that a sample lacks is null.

Source: https://parquet.apache.org/docs/file-format; https://huggingface.co/docs/datasets/image_dataset (Parquet).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wdsctl.core.convert.rows import arrow
from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.file_names import TEXTS, ending
from wdsctl.core.convert.rows.samples import FILES, KEY
from wdsctl.core.convert.rows.spool import Spool, refused
from wdsctl.core.convert.source import Options, Part
from wdsctl.core.convert.target import Unit
from wdsctl.core.files import sync
from wdsctl.core.os_errors import translated

_GROUP_BYTES = 64 << 20  # of a row group, about
_LONGEST = (1 << 31) - 1  # bytes of one value
_FEATURES = {
    **dict.fromkeys(("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"), "Image"),
    **dict.fromkeys(("wav", "mp3", "flac", "ogg", "opus", "m4a"), "Audio"),
    **dict.fromkeys(("mp4", "mkv", "webm", "avi", "mov"), "Video"),
}


class Parquet:
    """`-O binary=txt,json` stores these parts as bytes, for texts that are not UTF-8; `row-group=N` bounds its rows."""

    name = "parquet"
    about = "Parquet, a column a part (needs pyarrow)"
    suffix = ".parquet"

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> Unit:
        given.checked(self.name, options, ("binary", "row-group"))
        library = arrow.loaded("pyarrow.parquet", "Parquet")
        rows = given.whole_number(self.name, options, "row-group", 10_000)
        with Spool(path) as spool:
            spool.fill(samples, (KEY, FILES), _LONGEST)
            columns = {name: _kind(name, given.names(options, "binary")) for name in sorted(spool.counts)}
            media = [name for name, kind in columns.items() if kind != "text"]
            compression = dict.fromkeys((KEY, *columns), "zstd")
            compression |= {leaf: "none" for name in media for leaf in _leaves(name, columns[name])}
            settings = {"compression": compression, "use_dictionary": False, "write_statistics": [KEY]}
            with translated(path), library.ParquetWriter(path, _schema(columns), **settings) as writer:
                for group in _groups(spool.drain(), rows):
                    writer.write_table(_table(group, columns), row_group_size=len(group))
            with translated(path):
                sync(path)
            return Unit(os.path.basename(path), spool.samples, os.path.getsize(path))

    def finish(self, folder: str, units: Iterable[Unit], options: Options) -> None:
        """There is nothing beside the units."""


EXPORTER = Parquet()


def _kind(part: str, binary: Sequence[str]) -> str:
    """`text`, `bytes`, or the feature that Hugging Face has for it. By the name alone: all units agree."""
    if part in binary:
        return "bytes"
    return "text" if ending(part) in TEXTS or ending(part) == "json" else _FEATURES.get(ending(part), "bytes")


def _leaves(name: str, kind: str) -> tuple[str, ...]:
    return (name,) if kind == "bytes" else (f"{name}.bytes", f"{name}.path")


def _schema(columns: Mapping[str, str]) -> Any:
    library = arrow.loaded("pyarrow", "Parquet")
    file = library.struct([("bytes", library.binary()), ("path", library.string())])
    types = {"text": library.string(), "bytes": library.binary()}
    fields = [(KEY, library.string()), *((name, types.get(kind, file)) for name, kind in columns.items())]
    features: dict[str, Any] = {KEY: {"dtype": "string", "_type": "Value"}}
    for name, kind in columns.items():
        dtype = {"text": "string", "bytes": "binary"}.get(kind)
        features[name] = {"dtype": dtype, "_type": "Value"} if dtype else {"_type": kind}
    return library.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _groups(samples: Iterable[tuple[str, dict[str, bytes]]], rows: int) -> Iterator[list[tuple[str, dict[str, bytes]]]]:
    """Row groups: so many rows, or less where they are large."""
    group: list[tuple[str, dict[str, bytes]]] = []
    size = 0
    for key, parts in samples:
        group.append((key, parts))
        size += sum(map(len, parts.values()))
        if len(group) == rows or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _table(group: Sequence[tuple[str, Mapping[str, bytes]]], columns: Mapping[str, str]) -> Any:
    library = arrow.loaded("pyarrow", "Parquet")
    schema = _schema(columns)
    arrays = [library.array([key for key, _ in group], schema.field(0).type)]
    for i, (name, kind) in enumerate(columns.items(), 1):
        values = [None if name not in parts else _value(key, name, parts[name], kind) for key, parts in group]
        arrays.append(library.array(values, schema.field(i).type))
    return library.Table.from_arrays(arrays, schema=schema)


def _value(key: str, name: str, data: bytes, kind: str) -> Any:
    if kind == "bytes":
        return data
    if kind != "text":
        return {"bytes": data, "path": f"{key.rpartition('/')[2]}.{name}"}
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise refused(key, name, "is not UTF-8", f"`-O binary={name}` stores it as bytes") from error
