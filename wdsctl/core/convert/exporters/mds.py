"""To MDS, for Mosaic Streaming: shards and an index.json. A column `__key__`, and one a part.

Columns have the encodings that Streaming decodes: jpeg, png, str, json, bytes. Parts that some samples of a shard lack
are empty there, and a column `__parts__` says which each one has.

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

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.file_names import TEXTS, ending
from wdsctl.core.convert.rows.samples import FILES, KEY
from wdsctl.core.convert.rows.spool import Spool, refused
from wdsctl.core.convert.source import Options, Part
from wdsctl.core.convert.target import Unit
from wdsctl.core.errors import DatasetError
from wdsctl.core.files import sync, write_text
from wdsctl.core.json_text import read_json
from wdsctl.core.os_errors import translated

INDEX = "index.json"
PARTS = "__parts__"

_LONGEST = (1 << 32) - 1  # bytes of a shard: offsets are 32 bits
_FIXED = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png", "json": "json"}


class Mds:
    """`-O binary=txt` stores these parts as bytes, for texts that are not UTF-8."""

    name = "mds"
    about = "MDS shards and their index, for Mosaic Streaming"
    suffix = ".mds"

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> Unit:
        given.checked(self.name, options, ("binary",))
        with Spool(path) as spool:
            spool.fill(samples, (KEY, FILES, PARTS), _LONGEST)
            columns = _columns(spool, given.names(options, "binary"))
            config = _config(columns)
            size = _write(path, spool, columns, config)
            config |= {
                "raw_data": {"basename": os.path.basename(path), "bytes": size, "hashes": {}},
                "samples": spool.samples,
                "zip_data": None,
            }
            return Unit(os.path.basename(path), spool.samples, size, json.dumps(config, sort_keys=True))

    def finish(self, folder: str, units: Iterable[Unit], options: Options) -> None:  # noqa: ARG002 - of the protocol
        """Write index.json, from what the units say of themselves."""
        shards = []
        for unit in units:
            facts: dict[str, Any] = read_json(unit.facts)
            facts["raw_data"]["basename"] = unit.name
            shards.append(facts)
        write_text(os.path.join(folder, INDEX), json.dumps({"shards": shards, "version": 2}, sort_keys=True))


EXPORTER = Mds()


def _columns(spool: Spool, binary: Sequence[str]) -> dict[str, str]:
    """Column -> encoding, sorted by name."""
    columns = {KEY: "str"}
    for name, count in spool.counts.items():
        encoding = "bytes" if name in binary else _encoding(name)
        is_in_all = count == spool.samples
        columns[name] = encoding if is_in_all or encoding == "str" else "bytes"  # nothing is no JPEG and no JSON
    if any(count < spool.samples for count in spool.counts.values()):
        columns[PARTS] = "json"
    return dict(sorted(columns.items()))


def _encoding(part: str) -> str:
    return _FIXED.get(ending(part), "str" if ending(part) in TEXTS else "bytes")


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


def _write(path: str, spool: Spool, columns: Mapping[str, str], config: Mapping[str, Any]) -> int:
    """Write the shard; its size. Samples go into a nameless file first, since the table of offsets is before them."""
    settings = json.dumps(config, sort_keys=True).encode()
    at = 4 * (spool.samples + 2) + len(settings)
    offsets = [at]
    with translated(path), tempfile.TemporaryFile(dir=os.path.dirname(path) or ".") as body:
        for key, parts in spool.drain():
            at += body.write(_encoded(key, parts, columns))
            if at > _LONGEST:
                raise DatasetError(
                    "the shard would have more than 4 GiB, and its offsets are 32 bits",
                    hint="`--shard-size 1GiB`",
                    where=f"sample {key!r}",
                    code="WDS237",
                )
            offsets.append(at)
        with open(path, "xb") as file:
            file.write(struct.pack(f"<{len(offsets) + 1}I", spool.samples, *offsets))
            file.write(settings)
            body.seek(0)
            shutil.copyfileobj(body, file, 1 << 20)
        sync(path)
    return at


def _encoded(key: str, parts: Mapping[str, bytes], columns: Mapping[str, str]) -> bytes:
    fields = []
    for name, encoding in columns.items():
        if name == KEY:
            fields.append(key.encode("utf-8", "surrogateescape"))
        elif name == PARTS:
            fields.append(json.dumps(sorted(parts)).encode())
        else:
            fields.append(_checked(key, name, parts.get(name, b""), encoding))
    return b"".join((struct.pack(f"<{len(fields)}I", *map(len, fields)), *fields))


def _checked(key: str, name: str, data: bytes, encoding: str) -> bytes:
    if encoding in ("str", "json"):
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise refused(key, name, "is not UTF-8", f"`-O binary={name}` stores it as bytes") from error
    return data
