"""Write MDS for Mosaic Streaming: shards and an index.json, with a column `__key__` and one per part.

Columns have the encodings that Streaming decodes: jpeg, png, str, json, bytes. A part that some samples of a shard lack
is empty there, and a column `__parts__` lists the parts of each sample.

Source: https://docs.mosaicml.com/projects/streaming (dataset format, MDS encodings).
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.convert.exporters.spool import SampleSpool, unstorable_part_error
from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.errors import DatasetError, translate_os_errors
from wdsctl.core.files import fsync_path, write_text
from wdsctl.core.importers.common.files import TEXT_PARTS, part_extension
from wdsctl.core.importers.common.samples import FILES_COLUMN
from wdsctl.core.importers.common.values import check_format_options, parse_list_option
from wdsctl.core.importers.protocol import Options, Part
from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE, KEY_COLUMN, PARTS_COLUMN
from wdsctl.core.shards.in_place.kinds import INDEX_FILE

_MAX_SHARD_BYTES = (1 << 32) - 1  # offsets have 32 bits
_IMAGE_ENCODINGS = ("jpeg", "png")  # encodings with the same names as the formats in `FORMAT_BY_EXTENSION`


class MdsExporter:
    """Option: `-O binary=txt` stores these parts as bytes, for texts that are not UTF-8."""

    name = "mds"
    about = "MDS shards and their index, for Mosaic Streaming"
    suffix = ".mds"
    template = DEFAULT_TEMPLATE

    def check(self, options: Options) -> None:
        check_format_options(self.name, options, ("binary",))

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:
        with SampleSpool(path) as spool:
            spool.fill(samples, (KEY_COLUMN, FILES_COLUMN, PARTS_COLUMN), _MAX_SHARD_BYTES)
            columns = _columns(spool, parse_list_option(options, "binary"))
            config = _config(columns)
            size = _write_shard(path, spool, columns, config)
            config |= {
                "raw_data": {"basename": os.path.basename(path), "bytes": size, "hashes": {}},
                "samples": spool.samples,
                "zip_data": None,
            }
            return WrittenUnit(os.path.basename(path), spool.samples, size, json.dumps(config, sort_keys=True))

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:  # noqa: ARG002 - of the protocol
        """Write index.json from the facts of the units."""
        shards = []
        for unit in units:
            facts: dict[str, Any] = read_json(unit.facts)
            facts["raw_data"]["basename"] = unit.name
            shards.append(facts)
        write_text(os.path.join(folder, INDEX_FILE), json.dumps({"shards": shards, "version": 2}, sort_keys=True))


EXPORTER = MdsExporter()


def _columns(spool: SampleSpool, binary: Sequence[str]) -> dict[str, str]:
    """Column -> MDS encoding, sorted by name."""
    columns = {KEY_COLUMN: "str"}
    for name, count in spool.counts.items():
        encoding = "bytes" if name in binary else _encoding(name)
        is_in_all = count == spool.samples
        columns[name] = encoding if is_in_all or encoding == "str" else "bytes"  # empty is not valid JPEG or JSON
    if any(count < spool.samples for count in spool.counts.values()):
        columns[PARTS_COLUMN] = "json"
    return dict(sorted(columns.items()))


def _encoding(part: str) -> str:
    extension = part_extension(part)
    image = FORMAT_BY_EXTENSION.get(extension)
    if image and image.name in _IMAGE_ENCODINGS:
        return image.name
    return "json" if extension == "json" else "str" if extension in TEXT_PARTS else "bytes"


def _config(columns: Mapping[str, str]) -> dict[str, Any]:
    return {
        "column_encodings": list(columns.values()),
        "column_names": list(columns),
        "column_sizes": [None] * len(columns),
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": 2,
    }


def _write_shard(path: str, spool: SampleSpool, columns: Mapping[str, str], config: Mapping[str, Any]) -> int:
    """Write the shard; returns its size in bytes. Buffers the samples in a file, since the offsets precede them."""
    settings = json.dumps(config, sort_keys=True).encode()
    at = 4 * (spool.samples + 2) + len(settings)
    offsets = [at]
    with translate_os_errors(path), tempfile.TemporaryFile(dir=os.path.dirname(path) or ".") as body:
        for key, parts in spool.drain():
            at += body.write(_encode_sample(key, parts, columns))
            if at > _MAX_SHARD_BYTES:
                raise DatasetError(
                    "the shard would exceed 4 GiB, the limit of its 32-bit offsets",
                    hint="write smaller shards: `--shard-size 1GiB`",
                    where=f"sample {key!r}",
                    code="WDS237",
                )
            offsets.append(at)
        with open(path, "xb") as file:
            file.write(struct.pack(f"<{len(offsets) + 1}I", spool.samples, *offsets))
            file.write(settings)
            body.seek(0)
            shutil.copyfileobj(body, file, 1 << 20)
        fsync_path(path)
    return at


def _encode_sample(key: str, parts: Mapping[str, bytes], columns: Mapping[str, str]) -> bytes:
    fields = []
    for name, encoding in columns.items():
        if name == KEY_COLUMN:
            fields.append(key.encode("utf-8", "surrogateescape"))
        elif name == PARTS_COLUMN:
            fields.append(json.dumps(sorted(parts)).encode())
        else:
            fields.append(_check_value(key, name, parts.get(name, b""), encoding))
    return b"".join((struct.pack(f"<{len(fields)}I", *map(len, fields)), *fields))


def _check_value(key: str, name: str, data: bytes, encoding: str) -> bytes:
    if encoding in ("str", "json"):
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise unstorable_part_error(
                key, name, "is not UTF-8", f"pass `-O {quote_shell_word(f'binary={name}')}` to store the part as bytes"
            ) from error
    return data
