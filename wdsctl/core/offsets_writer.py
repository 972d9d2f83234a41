"""Writes offsets files, whose form `wdsctl.core.offsets` begins with: shard by shard, or again with other names."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.block_sums import seal
from wdsctl.core.files import replacing
from wdsctl.core.offsets import ALIGN, DTYPES, Offsets, ShardRows
from wdsctl.core.offsets_bounds import ShardEntry
from wdsctl.core.offsets_head import MAGIC

_GROWING = ("key_start", "keys", "layout", "part_start", "part_offset", "part_size")

HELD = 16 << 20  # bytes of columns in memory from which on they go to temporary files

_PIECE = 1 << 10  # bytes that a piece takes beside its own: of tiny shards it is most of what they hold


class OffsetsWriter:
    """Builds an offsets file shard by shard. Memory: the columns of the last shard, and of those before some 16 MB; the
    rest grows in temporary files in `folder`.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._held: dict[str, list[memoryview | bytes]] = {name: [] for name in _GROWING}
        self._held_bytes = 0
        self._files: dict[str, BinaryIO] = {}
        self._layouts: dict[tuple[int, ...], int] = {}
        # (samples, layout, first part, parts of each): of shards before the second layout turns up. Most have only one,
        # and then nothing is written of it.
        self._alike: list[tuple[int, int, int, int]] = []
        self._shards: list[ShardEntry] = []
        self._samples = self._parts = self._key_bytes = 0

    def add(self, shard: ShardEntry, rows: ShardRows) -> None:
        """Append one shard. `rows` has `shard.samples` samples."""
        self.add_rows(rows)
        self.name(shard)

    def name(self, shard: ShardEntry) -> None:
        """Say whose rows those are that were added last and have no name yet."""
        self._shards.append(shard)

    def add_rows(self, rows: ShardRows) -> None:
        """The columns of one shard, before all is known that `name` says of it. They are kept: do not change them."""
        if self._held_bytes > HELD:
            self._put_away()
        self._put("key_start", self._key_bytes + np.cumsum(rows.key_sizes, dtype=np.int64) - rows.key_sizes)
        self._hold("keys", rows.keys)
        self._add_layouts(rows.counts, rows.part_names)
        self._put("part_offset", rows.part_offsets)
        self._put("part_size", rows.part_sizes)
        self._samples += len(rows.counts)
        self._parts += len(rows.part_sizes)
        self._key_bytes += len(rows.keys)

    def finish(self, path: str, generation: int, extensions: Sequence[str]) -> None:
        """Write the whole file to `path`, atomically."""
        if len(self._layouts) > 1:
            self._write_alike()
        self._put("key_start", np.array([self._key_bytes], np.int64))
        self._put("part_start", np.array([self._parts], np.int64))
        rows = np.cumsum([0, *(shard.samples for shard in self._shards)], dtype=np.int64)
        columns = dict(DTYPES)
        if len(self._layouts) <= 1:
            del columns["layout"], columns["part_start"]
        counts = {"shard_row": len(rows), "keys": self._key_bytes}
        counts |= dict.fromkeys(("layout",), self._samples)
        counts |= dict.fromkeys(("key_start", "part_start"), self._samples + 1)
        counts |= dict.fromkeys(("part_offset", "part_size"), self._parts)
        header = {
            "generation": generation,
            "extensions": list(extensions),
            "layouts": [list(layout) for layout in self._layouts],
            "shards": [[s.id, s.path, s.size, s.samples, s.layout_hash] for s in self._shards],
        }
        head, places = _laid_out(header, columns, counts)
        with replacing(path) as draft, open(draft, "x+b") as file:
            file.write(head)
            for name, at in places.items():
                file.write(b"\0" * (at - file.tell()))
                if name == "shard_row":
                    file.write(rows.tobytes())
                else:
                    if name in self._files:
                        self._files[name].seek(0)
                        shutil.copyfileobj(self._files[name], file, 1 << 20)
                    file.writelines(self._held[name])
            seal(file)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _put(self, column: str, values: NDArray[Any]) -> None:
        self._hold(column, np.ascontiguousarray(values).view(np.uint8).data)

    def _hold(self, column: str, data: memoryview | bytes) -> None:
        self._held[column].append(data)
        self._held_bytes += len(data) + _PIECE

    def _put_away(self) -> None:
        """Move what is held into the temporary files."""
        for name, pieces in self._held.items():
            if name not in self._files:
                self._files[name] = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by close()
            self._files[name].writelines(pieces)
            pieces.clear()
        self._held_bytes = 0

    def _add_layouts(self, counts: NDArray[np.uint32], names: NDArray[np.integer[Any]]) -> None:
        """The layout of each sample, and its first part. Those of a shard mostly have one and the same layout."""
        if len(counts) and (counts == counts[0]).all():
            table = names.reshape(len(counts), -1)
            if (table == table[0]).all():
                self._alike.append((len(counts), self._layout(table[0]), self._parts, int(counts[0])))
                if len(self._layouts) > 1:
                    self._write_alike()
                return
        starts = np.cumsum(counts, dtype=np.int64) - counts
        spans = zip(starts.tolist(), (starts + counts).tolist(), strict=True)
        self._write_alike()
        self._put("layout", np.fromiter((self._layout(names[a:b]) for a, b in spans), np.uint32, len(counts)))
        self._put("part_start", self._parts + starts)

    def _write_alike(self) -> None:
        for samples, layout, first, each in self._alike:
            self._put("layout", np.full(samples, layout, np.uint32))
            self._put("part_start", first + each * np.arange(samples, dtype=np.int64))
        self._alike.clear()

    def _layout(self, names: NDArray[np.integer[Any]]) -> int:
        return self._layouts.setdefault(tuple(names.tolist()), len(self._layouts))


def rewritten(offsets: Offsets, shards: Sequence[ShardEntry], path: str) -> None:
    """Write the same file to `path`, atomically, with other words about its shards."""
    numbers = {name: i for i, name in enumerate(offsets.extensions)}
    columns = {name: array for name in DTYPES if (array := getattr(offsets, name)) is not None}
    header = {
        "generation": offsets.generation,
        "extensions": offsets.extensions,
        "layouts": [[numbers[name] for name in layout] for layout in offsets.layouts],
        "shards": [[s.id, s.path, s.size, s.samples, s.layout_hash] for s in shards],
    }
    counts = {name: len(array) for name, array in columns.items()}
    head, places = _laid_out(header, {name: DTYPES[name] for name in columns}, counts)
    with replacing(path) as draft, open(draft, "x+b") as file:
        file.write(head)
        for name, at in places.items():
            file.write(b"\0" * (at - file.tell()))
            file.write(np.ascontiguousarray(columns[name]).view(np.uint8).data)
        seal(file)


def _laid_out(header: dict[str, Any], columns: dict[str, str], counts: dict[str, int]) -> tuple[bytes, dict[str, int]]:
    """The first bytes of the file, and where each column begins. The header's length depends on what it says."""
    length = 0
    while True:
        at, table, places = 16 + length, {}, {}
        for name, dtype in columns.items():
            at += -at % ALIGN
            table[name], places[name] = [at, dtype, counts[name]], at
            at += np.dtype(dtype).itemsize * counts[name]
        text = json.dumps(header | {"columns": table}, separators=(",", ":")).encode()
        if len(text) <= length:
            text = text.ljust(length)
            return MAGIC + length.to_bytes(8, "little") + text, places
        length = len(text) + ALIGN
