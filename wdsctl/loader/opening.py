"""Opens a split for reading: the catalog once, by the process that makes the plan; then only mapped arrays."""

from __future__ import annotations

import os

from wdsctl.core.catalog.quick import current_generation, read_split
from wdsctl.core.dataset_yaml import DatasetConfig, load
from wdsctl.core.errors import CatalogError, InputError, StateMismatch
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, locate
from wdsctl.core.sample_types import CRUDE
from wdsctl.loader.dataset import TrainDataset, ValDataset
from wdsctl.loader.selection import Selection
from wdsctl.loader.source import Source


def open_source(dataset: TrainDataset | ValDataset, generation: int | None = None) -> Source:
    """The split of a dataset, as the catalog has it now or had it in an earlier generation.

    Raises InputError where there is no such split or nothing in it, StateMismatch where the generation is gone,
    CatalogError where the catalog or the offsets of its generation cannot be used.
    """
    place = locate(dataset.path, dataset.catalog)
    # The generation first: a catalog that is published in between has shards that the older offsets lack, and not the
    # other way round, so that a state saved now finds the same samples later.
    current = current_generation(place.catalog)
    wanted = current if generation is None else generation
    parts = read_split(place.catalog, dataset.split_part)
    try:
        offsets = Offsets(place.offsets(wanted))
    except CatalogError as error:
        if wanted == current:
            raise
        raise _gone(place, f"generation {wanted} of the dataset, which is no longer kept") from error
    selection = Selection(offsets, parts)
    if selection.n == 0 and wanted != current:
        raise _gone(place, f"samples of generation {wanted} that are no longer in the split {dataset.split_part!r}")
    if selection.n == 0:
        raise InputError(
            f"the split {dataset.split_part!r} has no samples",
            where=place.catalog,
            hint="`wdsctl inspect DATASET` shows what each split has",
            code="WDS211",
        )
    config = load(place.dataset_yaml) if os.path.exists(place.dataset_yaml) else DatasetConfig(sample_type=CRUDE)
    return Source(place.root, offsets, selection, config, dataset.task_encoder.decoder, raw=dataset.raw)


def _gone(place: Place, what: str) -> StateMismatch:
    return StateMismatch(
        f"the state was saved on {what}",
        where=place.meta,
        hint="resume with the catalog of that time, or begin a new run",
    )
