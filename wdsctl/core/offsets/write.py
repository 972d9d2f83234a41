"""Writes offsets files shard by shard, and rewrites them with other paths of shards. `read.py` describes the format.

Offsets files are never changed: a new file replaces the old one, which processes that have mapped it keep.
"""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.files import replace_atomically
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.head import OFFSETS_MAGIC
from wdsctl.core.offsets.mapped_arrays import HeaderRows, write_arrays
from wdsctl.core.offsets.read import COLUMN_DTYPES, Offsets, ShardColumns

_SHARDS = "shards"  # the list of shards in the header
_APPENDED_COLUMNS = (_SHARDS, "key_start", "keys", "layout", "part_start", "part_offset", "part_size")

MAX_COLUMN_MEMORY_BYTES = 16 << 20  # bytes of columns in memory; further ones go to temporary files

_COPY_BYTES = 1 << 20
_BLOCK_SAMPLES = 1 << 16

_CHUNK_OVERHEAD_BYTES = 1 << 10  # memory overhead of a piece: for tiny shards, most of their memory


class OffsetsWriter:
    """Builds an offsets file shard by shard. Memory: the columns of the last shard, 16 MB of earlier ones, and 8 bytes
    a shard. The rest is in temporary files in `folder`.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._buffers: dict[str, list[memoryview | bytes]] = {name: [] for name in _APPENDED_COLUMNS}
        self._buffered_bytes = 0
        self._files: dict[str, BinaryIO] = {}
        self._layouts: dict[tuple[int, ...], int] = {}
        # (samples, layout, first part, parts of each) of neighbouring samples before the first with a second layout.
        # Most datasets have only one layout, and need no such columns.
        self._uniform_samples: list[tuple[int, int, int, int]] = []
        self._shard_samples = array("q")
        self._header_bytes = 0  # of the list of shards
        self._samples = self._parts = self._key_bytes = 0

    def add(self, shard: ShardEntry, rows: ShardColumns) -> None:
        """Append one shard. `rows` has `shard.samples` samples."""
        self.add_shard_columns(rows)
        self.add_shard_entry(shard)

    def add_shard_entry(self, shard: ShardEntry) -> None:
        """Describe the shard whose columns were added last."""
        text = (b"," if self._shard_samples else b"") + _encode_shard(shard)
        self._append_bytes(_SHARDS, text)
        self._header_bytes += len(text)
        self._shard_samples.append(shard.samples)

    def add_shard_columns(self, rows: ShardColumns) -> None:
        """Add the columns of a shard before its description is known. The writer keeps them: do not change them."""
        if self._buffered_bytes > MAX_COLUMN_MEMORY_BYTES:
            self._spill_to_files()
        self._append_values("key_start", self._key_bytes + np.cumsum(rows.key_sizes, dtype=np.int64) - rows.key_sizes)
        self._append_bytes("keys", rows.keys)
        self._add_layouts(rows.counts, rows.part_names)
        self._append_values("part_offset", rows.part_offsets)
        self._append_values("part_size", rows.part_sizes)
        self._samples += len(rows.counts)
        self._parts += len(rows.part_sizes)
        self._key_bytes += len(rows.keys)

    def finish(self, path: str, generation: int, extensions: Sequence[str]) -> None:
        """Write the whole file to `path`, atomically."""
        if len(self._layouts) > 1:
            self._write_uniform_layouts()
        self._append_values("key_start", np.array([self._key_bytes], np.int64))
        self._append_values("part_start", np.array([self._parts], np.int64))
        rows = np.append(0, np.cumsum(self._shard_samples, dtype=np.int64))
        columns = dict(COLUMN_DTYPES)
        if len(self._layouts) <= 1:
            del columns["layout"], columns["part_start"]
        counts = {"shard_row": len(rows), "keys": self._key_bytes}
        counts |= dict.fromkeys(("layout",), self._samples)
        counts |= dict.fromkeys(("key_start", "part_start"), self._samples + 1)
        counts |= dict.fromkeys(("part_offset", "part_size"), self._parts)
        header = _header(generation, extensions, [list(layout) for layout in self._layouts])

        def chunks(name: str) -> Iterable[Any]:
            if name == "shard_row":
                yield rows.data
                return
            if name in self._files:
                self._files[name].seek(0)
                yield from iter(partial(self._files[name].read, _COPY_BYTES), b"")
            yield from self._buffers[name]

        with replace_atomically(path) as draft, open(draft, "x+b") as file:
            types = {name: (dtype, counts[name]) for name, dtype in columns.items()}
            listed = HeaderRows(_SHARDS, self._header_bytes, chunks(_SHARDS))
            write_arrays(file, OFFSETS_MAGIC, header, types, chunks, listed)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _append_values(self, column: str, values: NDArray[Any]) -> None:
        self._append_bytes(column, np.ascontiguousarray(values).view(np.uint8).data)

    def _append_bytes(self, column: str, data: memoryview | bytes) -> None:
        self._buffers[column].append(data)
        self._buffered_bytes += len(data) + _CHUNK_OVERHEAD_BYTES

    def _spill_to_files(self) -> None:
        """Move the buffers into the temporary files."""
        for name, pieces in self._buffers.items():
            if name not in self._files:
                self._files[name] = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by close()
            self._files[name].writelines(pieces)
            pieces.clear()
        self._buffered_bytes = 0

    def _add_layouts(self, counts: NDArray[np.uint32], names: NDArray[np.integer[Any]]) -> None:
        """Add the layout and the first part of each sample. Most shards have one layout."""
        if len(counts) and (counts == counts[0]).all():
            table = names.reshape(len(counts), -1)
            if (table == table[0]).all():
                self._add_uniform_samples(len(counts), self._layout(table[0]), int(counts[0]))
                if len(self._layouts) > 1:
                    self._write_uniform_layouts()
                return
        starts = np.cumsum(counts, dtype=np.int64) - counts
        spans = zip(starts.tolist(), (starts + counts).tolist(), strict=True)
        self._write_uniform_layouts()
        self._append_values("layout", np.fromiter((self._layout(names[a:b]) for a, b in spans), np.uint32, len(counts)))
        self._append_values("part_start", self._parts + starts)

    def _add_uniform_samples(self, samples: int, layout: int, each: int) -> None:
        """Add samples with one layout, of `each` parts, to those before them if these have the same layout."""
        first = self._parts
        if self._uniform_samples and self._uniform_samples[-1][1] == layout:
            before, _, first, _ = self._uniform_samples.pop()
            samples += before
        self._uniform_samples.append((samples, layout, first, each))

    def _write_uniform_layouts(self) -> None:
        for samples, layout, first, each in self._uniform_samples:
            for start in range(0, samples, _BLOCK_SAMPLES):
                positions = np.arange(start, min(start + _BLOCK_SAMPLES, samples), dtype=np.int64)
                self._append_values("layout", np.full(len(positions), layout, np.uint32))
                self._append_values("part_start", first + each * positions)
                if self._buffered_bytes > MAX_COLUMN_MEMORY_BYTES:
                    self._spill_to_files()
        self._uniform_samples.clear()

    def _layout(self, names: NDArray[np.integer[Any]]) -> int:
        return self._layouts.setdefault(tuple(names.tolist()), len(self._layouts))


def rewrite_offsets(offsets: Offsets, shards: Sequence[ShardEntry], path: str) -> None:
    """Write the file to `path`, atomically, with `shards` in place of its shard entries."""
    numbers = {name: i for i, name in enumerate(offsets.extensions)}
    columns = {name: array for name in COLUMN_DTYPES if (array := getattr(offsets, name)) is not None}
    layouts = [[numbers[name] for name in layout] for layout in offsets.layouts]
    header = _header(offsets.generation, offsets.extensions, layouts)
    text = b",".join(map(_encode_shard, shards))
    types = {name: (COLUMN_DTYPES[name], len(array)) for name, array in columns.items()}
    with replace_atomically(path) as draft, open(draft, "x+b") as file:
        write_arrays(
            file,
            OFFSETS_MAGIC,
            header,
            types,
            lambda name: [np.ascontiguousarray(columns[name]).view(np.uint8)],
            HeaderRows(_SHARDS, len(text), [text]),
        )


def _header(generation: int, extensions: Sequence[str], layouts: list[list[int]]) -> dict[str, Any]:
    """The header without its shards."""
    return {"generation": generation, "extensions": list(extensions), "layouts": layouts, _SHARDS: []}


def _encode_shard(shard: ShardEntry) -> bytes:
    path, layout_hash = json.dumps(shard.path), json.dumps(shard.layout_hash)
    return f"[{shard.id},{path},{shard.size},{shard.samples},{layout_hash}]".encode()


def rename_offsets_shards(path: str, paths: Mapping[int, str]) -> None:
    """Change the paths of the shards with these ids. Raises CatalogError WDS302 if the file is not usable, OSError.

    Cost: a copy of the file, unless nothing changes.
    """
    offsets = Offsets(path)
    shards = [replace(shard, path=paths.get(shard.id, shard.path)) for shard in offsets.shards]
    if offsets.shards != shards:
        rewrite_offsets(offsets, shards, path)
