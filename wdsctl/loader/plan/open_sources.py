"""Opens the splits of datasets. Only the process that makes the plan opens catalogs, once; all others map arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from wdsctl.core.blend import Leaf
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.config import DatasetConfig, parse_config, read_config_text
from wdsctl.core.dataset.location import ENERGON_META_FOLDER, DatasetLocation, locate, shell_command, shell_command_at
from wdsctl.core.dataset.polylithic import PolylithicFolder, find_polylithic_folder
from wdsctl.core.energon.meta import JSONL_INDEX_SUFFIX, find_meta_file
from wdsctl.core.energon.split_file import find_split_file, read_split_from_file, sort_by_patterns
from wdsctl.core.errors import CatalogError, InputError, StateMismatch, UsageError
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.samples.types import CRUDE
from wdsctl.core.split_rules.names import NO_SPLIT
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url
from wdsctl.core.views.selections import intersect_selections, require_unchanged_view
from wdsctl.loader.joins import EagerFunctions, JoinContext, open_joined_source
from wdsctl.loader.reading.decode_functions import DecodeFunctions
from wdsctl.loader.reading.first_use import read_or_index
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.reading.user_code import resolve_user_code
from wdsctl.loader.recipe.dataset import BaseDataset, ValDataset, locate_errors
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.samples import CrudeSample, find_sample_type
from wdsctl.loader.stores import FileStore, PreparedStore, open_store
from wdsctl.loader.stores.completed import CompletedSource
from wdsctl.loader.windows.source import FrameSource
from wdsctl.loader.windows.windows import no_sequences_error

FileStamp = tuple[int, int]  # inode, mtime in nanoseconds


@dataclass(frozen=True)
class OpenSplit:
    """A split of a dataset in one generation: what all references to it share.

    `full_selection`: the split; `selection`: what is read of it, less if a view is named. `view_hash`: of the view, or
    empty. `split_name`: its name in the catalog; empty for a split of a file. `polylithic`: the folder that was named,
    if the dataset is its primary. `last_shard`: that the generation has; None if it has all shards of `offsets`, which
    are those of a later one if wdsctl no longer keeps the file of this one. `has_newer`: whether a later generation
    has other shards.
    """

    location: DatasetLocation
    offsets: Offsets
    generation: int
    selection: SampleSelection
    config: DatasetConfig
    full_selection: SampleSelection
    view_hash: str = ""
    split_name: str = ""
    polylithic: PolylithicFolder | None = None
    last_shard: int | None = None
    has_newer: bool = False


class SourceOrigin(NamedTuple):
    """What a source was opened from. `is_member`: of a join."""

    open_split: OpenSplit
    leaf: Leaf
    decode_functions: DecodeFunctions
    join: JoinContext | None
    is_member: bool


class SourceOpener:
    """Opens the leaves of a blend one after the other: in their current generations, or each in the generation given
    for it. If wdsctl no longer keeps the file of a generation, the current one is read without the shards that were
    added since, and `gone_errors` gets an error, which the caller raises unless the data is the same. `stores`: the
    generations of auxiliary stores, by reference; of others the current one.

    A split that is referred to twice is opened once, and local shards share one bounded set of open files.
    """

    def __init__(
        self,
        dataset: BaseDataset,
        generations: Sequence[int] | None = None,
        stores: Mapping[str, int] | None = None,
    ) -> None:
        self._dataset = dataset
        self._store_generations = dict(stores or {})
        self._stores: dict[str, FileStore] = {}
        self._requested_generations = generations
        self._open_splits: dict[tuple[str, str, str | None, str | None, int | None, bool], OpenSplit] = {}
        self._configs: dict[str, DatasetConfig] = {}
        self._origins: list[SourceOrigin] = []
        self.past_sources: list[SplitSource] = []
        self.sources: list[SplitSource] = []
        self.generations: list[int] = []
        self.catalog_stamps: dict[str, FileStamp] = {}
        self.gone_errors: list[StateMismatch] = []

    def open(self, leaf: Leaf) -> SplitSource:
        """Open a leaf. Its members, if it is a join, come before it in `sources`.

        Raises InputError if there is no such split or no sample in it, StateMismatch if the generation is gone and the
        split has no samples now, CatalogError if the catalog or the offsets of its generation are unusable, and for a
        join what `open_joined_source` raises.
        """
        return self._open_source(leaf, self._decode_functions)

    def _open_source(self, leaf: Leaf, decode_functions: DecodeFunctions, *, is_member: bool = False) -> SplitSource:
        join = leaf.join
        if join is not None and join.joiner is not None:
            decode_functions = self._eager_decode_functions
        members = [self._open_source(each, decode_functions, is_member=True) for each in join.members] if join else []
        number = len(self.sources)
        if self._requested_generations is not None and number >= len(self._requested_generations):
            raise StateMismatch(
                f"the state was saved on a blend of {len(self._requested_generations)} datasets, "
                "but this blend has more",
                hint="resume with the blend of the run that saved the state",
            )
        generation = None if self._requested_generations is None else self._requested_generations[number]
        # Ranges of samples are the same in a training and in a validation, or samples held out would be trained on.
        in_file_order = isinstance(self._dataset, ValDataset) and not (leaf.subsets or join or is_member)
        name = (leaf.path, leaf.split_part, leaf.dataset_config, leaf.split_config, generation, in_file_order)
        if name not in self._open_splits:
            with locate_errors(leaf, self._dataset):
                self._open_splits[name] = self._open_split(leaf, generation, in_file_order=in_file_order)
        opened = self._open_splits[name]
        joined = None
        if join is not None:
            configs = [opened.config, *(self._origins[member.number].open_split.config for member in members)]
            joined = open_joined_source(
                leaf,
                join,
                opened.location,
                opened.offsets,
                opened.selection,
                configs,
                members,
                trust_code=self._dataset.trust_code,
            )
        reference = SourceOrigin(opened, leaf, decode_functions, joined, is_member)
        source = self._make_source(reference, number, opened.selection)
        self._origins.append(reference)
        self.sources.append(source)
        self.generations.append(opened.generation)
        return source

    def use_current_generations(self) -> None:
        """Open all further leaves in their current generations."""
        self._requested_generations = None

    def source_up_to(self, source: SplitSource, shard: int) -> SplitSource:
        """A source that was opened here, without the shards that were added after this one. It has the same number."""
        reference = self._origins[source.number]
        opened = reference.open_split
        before = self._make_source(reference, source.number, opened.selection.up_to(opened.offsets, shard))
        self.past_sources.append(before)
        return before

    def _make_source(self, origin: SourceOrigin, number: int, selection: SampleSelection) -> SplitSource:
        opened, leaf, functions, joined, is_member = origin
        raw = self._dataset.raw
        is_shared = raw == "bytes" and not is_url(opened.location.root)
        make = SplitSource if joined is None else joined.open_source
        sample_type = opened.config.sample_type if joined is None else joined.joiner.sample_type
        if joined is None and not is_member:
            _check_sample_class(sample_type, self._dataset, leaf.where or leaf.path)
        if opened.polylithic is not None:
            media = self._open_aux_store(opened.polylithic.media, leaf)
            make = partial(CompletedSource, media=media, is_jsonl=opened.polylithic.form == "jsonl")
        windows, sequences = self._dataset.delta_timestamps, opened.config.sequences
        if sequences is not None and joined is None:
            make = partial(FrameSource, sequences=sequences, windows=windows, tolerance_s=self._dataset.tolerance_s)
        elif windows is not None:
            raise (
                _joined_windows_error(leaf) if joined is not None else no_sequences_error(opened.location.display_path)
            )
        source = make(
            opened.location.root,
            opened.offsets,
            selection,
            opened.config,
            self._dataset.task_encoder.decoder,
            number=number,
            location=opened.location,
            split_name=opened.split_name,
            subflavors=leaf.subflavors,
            storage=self._local_storage if is_shared else None,
            decode_functions=functions,
            raw=raw,
            aux=self._open_aux_stores(leaf, sample_type),
            view_hash=opened.view_hash,
            full_selection=opened.full_selection if opened.view_hash else selection,
            is_member=is_member,
            last_shard=opened.last_shard,
        )
        if is_shared:
            self._local_storage.expect_files(source.root, source.shard_sizes, source.probes)
        return source

    @property
    def outgrown_datasets(self) -> tuple[str, ...]:
        """The datasets that were opened in an earlier generation than the current one."""
        opened = (each.open_split for each in self._origins)
        return tuple(dict.fromkeys(each.location.display_path for each in opened if each.has_newer))

    @property
    def store_generations(self) -> dict[str, int]:
        """Generations of the auxiliary stores that are prepared datasets, by reference."""
        prepared = {name: store for name, store in self._stores.items() if isinstance(store, PreparedStore)}
        return {name: store.offsets.generation for name, store in prepared.items()}

    def _open_aux_stores(self, leaf: Leaf, sample_type: str) -> dict[str, FileStore]:
        if leaf.aux and sample_type != CRUDE:
            raise UsageError(
                f"auxiliary stores need cookers, but the samples of this dataset are {sample_type}",
                where=leaf.where or leaf.path,
                hint="remove `aux` from the blend file, or set `sample_type: CrudeSample` in dataset.yaml",
            )
        return {name: self._open_aux_store(reference, leaf) for name, reference in leaf.aux.items()}

    def _open_aux_store(self, reference: str, leaf: Leaf) -> FileStore:
        if reference not in self._stores:
            decoder, generation = self._dataset.task_encoder.decoder, self._store_generations.get(reference)
            self._stores[reference] = open_store(reference, decoder, generation=generation, where=leaf.where)
        return self._stores[reference]

    @cached_property
    def _decode_functions(self) -> DecodeFunctions:
        return DecodeFunctions(self._dataset.task_encoder.decoder, self._dataset.sample_classes)

    @cached_property
    def _eager_decode_functions(self) -> DecodeFunctions:
        return EagerFunctions(self._dataset.task_encoder.decoder, self._decode_functions)

    @cached_property
    def _local_storage(self) -> LocalStorage:
        return LocalStorage()

    def _open_split(self, leaf: Leaf, generation: int | None, *, in_file_order: bool) -> OpenSplit:
        polylithic = find_polylithic_folder(leaf.path)
        with open_dataset(leaf.path, self._dataset.catalog, takes_view=True) as dataset:
            if polylithic is not None:
                _check_no_join(leaf)
                dataset.use(locate(polylithic.primary, self._dataset.catalog))
            dataset.keep_folder_open()
            return self._open_located(leaf, dataset, polylithic, generation, in_file_order=in_file_order)

    def _open_located(
        self,
        leaf: Leaf,
        dataset: OpenDataset,
        polylithic: PolylithicFolder | None,
        generation: int | None,
        *,
        in_file_order: bool,
    ) -> OpenSplit:
        default = "" if polylithic is None else polylithic.config
        file, split_part = self._split_config(dataset.location, leaf, default), leaf.split_part

        def read(dataset: OpenDataset) -> list[SplitShard]:
            if file:
                path = find_split_file(dataset.location, file)
                return read_split_from_file(dataset, path, leaf.split_part, in_file_order=in_file_order)
            nonlocal split_part
            split_part = _split_of_lines(dataset, leaf) or leaf.split_part
            shards = dataset.catalog.split(split_part)
            _log_damage(dataset)
            return shards

        catalog_path = dataset.location.catalog_path
        self.catalog_stamps.setdefault(catalog_path, file_stamp(catalog_path))
        of_split = read_or_index(dataset, self._dataset.catalog, read, divides=not file)
        location, current = dataset.location, dataset.catalog.generation
        used_generation = current if generation is None else generation
        last_shard = None
        try:
            offsets = dataset.offsets(used_generation)
        except CatalogError:
            if used_generation == current:
                raise
            self.gone_errors.append(
                _gone_error(
                    location,
                    f"generation {used_generation} of the dataset, which is no longer kept, and the samples have "
                    "changed since then",
                )
            )
            offsets = dataset.offsets()
            last_shard = dataset.catalog.last_shard_of(used_generation)
            if last_shard >= max((shard.id for shard in offsets.shards), default=0):
                used_generation, last_shard = current, None
            else:
                of_split = [part for part in of_split if part.shard <= last_shard]
        order = self._energon_patterns(location, split_part, in_file_order=in_file_order and not file)
        of_split = sort_by_patterns(of_split, offsets, order)
        parts, view_hash = of_split, ""
        if dataset.view:
            chosen = require_unchanged_view(dataset, dataset.view)
            parts = list(intersect_selections({part.shard: part for part in of_split}, chosen.selection).values())
            view_hash = chosen.stored.hash
        selection = SampleSelection(offsets, parts)
        if offsets.is_partial:
            offsets.fetch_groups(selection.groups(offsets))
        if selection.n == 0 and used_generation != current:
            raise _gone_error(
                location, f"samples of generation {used_generation} that are no longer in the split {leaf.split_part!r}"
            )
        if selection.n == 0:
            split = f"the split {leaf.split_part!r}"
            raise InputError(
                f"the view {dataset.view!r} has no samples in {split}" if dataset.view else f"{split} has no samples",
                where=location.catalog_path,
                hint=f"run {shell_command('inspect', leaf.path)} to see the samples of each split",
                code="WDS211",
            )
        full_selection = SampleSelection(offsets, of_split) if dataset.view else selection
        split_name = "" if file else split_part
        config = self._read_config(location, leaf, default)
        return OpenSplit(
            location,
            offsets,
            used_generation,
            selection,
            config,
            full_selection,
            view_hash,
            split_name,
            polylithic,
            last_shard,
            has_newer=used_generation < current and _has_newer_shards(dataset, offsets, last_shard),
        )

    def _read_config(self, location: DatasetLocation, leaf: Leaf, default: str) -> DatasetConfig:
        """The config of a leaf. `default`: the path of the file, if it is not the dataset.yaml of the location."""
        path = self._config_path(location, leaf, default)
        if (leaf.dataset_config or self._dataset.dataset_config) and not os.path.exists(path):
            raise InputError(
                f"the dataset_config {os.path.basename(path)!r} does not exist",
                where=path,
                hint="pass the name of a file next to dataset.yaml",
            )
        return resolve_user_code(self._parse_typed(path), location, path, trust_code=self._dataset.trust_code)

    def _split_config(self, location: DatasetLocation, leaf: Leaf, default: str) -> str:
        """The file that has the splits; "" for those of the catalog. `default`: see `_read_config`."""
        named = leaf.split_config or self._dataset.split_config
        return named or self._parse_typed(self._config_path(location, leaf, default)).split_config

    def _config_path(self, location: DatasetLocation, leaf: Leaf, default: str) -> str:
        name = leaf.dataset_config or self._dataset.dataset_config
        return find_meta_file(location, name) if name else default or location.config_path

    def _parse_typed(self, path: str) -> DatasetConfig:
        """The config at a path; that of crude samples without a file, or if the program asks for them."""
        is_typed = not self._dataset.crude and os.path.exists(path)
        return self._parse_config(path) if is_typed else DatasetConfig(sample_type=CRUDE)

    def _energon_patterns(self, location: DatasetLocation, split_part: str, *, in_file_order: bool) -> tuple[str, ...]:
        """The shards of a split in the order of the split.yaml that its rule comes from; empty without one."""
        has_meta = is_url(location.root) or os.path.isdir(os.path.join(location.root, ENERGON_META_FOLDER))
        if not (in_file_order and has_meta):
            return ()
        rule = self._parse_config(location.config_path).split if os.path.exists(location.config_path) else None
        return rule.patterns.get(split_part, ()) if rule is not None and rule.rest == NO_SPLIT else ()

    def _parse_config(self, path: str) -> DatasetConfig:
        """The parsed text: of a thousand datasets many have the same one."""
        text = read_config_text(path)
        if text not in self._configs:
            self._configs[text] = parse_config(text, path)
        return self._configs[text]


def file_stamp(path: str) -> FileStamp:
    """What differs once a file is replaced by another; zeros for an absent file."""
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0
    return stat.st_ino, stat.st_mtime_ns


def _check_sample_class(sample_type: str, dataset: BaseDataset, where: str) -> None:
    """Raise UsageError if samples are not of the class that the program asks for."""
    expected = dataset.sample_class
    if expected is None:
        return
    found = CrudeSample if sample_type == CRUDE else find_sample_type(sample_type)
    found = dataset.sample_classes.get(sample_type, found)
    if not issubclass(found, expected):
        raise UsageError(
            f"sample_type is {expected.__name__}, but the samples are {sample_type}",
            where=where,
            hint="omit sample_type, or pass the class of these samples",
        )


def _log_damage(dataset: OpenDataset) -> None:
    shards = dataset.catalog.damaged_shards
    if not shards:
        return
    logger.warning(
        "%s of %s %s damaged, so that samples may be missing: %s lists them",
        pluralize(shards, "shard"),
        dataset.location.display_path,
        "is" if shards == 1 else "are",
        shell_command_at(dataset.location, "validate"),
    )


def _split_of_lines(dataset: OpenDataset, leaf: Leaf) -> str:
    """The only split of a JSONL file that Energon has prepared, if it has another name than the leaf asks for: Energon
    ignores the splits of such files. Logs the difference. "" if the leaf's split is to be read."""
    is_energons = os.path.exists(f"{leaf.path}{JSONL_INDEX_SUFFIX}")
    if not is_energons or not dataset.has_catalog():
        return ""
    names = dataset.catalog.split_names()
    if leaf.split_part in names or len(names) != 1:
        return ""
    path = dataset.location.display_path
    logger.warning("%s has no split %r: its only split, %r, is read instead", path, leaf.split_part, names[0])
    return names[0]


def _joined_windows_error(leaf: Leaf) -> UsageError:
    return UsageError(
        "delta_timestamps does not apply to joined datasets",
        where=leaf.where or leaf.path,
        hint="remove delta_timestamps, or train on the datasets of the join without joining them",
    )


def _check_no_join(leaf: Leaf) -> None:
    """Raises UsageError for a join whose primary is a polylithic folder."""
    if leaf.join is not None:
        raise UsageError(
            "the first dataset of a join cannot be the folder of a polylithic dataset",
            where=leaf.where or leaf.path,
            hint="run `wdsctl convert FOLDER DEST` to make it one dataset, and join that",
        )


def _has_newer_shards(dataset: OpenDataset, offsets: Offsets, last_shard: int | None) -> bool:
    """Whether the dataset has shards now besides those up to `last_shard` of `offsets`; not if shards were restored."""
    known = {shard.id for shard in offsets.shards if last_shard is None or shard.id <= last_shard}
    return any(shard.id not in known for shard in dataset.catalog.shards())


def _gone_error(location: DatasetLocation, what: str) -> StateMismatch:
    return StateMismatch(
        f"the state was saved on {what}",
        where=location.meta,
        hint="restore the earlier catalog and resume, or begin a new run",
    )
