"""Compiles the keyframe indexes of a dataset from the catalog into a mapped file, for seeking in videos.

The loader's processes open no SQLite. The first process that opens a dataset writes the indexes next to the offsets
file. A lookup is by sample id and part name. Ids are never reused, so no lookup returns the index of a video whose
shard was changed or removed.

Format, version 1: `WDSKEY1\\n`, then as in `wdsctl/core/offsets/mapped_arrays.py`. Facts: `digest` (of the digests of
all shards with media facts), `parts` (part names). Columns, by sample and part:

    samples  i8  videos      sample id
    parts    u4  videos      index into the part names
    starts   i8  videos + 1  first byte of each index in `data`, and the end of the last one
    data     u1              `KeyframeIndex.to_bytes()`, concatenated
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import DatasetLocation, remove_stale_generations
from wdsctl.core.files import write_atomically
from wdsctl.core.offsets.mapped_arrays import open_mapped_arrays, write_arrays

KEYFRAMES_MAGIC = b"WDSKEY1\n"

_DTYPES = {"samples": ("<i8",), "parts": ("<u4",), "starts": ("<i8",), "data": ("|u1",)}


class KeyframeFile(NamedTuple):
    """The keyframe indexes of a dataset. A lookup takes 5 us, whatever the number of videos."""

    parts: dict[str, int]
    samples: NDArray[np.int64]
    part_numbers: NDArray[np.uint32]
    starts: NDArray[np.int64]
    data: NDArray[np.uint8]

    def find(self, sample: int, part: str) -> bytes:
        """The index of a video, as `KeyframeIndex.to_bytes()`; empty if there is none."""
        number = self.parts.get(part)
        at = int(self.samples.searchsorted(sample)) if number is not None else len(self.samples)
        while at < len(self.samples) and self.samples[at] == sample:
            if self.part_numbers[at] == number:
                return self.data[self.starts[at] : self.starts[at + 1]].tobytes()
            at += 1
        return b""


class KeyframeRows(NamedTuple):
    """The keyframe indexes of a catalog, by sample and part; three numbers per video."""

    names: list[str]  # of the parts
    samples: array[int]  # ids, 64 bits
    parts: array[int]  # indexes into `names`, 32 bits
    sizes: array[int]  # bytes of each index, 64 bits
    data: Callable[[], Iterator[bytes]]  # the indexes themselves, one after the other


def open_keyframes(location: DatasetLocation, generation: int) -> KeyframeFile | None:
    """The keyframe indexes of a catalog, mapped from the compiled file. Writes the file if it is missing.

    None if the catalog has none: no `wdsctl index --media-index` ran, or there are no videos. Compiling reads the
    indexes of all videos, about 9 bytes per keyframe. Raises CatalogError WDS301, WDS302, WDS303.
    """
    with Catalog.open(location.catalog_path) as catalog:
        digests = catalog.rows("SELECT shard, mark FROM media_shard ORDER BY shard") if catalog.has_media_facts else []
        if not digests:
            return None
        hasher = blake2b(digest_size=16)
        for shard, mark in digests:
            hasher.update(b"%d %d " % (shard, len(mark)) + mark)
        digest = hasher.hexdigest()
        path = os.path.join(location.meta, f"keyframes-{generation}.bin")
        mapped = _open_file(path, digest)
        if mapped is not None:
            return mapped
        rows = _read_rows(catalog)
        if not len(rows.samples):
            return None
        # If the folder is not writable, only this process and its forks use the indexes.
        with suppress(OSError):
            _write(path, digest, rows)
            remove_stale_generations(location, "keyframes")
        found = _open_file(path, digest)
        return found or _file(rows.names, _columns(rows), np.frombuffer(b"".join(rows.data()), np.uint8))


def _read_rows(catalog: Catalog) -> KeyframeRows:
    parts = dict(catalog.rows("SELECT id, name FROM ext ORDER BY id"))
    numbers = {ext: number for number, ext in enumerate(parts)}
    rows = KeyframeRows(
        list(parts.values()),
        array("q"),
        array("I"),
        array("q"),
        lambda: (row[0] for row in catalog.iter_rows("SELECT data FROM keyframes ORDER BY sample, ext")),
    )
    query = "SELECT sample, ext, length(data) FROM keyframes ORDER BY sample, ext"
    for sample, ext, size in catalog.iter_rows(query):
        rows.samples.append(sample)
        rows.parts.append(numbers[ext])
        rows.sizes.append(size)
    return rows


def _write(path: str, digest: str, rows: KeyframeRows) -> None:
    columns = _columns(rows)
    types = {name: (column.dtype.newbyteorder("<").str, len(column)) for name, column in columns.items()}
    types["data"] = ("|u1", int(columns["starts"][-1]))
    facts = {"digest": digest, "parts": list(rows.names)}

    def chunks(name: str) -> Iterable[Any]:
        return rows.data() if name == "data" else [columns[name].data]

    write_atomically(path, lambda file: write_arrays(file, KEYFRAMES_MAGIC, facts, types, chunks))


def _open_file(path: str, digest: str) -> KeyframeFile | None:
    found = open_mapped_arrays(path, KEYFRAMES_MAGIC, _DTYPES)
    if found is None or found.facts.get("digest") != digest:
        return None
    names = found.facts.get("parts")
    if not (
        isinstance(names, list) and all(isinstance(name, str) for name in names) and _are_indexes_within(found.columns)
    ):
        return None
    return _file(names, found.columns, found.columns["data"])


def _are_indexes_within(columns: Mapping[str, NDArray[Any]]) -> bool:
    """Whether each index is within the data."""
    starts, videos = columns["starts"], len(columns["samples"])
    if len(columns["parts"]) != videos or len(starts) != videos + 1:
        return False
    return bool(starts[0] >= 0 and starts[-1] <= len(columns["data"]) and (starts[1:] >= starts[:-1]).all())


def _file(names: Iterable[str], columns: Mapping[str, NDArray[Any]], data: NDArray[np.uint8]) -> KeyframeFile:
    parts = {name: number for number, name in enumerate(names)}
    return KeyframeFile(parts, columns["samples"], columns["parts"], columns["starts"], data)


def _columns(rows: KeyframeRows) -> dict[str, NDArray[Any]]:
    starts = np.concatenate(([0], np.cumsum(np.frombuffer(rows.sizes, np.int64))))
    parts = np.frombuffer(rows.parts, np.uint32)
    return {"samples": np.frombuffer(rows.samples, np.int64), "parts": parts, "starts": starts}
