"""Write Parquet with a column `__key__` and one per part.

Texts and JSON are strings; images, audio and videos are structs of bytes and path, as Hugging Face's datasets reads
them; other parts are binary. A part that a sample lacks is null.

Source: https://parquet.apache.org/docs/file-format; https://huggingface.co/docs/datasets/image_dataset (Parquet).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.convert.exporters.spool import SampleSpool, unstorable_part_error
from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.errors import translate_os_errors
from wdsctl.core.files import fsync_path
from wdsctl.core.importers.common import arrow
from wdsctl.core.importers.common.files import TEXT_PARTS, part_extension
from wdsctl.core.importers.common.samples import FILES_COLUMN
from wdsctl.core.importers.common.values import check_format_options, parse_integer_option, parse_list_option
from wdsctl.core.importers.protocol import Options, Part
from wdsctl.core.media.kinds import PartKind, part_kind
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE, KEY_COLUMN

_ROW_GROUP_BYTES = 64 << 20  # a row group ends when it reaches this size
_MAX_VALUE_BYTES = (1 << 31) - 1
_FEATURE_OF_KIND: dict[PartKind, str] = {"image": "Image", "audio": "Audio", "video": "Video"}


class ParquetExporter:
    """Options: `-O binary=txt,json` stores these parts as bytes, for texts that are not UTF-8; `row-group=N` limits the
    rows of a row group.
    """

    name = "parquet"
    about = "Parquet, one column for each part (needs pyarrow)"
    suffix = ".parquet"
    template = DEFAULT_TEMPLATE

    def check(self, options: Options) -> None:
        check_format_options(self.name, options, ("binary", "row-group"))
        parse_integer_option(self.name, options, "row-group", 10_000)

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:
        library = arrow.import_arrow_module("pyarrow.parquet", "Parquet")
        rows = parse_integer_option(self.name, options, "row-group", 10_000)
        with SampleSpool(path) as spool:
            spool.fill(samples, (KEY_COLUMN, FILES_COLUMN), _MAX_VALUE_BYTES)
            columns = {name: _kind(name, parse_list_option(options, "binary")) for name in sorted(spool.counts)}
            compression = dict.fromkeys((KEY_COLUMN, *columns), "zstd")
            for name, kind in columns.items():
                if kind != "text":
                    leaves = (name,) if kind == "bytes" else (f"{name}.bytes", f"{name}.path")
                    compression |= dict.fromkeys(leaves, "none")
            settings = {"compression": compression, "use_dictionary": False, "write_statistics": [KEY_COLUMN]}
            with translate_os_errors(path), library.ParquetWriter(path, _schema(columns), **settings) as writer:
                for group in _row_groups(spool.drain(), rows):
                    writer.write_table(_arrow_table(group, columns), row_group_size=len(group))
            with translate_os_errors(path):
                fsync_path(path)
            return WrittenUnit(os.path.basename(path), spool.samples, os.path.getsize(path))

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:
        """Do nothing: units share no files."""


EXPORTER = ParquetExporter()


def _kind(part: str, binary: Sequence[str]) -> str:
    """The kind of a part's column: `text`, `bytes`, or the name of a Hugging Face feature.

    Depends only on the part's name, so that all units have the same schema.
    """
    if part in binary:
        return "bytes"
    return (
        "text"
        if part_extension(part) in TEXT_PARTS or part_extension(part) == "json"
        else _FEATURE_OF_KIND.get(part_kind(part), "bytes")
    )


def _schema(columns: Mapping[str, str]) -> Any:
    library = arrow.import_arrow_module("pyarrow", "Parquet")
    file = library.struct([("bytes", library.binary()), ("path", library.string())])
    types = {"text": library.string(), "bytes": library.binary()}
    fields = [(KEY_COLUMN, library.string()), *((name, types.get(kind, file)) for name, kind in columns.items())]
    features: dict[str, Any] = {KEY_COLUMN: {"dtype": "string", "_type": "Value"}}
    for name, kind in columns.items():
        dtype = {"text": "string", "bytes": "binary"}.get(kind)
        features[name] = {"dtype": dtype, "_type": "Value"} if dtype else {"_type": kind}
    return library.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _row_groups(
    samples: Iterable[tuple[str, dict[str, bytes]]], rows: int
) -> Iterator[list[tuple[str, dict[str, bytes]]]]:
    """Group the samples by `rows`, or by fewer if a group reaches 64 MiB."""
    group: list[tuple[str, dict[str, bytes]]] = []
    size = 0
    for key, parts in samples:
        group.append((key, parts))
        size += sum(map(len, parts.values()))
        if len(group) == rows or size >= _ROW_GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _arrow_table(group: Sequence[tuple[str, Mapping[str, bytes]]], columns: Mapping[str, str]) -> Any:
    library = arrow.import_arrow_module("pyarrow", "Parquet")
    schema = _schema(columns)
    arrays = [library.array([key for key, _ in group], schema.field(0).type)]
    for i, (name, kind) in enumerate(columns.items(), 1):
        values = [None if name not in parts else _cell_value(key, name, parts[name], kind) for key, parts in group]
        arrays.append(library.array(values, schema.field(i).type))
    return library.Table.from_arrays(arrays, schema=schema)


def _cell_value(key: str, name: str, data: bytes, kind: str) -> Any:
    if kind == "bytes":
        return data
    if kind != "text":
        return {"bytes": data, "path": f"{key.rpartition('/')[2]}.{name}"}
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise unstorable_part_error(
            key, name, "is not UTF-8", f"pass `-O {quote_shell_word(f'binary={name}')}` to store the part as bytes"
        ) from error
