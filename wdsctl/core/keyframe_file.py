"""Where the films of a dataset can be entered: the keyframe indexes of its catalog, compiled into a file and mapped.

The processes of a loader that read samples open no SQLite. So whoever opens a dataset writes the indexes beside the
offsets file, once, and a film's is found by the id of its sample and the name of its part. Ids are never used again:
the film of a shard that was changed or removed is not found by them.

Format, version 2: `WDSKEY2\\n`, then as `wdsctl/core/mapped_arrays.py` says it. Facts: `digest` (of the marks of all
shards whose media the catalog knows), `parts` (their names). Columns, films by sample and part:

    samples  i8  films      the sample's id
    parts    u4  films      which part: an index into the names
    starts   i8  films + 1  where its index begins in `data`, and the end of the last one
    data     u1             `KeyframeIndex.to_bytes()`, one behind the other
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.block_sums import seal
from wdsctl.core.catalog.quick import KeyframeRows, keyframe_rows, media_marks
from wdsctl.core.files import write_whole
from wdsctl.core.mapped_arrays import laid_out, opened
from wdsctl.core.place import Place, forget_old

MAGIC = b"WDSKEY2\n"

_DTYPES = {"samples": ("<i8",), "parts": ("<u4",), "starts": ("<i8",), "data": ("|u1",)}


class KeyframeFile(NamedTuple):
    """The keyframe indexes of a dataset. A lookup takes some 5 us, whatever the number of films."""

    parts: dict[str, int]
    samples: NDArray[np.int64]
    numbers: NDArray[np.uint32]
    starts: NDArray[np.int64]
    data: NDArray[np.uint8]

    def find(self, sample: int, part: str) -> bytes:
        """The index of a film, as `KeyframeIndex.to_bytes()`; empty where it is no film that was indexed."""
        number = self.parts.get(part)
        at = int(self.samples.searchsorted(sample)) if number is not None else len(self.samples)
        while at < len(self.samples) and self.samples[at] == sample:
            if self.numbers[at] == number:
                return self.data[self.starts[at] : self.starts[at + 1]].tobytes()
            at += 1
        return b""


def open_keyframes(place: Place, generation: int) -> KeyframeFile | None:
    """The indexes that the catalog has: mapped where they were compiled, else compiled now, and kept where that can be
    written. None where it has none: nobody asked for them (`wdsctl index --media-index`), or there are no films.

    Compiling reads the indexes of all films: some 9 bytes a keyframe. Raises CatalogError WDS301, WDS302, WDS303.
    """
    marks = media_marks(place.catalog)
    if not marks:
        return None
    digest = _digest(marks)
    path = os.path.join(place.meta, f"keyframes-{generation}.bin")
    found = _opened(path, digest)
    if found is None:
        with keyframe_rows(place.catalog) as rows:
            if not len(rows.samples):
                return None
            # A folder that is somebody else's: the indexes serve this process and those that are forked from it.
            with suppress(OSError):
                _write(path, digest, rows)
                forget_old(place, "keyframes")
            found = _opened(path, digest) or _in_memory(rows)
    return found


def _digest(marks: Mapping[int, bytes]) -> str:
    digest = blake2b(digest_size=16)
    for shard, mark in sorted(marks.items()):
        digest.update(b"%d %d " % (shard, len(mark)) + mark)
    return digest.hexdigest()


def _write(path: str, digest: str, rows: KeyframeRows) -> None:
    columns = _columns(rows)
    shapes = {name: (column.dtype.newbyteorder("<").str, len(column)) for name, column in columns.items()}
    shapes["data"] = ("|u1", int(columns["starts"][-1]))
    head, places = laid_out(MAGIC, {"digest": digest, "parts": list(rows.names)}, shapes)

    def write(file: Any) -> None:
        file.write(head)
        for name, column in columns.items():
            file.write(b"\0" * (places[name] - file.tell()))
            file.write(column.data)
        file.write(b"\0" * (places["data"] - file.tell()))
        file.writelines(rows.data())
        seal(file)

    write_whole(path, write)


def _opened(path: str, digest: str) -> KeyframeFile | None:
    found = opened(path, MAGIC, _DTYPES)
    if found is None or found.facts.get("digest") != digest:
        return None
    names = found.facts.get("parts")
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names) and _fit(found.columns)):
        return None
    return _file(names, found.columns, found.columns["data"])


def _fit(columns: Mapping[str, NDArray[Any]]) -> bool:
    """Whether each index is within the data."""
    starts, films = columns["starts"], len(columns["samples"])
    if len(columns["parts"]) != films or len(starts) != films + 1:
        return False
    return bool(starts[0] >= 0 and starts[-1] <= len(columns["data"]) and (starts[1:] >= starts[:-1]).all())


def _in_memory(rows: KeyframeRows) -> KeyframeFile:
    return _file(rows.names, _columns(rows), np.frombuffer(b"".join(rows.data()), np.uint8))


def _file(names: Iterable[str], columns: Mapping[str, NDArray[Any]], data: NDArray[np.uint8]) -> KeyframeFile:
    parts = {name: number for number, name in enumerate(names)}
    return KeyframeFile(parts, columns["samples"], columns["parts"], columns["starts"], data)


def _columns(rows: KeyframeRows) -> dict[str, NDArray[Any]]:
    starts = np.concatenate(([0], np.cumsum(np.frombuffer(rows.sizes, np.int64))))
    parts = np.frombuffer(rows.parts, np.uint32)
    return {"samples": np.frombuffer(rows.samples, np.int64), "parts": parts, "starts": starts}
