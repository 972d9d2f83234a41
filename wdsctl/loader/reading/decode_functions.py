"""Decode functions and sample layouts that all sources of a batch share, with the memory for its images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.samples.types import FieldKind
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.jpeg import DecodeThreads
from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.decoding.parts import decode_raw
from wdsctl.loader.reading.label_geometry import (
    decode_mask_that_follows,
    decode_with_size,
    is_upright,
    must_shrink_labels,
    shrink_labels,
)
from wdsctl.loader.reading.layout import NO_CLASSES, CompiledLayout, DecodeFunction, compile_layout
from wdsctl.loader.samples import find_sample_factory


class DecodeFunctions:
    """Decode functions by part and field, created once, with the memory that images of a batch share; and layouts.

    All sources whose samples share batches use the same object.
    """

    def __init__(self, decoder: SampleDecoder | None, sample_classes: Mapping[str, type[Any]] = NO_CLASSES) -> None:
        """`sample_classes`: see `BaseDataset`."""
        self.sample_classes = sample_classes
        self.memories: list[BatchMemory] = []
        self._decoder = decoder
        self._threads = decoder.make_threads() if decoder is not None else DecodeThreads(1)
        self._functions: dict[tuple[str, FieldKind, str, bool | None], DecodeFunction | None] = {}
        self._memory_of_part: dict[tuple[str, FieldKind, str], BatchMemory | None] = {}
        self._layouts: dict[tuple[Any, ...], CompiledLayout] = {}

    def decode_in_parallel(self) -> AbstractContextManager[None]:
        """Samples that are loaded within may have their images decoded at its end, by several threads."""
        return self._threads.decode_in_parallel()

    def layout(self, names: Sequence[str], config: DatasetConfig, where: str) -> CompiledLayout:
        """`compile_layout`, once for all sources with the same parts and fields."""
        fields = (*config.field_map.items(), config.optional, config.drawn_on)
        path = where if find_sample_factory(config.sample_type) is not None else ""
        layout_key = (tuple(names), config.sample_type, config.sample_loader, config.part_filter, path, *fields)
        if layout_key not in self._layouts:
            self._layouts[layout_key] = self._compile(names, config, where)
        return self._layouts[layout_key]

    def _compile(self, names: Sequence[str], config: DatasetConfig, where: str) -> CompiledLayout:
        if self._decoder is None:
            return compile_layout(names, config, self, where, sample_classes=self.sample_classes)
        upright = is_upright(self._decoder, config, where)
        if not must_shrink_labels(self._decoder, config, where):
            function_for = partial(self, upright=upright)
            classes = self.sample_classes
            return compile_layout(names, config, function_for, where, decoder=self._decoder, sample_classes=classes)
        size_image = partial(decode_with_size, decoder=self._decoder, upright=upright)
        follow_mask = partial(decode_mask_that_follows, decoder=self._decoder, where=where)

        def sized_function_for(part: str, kind: FieldKind, field: str) -> DecodeFunction | None:
            function = self(part, kind, field, upright=upright)
            if field == "image":
                return size_image(function, part, kind)
            return follow_mask(function, part) if field == "mask" else function

        classes = self.sample_classes
        return compile_layout(names, config, sized_function_for, where, wrap=shrink_labels, sample_classes=classes)

    def __call__(self, part: str, kind: FieldKind, field: str, *, upright: bool | None = None) -> DecodeFunction | None:
        """The function that decodes this part for a field of this kind and name; None if it stays bytes."""
        if self._decoder is None:
            return None
        function_key = (part, kind, field, upright)
        if function_key not in self._functions:
            memory = self._memory_for(part, kind, field)
            function = self._decoder.function_for(part, memory, kind, field, self._threads, upright=upright)
            self._functions[function_key] = None if function is decode_raw else function
        return self._functions[function_key]

    def _memory_for(self, part: str, kind: FieldKind, field: str) -> BatchMemory | None:
        """One for all images of a part and field, upright or not, which may share batches."""
        memory_key = (part, kind, field)
        if memory_key not in self._memory_of_part and self._decoder is not None:
            memory = self._memory_of_part[memory_key] = self._decoder.memory_for(*memory_key)
            if memory is not None:
                self.memories.append(memory)
        return self._memory_of_part.get(memory_key)
