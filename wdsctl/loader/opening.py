"""Opens the splits of datasets: catalogs once, by the process that makes the plan; then only mapped arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from wdsctl.core.blend_file import Leaf
from wdsctl.core.catalog.quick import current_split
from wdsctl.core.dataset_yaml import DatasetConfig, parse, read
from wdsctl.core.errors import CatalogError, InputError, StateMismatch, UsageError
from wdsctl.core.formats.energon_meta import found_beside
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.root_name import located
from wdsctl.core.sample_types import CRUDE
from wdsctl.core.selections import intersected, whole_view
from wdsctl.core.split_file import split_file, split_of_file
from wdsctl.core.splitting import SplitShard
from wdsctl.core.storage import LocalStorage
from wdsctl.core.urls import is_url
from wdsctl.loader.dataset import Dataset, told_where
from wdsctl.loader.decode_functions import Functions
from wdsctl.loader.first_use import after_first_use
from wdsctl.loader.joins import AtOnce, Joined, joined_of
from wdsctl.loader.sample_code import trusted
from wdsctl.loader.selection import Selection
from wdsctl.loader.source import Source
from wdsctl.loader.stores import FileStore, PreparedStore, open_store


@dataclass(frozen=True)
class Opened:
    """A split of a dataset in one of its generations: what all references to it share.

    `whole`: the split; `selection`: what is read of it, less where a view was named. `view`: the hash of that, or
    nothing. `split`: its name in the catalog, or nothing where it is of a file.
    """

    place: Place
    offsets: Offsets
    selection: Selection
    config: DatasetConfig
    whole: Selection
    view: str = ""
    split: str = ""


class Reference(NamedTuple):
    """What a source was opened of. `functions` decode its parts. `is_member`: of a join."""

    opened: Opened
    leaf: Leaf
    functions: Functions
    joined: Joined | None
    is_member: bool


class Opener:
    """Opens the leaves of a blend one after the other: as they are now, or each in the generation that is given for it.
    `stores`: the generations of auxiliary stores, by reference; of others the present one.

    The same split that is referred to twice is opened once, and local shards share one bounded set of open files.
    """

    def __init__(
        self,
        dataset: Dataset,
        generations: Sequence[int] | None = None,
        stores: Mapping[str, int] | None = None,
    ) -> None:
        self._dataset = dataset
        self._store_generations = dict(stores or {})
        self._stores: dict[str, FileStore] = {}
        self._wanted = generations
        self._opened: dict[tuple[str, str, str | None, str | None, int | None], Opened] = {}
        self._configs: dict[str, DatasetConfig] = {}
        self._of_number: list[Reference] = []
        self.befores: list[Source] = []
        self.sources: list[Source] = []
        self.generations: list[int] = []

    def open(self, leaf: Leaf) -> Source:
        """Raises InputError where there is no such split or nothing in it, StateMismatch where the generation is gone,
        CatalogError where the catalog or the offsets of its generation cannot be used. Of a join, what `joined_of`
        raises besides; its members come before it in `sources`."""
        return self._open_source(leaf, self._functions)

    def _open_source(self, leaf: Leaf, functions: Functions, *, is_member: bool = False) -> Source:
        join = leaf.join
        if join is not None and join.joiner is not None:
            functions = self._functions_at_once
        members = [self._open_source(each, functions, is_member=True) for each in join.members] if join else []
        number = len(self.sources)
        if self._wanted is not None and number >= len(self._wanted):
            raise StateMismatch(
                f"the state was saved on a blend of {len(self._wanted)} datasets, and this one has more",
                hint="resume with the blend of the run that saved the state",
            )
        wanted = None if self._wanted is None else self._wanted[number]
        name = (leaf.path, leaf.split_part, leaf.dataset_config, leaf.split_config, wanted)
        if name not in self._opened:
            self._opened[name] = self._named(leaf, wanted)
        opened = self._opened[name]
        joined = None
        if join is not None:
            configs = [opened.config, *(self._of_number[member.number].opened.config for member in members)]
            joined = joined_of(
                leaf,
                join,
                opened.place,
                opened.offsets,
                opened.selection,
                configs,
                members,
                trust_code=self._dataset.trust_code,
            )
        reference = Reference(opened, leaf, functions, joined, is_member)
        source = self._source(reference, number, opened.selection)
        self._of_number.append(reference)
        self.sources.append(source)
        self.generations.append(opened.offsets.generation)
        return source

    def go_on_with_new_ones(self) -> None:
        """All that is opened from here on is as it is now: no generation was given for it."""
        self._wanted = None

    def before(self, source: Source, shard: int) -> Source:
        """A source that was opened here, without the shards that were added after this one. It has the same number."""
        reference = self._of_number[source.number]
        opened = reference.opened
        before = self._source(reference, source.number, opened.selection.up_to(opened.offsets, shard))
        self.befores.append(before)
        return before

    def _source(self, reference: Reference, number: int, selection: Selection) -> Source:
        opened, leaf, functions, joined, is_member = reference
        raw = self._dataset.raw
        is_shared = raw == "bytes" and not is_url(opened.place.root)
        make = Source if joined is None else joined.source
        source = make(
            opened.place.root,
            opened.offsets,
            selection,
            opened.config,
            self._dataset.task_encoder.decoder,
            number=number,
            place=opened.place,
            split=opened.split,
            subflavors=leaf.subflavors,
            storage=self._local if is_shared else None,
            functions=functions,
            raw=raw,
            aux=self._aux(leaf, opened.config.sample_type if joined is None else joined.joiner.sample_type),
            view=opened.view,
            whole=opened.whole if opened.view else selection,
            is_member=is_member,
        )
        if is_shared:
            self._local.expect(source.root, source.sizes, source.probes)
        return source

    @property
    def store_generations(self) -> dict[str, int]:
        """Of the auxiliary stores that are prepared datasets, by reference."""
        prepared = {name: store for name, store in self._stores.items() if isinstance(store, PreparedStore)}
        return {name: store.offsets.generation for name, store in prepared.items()}

    def _aux(self, leaf: Leaf, sample_type: str) -> dict[str, FileStore]:
        if leaf.aux and sample_type != CRUDE:
            raise UsageError(
                f"auxiliary stores are for cookers, and the samples of this dataset are {sample_type}",
                where=leaf.where or leaf.path,
                hint="take `aux` out of the blend file, or make the dataset's sample_type CrudeSample",
            )
        return {name: self._store(reference, leaf) for name, reference in leaf.aux.items()}

    def _store(self, reference: str, leaf: Leaf) -> FileStore:
        if reference not in self._stores:
            decoder, wanted = self._dataset.task_encoder.decoder, self._store_generations.get(reference)
            self._stores[reference] = open_store(reference, decoder, generation=wanted, where=leaf.where)
        return self._stores[reference]

    @cached_property
    def _functions(self) -> Functions:
        return Functions(self._dataset.task_encoder.decoder)

    @cached_property
    def _functions_at_once(self) -> Functions:
        return AtOnce(self._dataset.task_encoder.decoder, self._functions)

    @cached_property
    def _local(self) -> LocalStorage:
        return LocalStorage()

    def _named(self, leaf: Leaf, generation: int | None) -> Opened:
        with told_where(leaf, self._dataset):
            return self._open(leaf, generation)

    def _open(self, leaf: Leaf, generation: int | None) -> Opened:
        place, view = located(leaf.path, self._dataset.catalog)
        file = leaf.split_config or self._dataset.split_config

        def opened(place: Place) -> tuple[int, list[SplitShard]]:
            if file:
                return split_of_file(place, split_file(place, file), leaf.split_part)
            return current_split(place.catalog, leaf.split_part)

        place, (current, of_split) = after_first_use(place, self._dataset.catalog, opened, divides=not file)
        parts, view_hash = of_split, ""
        if view:
            chosen = whole_view(place, view)
            parts = list(intersected({part.shard: part for part in of_split}, chosen.selected).values())
            view_hash = chosen.stored.hash
        wanted = current if generation is None else generation
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
            split = f"the split {leaf.split_part!r}"
            raise InputError(
                f"the view {view!r} has no samples in {split}" if view else f"{split} has no samples",
                where=place.catalog,
                hint=f"`wdsctl inspect {leaf.path}` shows what each split has",
                code="WDS211",
            )
        whole = Selection(offsets, of_split) if view else selection
        split_name = "" if file else leaf.split_part
        return Opened(place, offsets, selection, self._config(place, leaf), whole, view_hash, split_name)

    def _config(self, place: Place, leaf: Leaf) -> DatasetConfig:
        name = leaf.dataset_config or self._dataset.dataset_config
        path = found_beside(place, name) if name else place.dataset_yaml
        if name and not os.path.exists(path):
            raise InputError(
                f"there is no dataset_config {name!r}", where=path, hint="it is a file beside dataset.yaml"
            )
        is_typed = not self._dataset.crude and os.path.exists(path)
        config = self._parsed(path) if is_typed else DatasetConfig(sample_type=CRUDE)
        return trusted(config, place, path, trust_code=self._dataset.trust_code)

    def _parsed(self, path: str) -> DatasetConfig:
        """Of a thousand datasets many have the same text."""
        text = read(path)
        if text not in self._configs:
            self._configs[text] = parse(text, path)
        return self._configs[text]


def _gone(place: Place, what: str) -> StateMismatch:
    return StateMismatch(
        f"the state was saved on {what}",
        where=place.meta,
        hint="resume with the catalog of that time, or begin a new run",
    )
