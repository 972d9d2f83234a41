"""Writes offsets files shard by shard, and rewrites them with other paths of shards. `read.py` describes the format.

Offsets files are never changed: a new file replaces the old one, which processes that have mapped it keep.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.files import replace_atomically
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.mapped_arrays import write_arrays
from wdsctl.core.offsets.read import COLUMN_DTYPES, OFFSETS_MAGIC, Offsets, ShardColumns

_APPENDED_COLUMNS = ("key_start", "keys", "layout", "part_start", "part_offset", "part_size")

MAX_COLUMN_MEMORY_BYTES = 16 << 20  # bytes of columns in memory; further ones go to temporary files

_COPY_BYTES = 1 << 20

_CHUNK_OVERHEAD_BYTES = 1 << 10  # memory overhead of a piece: for tiny shards, most of their memory


class OffsetsWriter:
    """Builds an offsets file shard by shard. Memory: the columns of the last shard, and 16 MB of earlier ones. The rest
    is in temporary files in `folder`.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._buffers: dict[str, list[memoryview | bytes]] = {name: [] for name in _APPENDED_COLUMNS}
        self._buffered_bytes = 0
        self._files: dict[str, BinaryIO] = {}
        self._layouts: dict[tuple[int, ...], int] = {}
        # (samples, layout, first part, parts of each) of shards before the first sample with a second layout. Most
        # datasets have only one layout, and need no such columns.
        self._uniform_shards: list[tuple[int, int, int, int]] = []
        self._shards: list[ShardEntry] = []
        self._samples = self._parts = self._key_bytes = 0

    def add(self, shard: ShardEntry, rows: ShardColumns) -> None:
        """Append one shard. `rows` has `shard.samples` samples."""
        self.add_shard_columns(rows)
        self.add_shard_entry(shard)

    def add_shard_entry(self, shard: ShardEntry) -> None:
        """Describe the shard whose columns were added last."""
        self._shards.append(shard)

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
        rows = np.cumsum([0, *(shard.samples for shard in self._shards)], dtype=np.int64)
        columns = dict(COLUMN_DTYPES)
        if len(self._layouts) <= 1:
            del columns["layout"], columns["part_start"]
        counts = {"shard_row": len(rows), "keys": self._key_bytes}
        counts |= dict.fromkeys(("layout",), self._samples)
        counts |= dict.fromkeys(("key_start", "part_start"), self._samples + 1)
        counts |= dict.fromkeys(("part_offset", "part_size"), self._parts)
        header = _header(generation, extensions, [list(layout) for layout in self._layouts], self._shards)

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
            write_arrays(file, OFFSETS_MAGIC, header, types, chunks)

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
                self._uniform_shards.append((len(counts), self._layout(table[0]), self._parts, int(counts[0])))
                if len(self._layouts) > 1:
                    self._write_uniform_layouts()
                return
        starts = np.cumsum(counts, dtype=np.int64) - counts
        spans = zip(starts.tolist(), (starts + counts).tolist(), strict=True)
        self._write_uniform_layouts()
        self._append_values("layout", np.fromiter((self._layout(names[a:b]) for a, b in spans), np.uint32, len(counts)))
        self._append_values("part_start", self._parts + starts)

    def _write_uniform_layouts(self) -> None:
        for samples, layout, first, each in self._uniform_shards:
            self._append_values("layout", np.full(samples, layout, np.uint32))
            self._append_values("part_start", first + each * np.arange(samples, dtype=np.int64))
        self._uniform_shards.clear()

    def _layout(self, names: NDArray[np.integer[Any]]) -> int:
        return self._layouts.setdefault(tuple(names.tolist()), len(self._layouts))


def rewrite_offsets(offsets: Offsets, shards: Sequence[ShardEntry], path: str) -> None:
    """Write the file to `path`, atomically, with `shards` in place of its shard entries."""
    numbers = {name: i for i, name in enumerate(offsets.extensions)}
    columns = {name: array for name in COLUMN_DTYPES if (array := getattr(offsets, name)) is not None}
    layouts = [[numbers[name] for name in layout] for layout in offsets.layouts]
    header = _header(offsets.generation, offsets.extensions, layouts, shards)
    types = {name: (COLUMN_DTYPES[name], len(array)) for name, array in columns.items()}
    with replace_atomically(path) as draft, open(draft, "x+b") as file:
        write_arrays(
            file, OFFSETS_MAGIC, header, types, lambda name: [np.ascontiguousarray(columns[name]).view(np.uint8)]
        )


def _header(
    generation: int, extensions: Sequence[str], layouts: list[list[int]], shards: Iterable[ShardEntry]
) -> dict[str, Any]:
    return {
        "generation": generation,
        "extensions": list(extensions),
        "layouts": layouts,
        "shards": [[shard.id, shard.path, shard.size, shard.samples, shard.layout_hash] for shard in shards],
    }


def rename_offsets_shards(path: str, paths: Mapping[int, str]) -> None:
    """Change the paths of the shards with these ids. Raises CatalogError WDS302 if the file is not usable, OSError.

    Cost: a copy of the file, unless nothing changes.
    """
    offsets = Offsets(path)
    shards = [replace(shard, path=paths.get(shard.id, shard.path)) for shard in offsets.shards]
    if shards != offsets.shards:
        rewrite_offsets(offsets, shards, path)
