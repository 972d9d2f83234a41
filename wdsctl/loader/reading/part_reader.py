"""Reading the parts of one sample: in one read, part by part if they are far apart, or later, as a `LazyPart`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wdsctl.core.catalog.keyframe_file import KeyframeFile
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.storage.storage import Storage
from wdsctl.loader.reading.reference_blocks import ReferenceBlock
from wdsctl.loader.samples.lazy_part import LAZY_PART_BYTES, LazyPart


@dataclass(frozen=True, slots=True)
class PartReader:
    """Reads parts from the shards at `paths`. `sizes`: bytes of the shards by path, where known.

    By layout: `part_names` are the parts that are read, `lazy_parts` says for each whether it becomes a `LazyPart`
    (empty if none does). `keyframes`: of videos, if the catalog has them.
    """

    storage: Storage
    paths: Sequence[str]
    sizes: Mapping[str, int]
    part_names: Sequence[Sequence[str]]
    lazy_parts: Sequence[Sequence[bool]]
    keyframes: KeyframeFile | None

    def read(self, block: ReferenceBlock, i: int) -> list[Any]:
        """The parts of one sample in order: bytes, or a `LazyPart` for large parts and those of `lazy_parts`.

        One read if the parts are close together. Raises StorageError.
        """
        layout, span = block.layouts[i], block.spans[i]
        if self.lazy_parts[layout]:
            return self._read_with_lazy_parts(block, i)
        if 0 <= span <= LAZY_PART_BYTES:
            data = self.storage.read(self.paths[block.shards[i]], block.first_bytes[i], span)
            return [data[starts[i] : ends[i]] for starts, ends in block.part_bounds[layout]]
        path, first = self.paths[block.shards[i]], block.first_bytes[i]
        parts: list[Any] = []
        for starts, ends in block.part_bounds[layout]:
            offset, size = first + starts[i], ends[i] - starts[i]
            # A JSONL line is parsed as a whole.
            is_lazy = size > LAZY_PART_BYTES and not is_jsonl_name(path)
            parts.append(self._lazy_part(path, offset, size) if is_lazy else self.storage.read(path, offset, size))
        return parts

    def _read_with_lazy_parts(self, block: ReferenceBlock, i: int) -> list[Any]:
        path, first, span = self.paths[block.shards[i]], block.first_bytes[i], block.spans[i]
        data = self.storage.read(path, first, span) if 0 < span <= LAZY_PART_BYTES else None
        parts: list[Any] = []
        layout, file = block.layouts[i], self.keyframes
        bounds = zip(block.part_bounds[layout], self.lazy_parts[layout], self.part_names[layout], strict=True)
        for (starts, ends), is_lazy, name in bounds:
            offset, size = first + starts[i], ends[i] - starts[i]
            if is_lazy or size > LAZY_PART_BYTES:
                keyframes = file.find(block.ids[i], name) if file is not None and is_lazy else b""
                parts.append(self._lazy_part(path, offset, size, keyframes))
            elif data is None:
                parts.append(self.storage.read(path, offset, size))
            else:
                parts.append(data[starts[i] : ends[i]])
        return parts

    def _lazy_part(self, path: str, offset: int, size: int, keyframes: bytes = b"") -> LazyPart:
        return LazyPart(path, offset, size, self.storage, shard_size=self.sizes.get(path), keyframes=keyframes)
