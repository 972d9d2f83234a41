"""How the parts of one sample are read: in one go, one by one where much lies between them, or later, by a handle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wdsctl.core.keyframe_file import KeyframeFile
from wdsctl.core.line_files import is_lines
from wdsctl.core.storage import Storage
from wdsctl.loader.lazy_part import LARGE, LazyPart
from wdsctl.loader.references import Block


@dataclass(frozen=True, slots=True)
class PartReader:
    """Of the shards at `paths`, by index; `sizes`: their bytes, by path, where they are known.

    `names`: the needed parts of each layout. `ranged`: for each of them whether it is handed out as a handle, an empty
    one where none is. `films`: where those can be entered, if the catalog knows.
    """

    storage: Storage
    paths: Sequence[str]
    sizes: Mapping[str, int]
    names: Sequence[Sequence[str]]
    ranged: Sequence[Sequence[bool]]
    films: KeyframeFile | None

    def read(self, block: Block, i: int) -> list[Any]:
        """The needed parts of one sample in their order: bytes, or a `LazyPart` for each that is LARGE or `ranged`.

        One read, where the parts lie close together. Raises StorageError.
        """
        layout, span = block.layouts[i], block.spans[i]
        if self.ranged[layout]:
            return self._with_handles(block, i)
        if 0 <= span <= LARGE:
            data = self.storage.read(self.paths[block.shards[i]], block.first[i], span)
            return [data[starts[i] : ends[i]] for starts, ends in block.cuts[layout]]
        return self._one_by_one(block, i)

    def _one_by_one(self, block: Block, i: int) -> list[Any]:
        path, first = self.paths[block.shards[i]], block.first[i]
        parts: list[Any] = []
        for starts, ends in block.cuts[block.layouts[i]]:
            at, size = first + starts[i], ends[i] - starts[i]
            # A line is parsed as a whole or not at all.
            is_lazy = size > LARGE and not is_lines(path)
            parts.append(self._handle(path, at, size) if is_lazy else self.storage.read(path, at, size))
        return parts

    def _with_handles(self, block: Block, i: int) -> list[Any]:
        """Handles of the parts that want to be handles, and the others as ever."""
        path, first, span = self.paths[block.shards[i]], block.first[i], block.spans[i]
        data = self.storage.read(path, first, span) if 0 < span <= LARGE else None
        parts: list[Any] = []
        layout, films = block.layouts[i], self.films
        cuts = zip(block.cuts[layout], self.ranged[layout], self.names[layout], strict=True)
        for (starts, ends), is_ranged, name in cuts:
            at, size = first + starts[i], ends[i] - starts[i]
            if is_ranged or size > LARGE:
                keyframes = films.find(block.ids[i], name) if films is not None and is_ranged else b""
                parts.append(self._handle(path, at, size, keyframes))
            elif data is None:
                parts.append(self.storage.read(path, at, size))
            else:
                parts.append(data[starts[i] : ends[i]])
        return parts

    def _handle(self, path: str, at: int, size: int, keyframes: bytes = b"") -> LazyPart:
        return LazyPart(path, at, size, self.storage, shard_size=self.sizes.get(path), keyframes=keyframes)
