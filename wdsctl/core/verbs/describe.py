"""Writes dataset.yaml, for `prepare`: from what the user says of the samples, and from what is found in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.command_line import command_at
from wdsctl.core.dataset_yaml import DatasetConfig, dump, load
from wdsctl.core.detect import Detection, detect
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.evidence import percent
from wdsctl.core.fields import option_text, validate_field_map
from wdsctl.core.files import set_aside, write_text
from wdsctl.core.line_files import is_lines
from wdsctl.core.look import gather
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.sample_types import CRUDE
from wdsctl.core.stores import storage_for


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user says of the samples. With any of it, a dataset.yaml that is there is written anew."""

    sample_type: str = ""
    field_map: Mapping[str, str] = field(default_factory=dict)
    redetect: bool = False

    def __bool__(self) -> bool:
        return bool(self.sample_type or self.field_map or self.redetect)


NOT_ASKED = Asked()


@contextmanager
def as_asked() -> Iterator[None]:
    """What is wrong with an option is a matter of usage, though in dataset.yaml it would be one of the dataset."""
    try:
        yield
    except DatasetError as error:
        raise UsageError(error.message, hint=error.hint, where=error.where, code=error.code) from error


def check_config(place: Place, asked: Asked, progress: Progress) -> None:
    """Set a dataset.yaml aside that cannot be understood, if another is asked for.

    Otherwise raises DatasetError WDS220: before hours of work, not after.
    """
    if not os.path.exists(place.dataset_yaml):
        return
    try:
        load(place.dataset_yaml)
    except DatasetError as error:
        if not asked:
            raise
        aside = set_aside(place.dataset_yaml, "broken")
        progress.note(f"dataset.yaml was broken ({error.message}); it is now {aside}, and another is written")


def describe(
    place: Place,
    generation: int,
    asked: Asked,
    progress: Progress,
    base: DatasetConfig | None = None,
    *,
    is_typed: bool = False,
    must_be_sure: bool = False,
) -> tuple[Detection | None, bool]:
    """Write dataset.yaml, unless it is there and nobody asks for another: (what was found, whether it is another now).

    The detection is None where nobody asks. A new file takes over the rule of the catalog's split. `base`: what a new
    file says besides; where it `is_typed`, the sample type, too, unless another is asked for. `must_be_sure`: write
    nothing where the detection alone decides, and is not sure; `check_sure` then says so.
    """
    base = base or DatasetConfig()
    there = os.path.exists(place.dataset_yaml)
    if there and not asked:
        return None, False
    with Catalog(place.catalog) as catalog:
        parts, rule = catalog.parts(), catalog.split_rule()
    base = replace(base, split=base.split or rule)
    if is_typed and not asked:
        write_text(place.dataset_yaml, dump(base))
        return None, True
    progress.phase("detect")
    found = detected(place, generation)
    if must_be_sure and is_doubtful(found, asked):
        return found, False
    before = load(place.dataset_yaml) if there else base
    sample_type, field_map = _chosen(found, asked, [part.name for part in parts])
    optional = before.optional if before.field_map == field_map else ()
    config = replace(
        before, sample_type=sample_type, field_map=field_map, optional=optional, sample_loader="", part_filter=()
    )
    is_new = not there or config != before
    if is_new:
        write_text(place.dataset_yaml, dump(config))
    return found, is_new


def is_doubtful(found: Detection | None, asked: Asked) -> bool:
    """Whether the detection is not sure, and nobody has said what the samples are."""
    return found is not None and not found.is_sure and not (asked.sample_type or asked.field_map)


def check_sure(place: Place, found: Detection | None, asked: Asked) -> None:
    """Raises UsageError WDS221 for a detection that somebody has to judge."""
    if found is None or not is_doubtful(found, asked):
        return
    unused = f", and would leave {' and '.join(found.unused_media)} unused" if found.unused_media else ""
    take = command_at(place, "prepare", "--sample-type", found.sample_type, "--field-map", option_text(found.field_map))
    raise UsageError(
        f"the samples look like {found.sample_type}: {', '.join(found.field_map.values())}; that is not sure "
        f"({percent(found.confidence)}){unused}. Shards, catalog and splits are made; only dataset.yaml is not written",
        where=place.shown,
        hint=f"{take} takes it, {command_at(place, 'prepare', '--sample-type', CRUDE)} hands out all parts as they are",
        code="WDS221",
    )


def detected(place: Place, generation: int) -> Detection:
    """The sample type that the samples of a dataset look like, with the reasons."""
    with Catalog(place.catalog) as catalog:
        parts = catalog.parts()
    storage = storage_for(place.root)
    try:
        offsets = Offsets(place.offsets(generation))
        of_lines = any(is_lines(shard.path) for shard in offsets.shards)
        return detect(gather(place.root, offsets, parts, storage), of_lines=of_lines)
    finally:
        storage.close()


def _chosen(found: Detection, asked: Asked, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """What the user says wins; what they leave open is taken from the detection, where that fits."""
    sample_type = asked.sample_type or found.sample_type
    field_map = dict(asked.field_map)
    if not field_map and sample_type == found.sample_type:
        field_map = dict(found.field_map)
    if sample_type != CRUDE and not field_map:
        raise UsageError(
            f"the samples do not look like {sample_type}, so its fields must be named",
            hint=f"--sample-type {sample_type} --field-map FIELD=PART,... (parts: {', '.join(names)})",
            code="WDS221",
        )
    with as_asked():
        validate_field_map(sample_type, field_map, names, where="--field-map")
    return sample_type, field_map
