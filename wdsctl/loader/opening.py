"""Opens the splits of datasets: catalogs once, by the process that makes the plan; then only mapped arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from wdsctl.core.blend_file import Leaf
from wdsctl.core.catalog.quick import current_generation, read_split
from wdsctl.core.dataset_yaml import DatasetConfig, load
from wdsctl.core.errors import CatalogError, InputError, StateMismatch, UsageError
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, locate
from wdsctl.core.sample_types import CRUDE
from wdsctl.core.storage import LocalStorage
from wdsctl.core.urls import is_url
from wdsctl.loader.dataset import Dataset
from wdsctl.loader.selection import Selection
from wdsctl.loader.source import Functions, Source


@dataclass(frozen=True)
class Opened:
    """A split of a dataset in one of its generations: what all references to it share."""

    place: Place
    offsets: Offsets
    selection: Selection
    config: DatasetConfig


class Opener:
    """Opens the leaves of a blend one after the other: as they are now, or each in the generation that is given for it.

    The same split that is referred to twice is opened once, and local shards share one bounded set of open files.
    """

    def __init__(self, dataset: Dataset, generations: Sequence[int] | None = None) -> None:
        self._dataset = dataset
        self._wanted = generations
        self._opened: dict[tuple[str, str, str | None, int | None], Opened] = {}
        self.sources: list[Source] = []
        self.generations: list[int] = []

    def open(self, leaf: Leaf) -> Source:
        """Raises InputError where there is no such split or nothing in it, StateMismatch where the generation is gone,
        CatalogError where the catalog or the offsets of its generation cannot be used."""
        number = len(self.sources)
        if self._wanted is not None and number >= len(self._wanted):
            raise StateMismatch(
                f"the state was saved on a blend of {len(self._wanted)} datasets, and this one has more",
                hint="resume with the blend of the run that saved the state",
            )
        wanted = None if self._wanted is None else self._wanted[number]
        name = (leaf.path, leaf.split_part, leaf.dataset_config, wanted)
        if name not in self._opened:
            self._opened[name] = self._open(leaf, wanted)
        opened = self._opened[name]
        raw = self._dataset.raw
        is_shared = raw == "bytes" and not is_url(opened.place.root)
        source = Source(
            opened.place.root,
            opened.offsets,
            opened.selection,
            opened.config,
            self._dataset.task_encoder.decoder,
            number=number,
            place=opened.place,
            split=leaf.split_part,
            subflavors=leaf.subflavors,
            storage=self._local if is_shared else None,
            functions=self._functions,
            raw=raw,
        )
        if is_shared:
            self._local.expect(source.sizes)
        self.sources.append(source)
        self.generations.append(opened.offsets.generation)
        return source

    @cached_property
    def _functions(self) -> Functions:
        return Functions(self._dataset.task_encoder.decoder)

    @cached_property
    def _local(self) -> LocalStorage:
        return LocalStorage()

    def _open(self, leaf: Leaf, generation: int | None) -> Opened:
        if leaf.split_config is not None or self._dataset.split_config is not None:
            raise UsageError(
                "split_config names a file of splits, and the splits of this dataset are in its catalog",
                where=leaf.where or leaf.path,
                hint="make the split with `wdsctl split`, and choose it with split_part",
            )
        if leaf.aux:
            raise UsageError(
                "auxiliary datasets are not supported yet", where=leaf.where, hint="take `aux` out of the blend file"
            )
        place = locate(leaf.path, self._dataset.catalog)
        # The generation first: a catalog that is published in between has shards that the older offsets lack, and not
        # the other way round, so that a state saved now finds the same samples later.
        current = current_generation(place.catalog)
        wanted = current if generation is None else generation
        parts = read_split(place.catalog, leaf.split_part)
        try:
            offsets = Offsets(place.offsets(wanted))
        except CatalogError as error:
            if wanted == current:
                raise
            raise _gone(place, f"generation {wanted} of the dataset, which is no longer kept") from error
        selection = Selection(offsets, parts)
        if selection.n == 0 and wanted != current:
            raise _gone(place, f"samples of generation {wanted} that are no longer in the split {leaf.split_part!r}")
        if selection.n == 0:
            raise InputError(
                f"the split {leaf.split_part!r} has no samples",
                where=place.catalog,
                hint=f"`wdsctl inspect {leaf.path}` shows what each split has",
                code="WDS211",
            )
        return Opened(place, offsets, selection, self._config(place, leaf))

    def _config(self, place: Place, leaf: Leaf) -> DatasetConfig:
        name = leaf.dataset_config or self._dataset.dataset_config
        path = os.path.join(place.meta, name) if name else place.dataset_yaml
        if name and not os.path.exists(path):
            raise InputError(
                f"there is no dataset_config {name!r}", where=path, hint="it is a file beside dataset.yaml"
            )
        is_typed = not self._dataset.crude and os.path.exists(path)
        return load(path) if is_typed else DatasetConfig(sample_type=CRUDE)


def _gone(place: Place, what: str) -> StateMismatch:
    return StateMismatch(
        f"the state was saved on {what}",
        where=place.meta,
        hint="resume with the catalog of that time, or begin a new run",
    )
