"""`CompletedSource`: the samples of a primary, completed by the media that they refer to, as of one dataset.

A folder with a polylithic.json opens as such a source: samples have all parts, and the type that monolithic.yaml names,
without a cooker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.polylithic import REFERENCES_PART, PolylithicFolder
from wdsctl.core.errors import SampleFailed, WdsctlError
from wdsctl.core.importers.references import parts_of_line
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.types import CRUDE
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.reading.decode_functions import DecodeFunctions
from wdsctl.loader.reading.layout import CompiledLayout
from wdsctl.loader.reading.reference_blocks import ReferenceBlock
from wdsctl.loader.reading.sample_reader import SampleChoice, SampleReader
from wdsctl.loader.reading.source import PlainSampleType, SplitSource
from wdsctl.loader.reading.user_code import field_facts
from wdsctl.loader.samples import BASE_FIELDS
from wdsctl.loader.samples.lazy_part import LAZY_PART_BYTES
from wdsctl.loader.stores.open import PreparedStore, open_store
from wdsctl.loader.stores.store import FileStore


class CompletedSource(SplitSource):
    """A primary whose samples get the parts that their references name. Positions, keys and columns are the primary's.

    `media`: the store of these parts. `config`: of the complete samples.
    """

    def __init__(
        self,
        root: str,
        offsets: Any,
        selection: Any,
        config: DatasetConfig,
        decoder: SampleDecoder | None,
        *,
        media: FileStore,
        is_jsonl: bool,
        subflavors: Mapping[str, Any] | None = None,
        decode_functions: DecodeFunctions | None = None,
        **options: Any,
    ) -> None:
        plain = DatasetConfig(CRUDE, subflavors=config.subflavors)
        super().__init__(
            root,
            offsets,
            selection,
            plain,
            decoder,
            subflavors=subflavors,
            decode_functions=DecodeFunctions(None),
            **options,
        )
        self._functions = decode_functions or DecodeFunctions(decoder)
        self.memories, self.decode_in_parallel = self._functions.memories, self._functions.decode_in_parallel
        self._media = media
        self._is_jsonl = is_jsonl
        self._config = config
        self._completed_layouts: dict[tuple[str, ...], CompiledLayout] = {}
        self.sample_type = config.sample_type
        self.field_facts = field_facts(config)
        self.sample_kinds = None if config.sample_type == CRUDE else frozenset({(config.sample_type, frozenset())})
        self.batch_fields = ()
        self.unused_parts = ()
        if isinstance(media, PreparedStore):
            _ = media.name_index, media.keyframe_file  # opened before workers are forked, which share them

    @property
    def stores(self) -> Mapping[str, FileStore]:
        return {**self.aux, "media": self._media}

    def load(self, block: ReferenceBlock, i: int) -> Any:
        """Load a sample with its media. Raises what `load` of the primary and the store raise."""
        crude = super().load(block, i)
        try:
            return self._complete(crude)
        except WdsctlError as error:
            where = self.describe_reference(block, i)
            where = f"{where}, {error.where}" if error.where else where
            raise type(error)(error.message, hint=error.hint, where=where, code=error.code) from error

    def plain_type(self, layout: int) -> PlainSampleType | None:  # noqa: ARG002 - the same for all layouts
        """None: samples always have to be completed."""
        return None

    def part_sizes(self, row: int) -> dict[str, int]:
        """The size of each part of a complete sample in bytes, by its row in `offsets`."""
        block = self.references.block_of_rows(np.array([row], np.int64), np.zeros(1, np.int64))
        own, references = self._parts(super().load(block, 0))
        return {
            **{name: len(data) for name, data in own.items()},
            **{name: self._media.find(entry).size for name, entry in references.items()},
        }

    def _complete(self, crude: Mapping[str, Any]) -> Any:
        own, references = self._parts(crude)
        names = tuple(sorted([*own, *references]))
        layout = self._completed_layouts.get(names)
        if layout is None:
            layout = self._functions.layout(names, self._config, self.dataset_path)
            self._completed_layouts[names] = layout
        sources = list(crude["__sources__"])
        data = []
        for number, index in enumerate(layout.part_indices):
            name = names[index]
            if name in own:
                data.append(own[name])
                continue
            entry = self._media.find(references[name])
            sources.append(self._media.source_of(entry))
            is_lazy = entry.size > LAZY_PART_BYTES or bool(layout.lazy_parts and layout.lazy_parts[number])
            data.append(self._media.open_part(entry) if is_lazy else self._media.read(entry))
        base = crude["__key__"], crude["__restore_key__"], crude["__subflavors__"]
        return layout.build(*base, tuple(sources), *data)

    def _parts(self, crude: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """(the parts of the primary, part -> entry of the media). Raises SampleFailed if the references are damaged."""
        own = {name: data for name, data in crude.items() if name not in BASE_FIELDS}
        holder = "json" if self._is_jsonl else REFERENCES_PART
        try:
            content = read_json(bytes(own.pop(holder)))
            references = content["media"] if self._is_jsonl else content
            if not all(isinstance(entry, str) for entry in references.values()):
                raise TypeError("an entry is not a string")
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise SampleFailed(
                f"the part {holder} has no valid list of the sample's media: {error}",
                hint="convert the original dataset again with `--layout polylithic`",
                code="WDS343",
            ) from error
        return {part.name: part.data for part in parts_of_line(content)} if self._is_jsonl else own, references


class CompletedReader(SampleReader):
    """The complete samples of a polylithic folder, for `wdsctl.Dataset`."""

    _completed: CompletedSource  # the one that was opened last

    def __init__(self, folder: PolylithicFolder, choice: SampleChoice, catalog: str | None = None) -> None:
        self.folder = folder
        super().__init__(locate(folder.primary, catalog), choice, catalog)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "folder": self.folder}

    def with_choice(self, choice: SampleChoice) -> CompletedReader:
        return CompletedReader(self.folder, choice, self.location.meta)

    def part_sizes(self, position: int) -> dict[str, int]:
        with self._opened():
            return self._completed.part_sizes(self._row(position))

    @property
    def _config_path(self) -> str:
        return self.folder.config

    def _new_source(self, config: DatasetConfig, decoder: SampleDecoder | None) -> SplitSource:
        self._completed = CompletedSource(
            self.location.root,
            self._offsets,
            self._selection,
            config,
            decoder,
            media=open_store(self.folder.media, decoder),
            is_jsonl=self.folder.form == "jsonl",
            location=self.location,
            split_name=self.choice.split or "",
        )
        return self._completed
