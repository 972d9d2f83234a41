"""What decodes the parts of all sources whose samples meet in a batch: functions, layouts, and where images go."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.sample_types import Kind
from wdsctl.loader.decoding import BatchMemory, DecodeThreads, SampleDecoder, as_bytes
from wdsctl.loader.layout import Decode, Layout, compile_layout


class Functions:
    """Decode functions by part name, one of each, with the memory that the images of a batch share; and layouts.

    Sources whose samples meet in a batch share one of these.
    """

    def __init__(self, decoder: SampleDecoder | None) -> None:
        self.memories: list[BatchMemory] = []
        self._decoder = decoder
        self._threads = decoder.threads() if decoder is not None else DecodeThreads(1)
        self._known: dict[tuple[str, Kind, str], Decode | None] = {}
        self._layouts: dict[tuple[Any, ...], Layout] = {}

    def together(self) -> AbstractContextManager[None]:
        """Images of samples that are loaded in here may be decoded at its end, by several threads."""
        return self._threads.together()

    def layout(self, names: Sequence[str], config: DatasetConfig, where: str) -> Layout:
        """`compile_layout`, once for all sources that are alike."""
        fields = (*config.field_map.items(), config.optional)
        alike = (tuple(names), config.sample_type, config.sample_loader, config.part_filter, *fields)
        if alike not in self._layouts:
            self._layouts[alike] = compile_layout(names, config, self, where)
        return self._layouts[alike]

    def __call__(self, part: str, kind: Kind, field: str) -> Decode | None:
        """What decodes this part for a field of this kind and name, or None where its bytes are handed out."""
        if self._decoder is None:
            return None
        wanted = (part, kind, field)
        if wanted not in self._known:
            memory = self._decoder.memory_for(*wanted)
            if memory is not None:
                self.memories.append(memory)
            function = self._decoder.function_for(part, memory, kind, field, self._threads)
            self._known[wanted] = None if function is as_bytes else function
        return self._known[wanted]
