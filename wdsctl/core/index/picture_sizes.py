"""What the labels of a new dataset are drawn on, and sizes that disagree: by a few samples, for `prepare`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.config import DatasetConfig, read_config_text, update_drawn_on_line
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import Finding
from wdsctl.core.files import write_text
from wdsctl.core.index.write_dataset_yaml import MAX_WHOLE_BYTES, rows_to_examine
from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import part_kind
from wdsctl.core.media.probe import probe_image
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.field_path import FieldPath
from wdsctl.core.samples.picture_change import PictureForm
from wdsctl.core.samples.picture_sizes import (
    PictureSizes,
    describe_disagreement,
    describe_sizes,
    stated_size,
    vote_drawn_on,
)
from wdsctl.core.samples.types import DrawnOn, has_geometry
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import Storage
from wdsctl.core.text import pluralize

_DRAWN = ("image", "mask")
Part = tuple[str, int, int]  # name, offset in the shard, bytes


def sample_sizes(location: DatasetLocation, generation: int, config: DatasetConfig) -> list[tuple[str, PictureSizes]]:
    """(key, sizes) of up to 64 samples with an image and mapped labels; empty for other datasets.

    Cost: reads the headers of images and masks, and JSON up to 1 MiB.
    """
    paths = parse_field_map(config.field_map)
    if not has_geometry(paths) or "image" not in paths:
        return []
    storage = storage_for(location.root)
    try:
        offsets = Offsets(location.offsets_path(generation))
        found = []
        for row, path in rows_to_examine(location.root, offsets, (), storage):
            parts = {part[0]: part for part in offsets.parts(row)}
            sizes = _sizes_of(storage, path, parts, paths)
            if sizes is not None:
                found.append((offsets.key(row), sizes))
        return found
    finally:
        storage.close()


def _sizes_of(storage: Storage, path: str, parts: dict[str, Part], paths: dict[str, FieldPath]) -> PictureSizes | None:
    def form_of(field: str) -> PictureForm | None:
        names = [access.part for access in paths[field].alternatives] if field in paths else []
        part = next((parts[name] for name in names if name in parts), None)
        if part is None:
            return None
        name, offset, size = part
        facts = probe_image(lambda at, length: storage.read(path, offset + at, length), size, name)
        return None if facts is None else PictureForm(facts.width, facts.height, facts.orientation)

    picture, mask = form_of("image"), form_of("mask")
    if picture is None:
        return None
    stated, is_voc = None, False
    for name, offset, size in parts.values():
        if part_kind(name) == "json" and size <= MAX_WHOLE_BYTES and stated is None:
            try:
                stated, is_voc = stated_size(read_json(storage.read(path, offset, size)))
            except ValueError:
                continue
    return PictureSizes(picture, stated, is_voc, None if mask is None else mask[:2])


def catalog_size_findings(catalog: Catalog, config: DatasetConfig) -> Iterator[Finding]:
    """A warning WDS170 for each kind of disagreement that media facts show: orientations, and sizes of masks.

    Reads no shards; nothing without media facts of the mapped image.
    """
    paths = parse_field_map(config.field_map)
    if catalog.media_settings() is None or not has_geometry(paths) or "image" not in paths:
        return
    images, masks = ([access.part for access in paths[each].alternatives] if each in paths else [] for each in _DRAWN)
    examples: dict[str, tuple[PictureSizes, str]] = {}
    counts: Counter[str] = Counter()
    for width, height, orientation, mask_width, mask_height, samples, key in catalog.media_reader.doubtful_sizes(
        images, masks
    ):
        mask = None if mask_width is None else (mask_width, mask_height)
        sizes = PictureSizes(PictureForm(width, height, orientation), mask=mask)
        if text := describe_disagreement(sizes, config.drawn_on):
            counts[text] += samples
            examples.setdefault(text, (sizes, key or ""))
    for text, count in counts.items():
        sizes, key = examples[text]
        such_as = f", such as {key}" if key else ""
        yield Finding(
            code="WDS170",
            severity="warning",
            message=f"{text}, in {pluralize(count, 'sample')}{such_as}: {describe_sizes(sizes)}",
            count=count,
        )


def write_drawn_on(
    dataset: OpenDataset, generation: int, requested: DrawnOn | Literal[""], *, is_new: bool
) -> tuple[bool, list[Finding]]:
    """Write what labels are drawn on into dataset.yaml, if it is requested, or the file is new and maps labels.

    Returns (whether the file changed, findings about sizes that disagree).
    """
    if not dataset.has_config():
        return False, []
    location, config = dataset.location, dataset.config
    sizes = sample_sizes(location, generation, config)
    drawn_on = requested or config.drawn_on
    if is_new and not drawn_on and has_geometry(config.field_map):
        drawn_on = find_drawn_on(sizes)
    is_changed = bool(drawn_on) and drawn_on != config.drawn_on
    if is_changed and drawn_on:
        text = read_config_text(location.config_path)
        write_text(location.config_path, update_drawn_on_line(text, drawn_on, location.config_path))
    return is_changed, list(size_findings(sizes, drawn_on))


def find_drawn_on(sizes: Sequence[tuple[str, PictureSizes]]) -> DrawnOn:
    """What labels are drawn on: the stored pictures if the sizes of lying ones all say so, else the shown ones."""
    votes = {vote_drawn_on(each) for _, each in sizes} - {None}
    return "stored" if votes == {"stored"} else "shown"


def size_findings(sizes: Sequence[tuple[str, PictureSizes]], drawn_on: DrawnOn | Literal[""]) -> Iterator[Finding]:
    """A warning WDS170 for each kind of disagreement, with the number of samples and the first of them."""
    texts = [(key, each, describe_disagreement(each, drawn_on)) for key, each in sizes]
    for text, count in Counter(text for _, _, text in texts if text).items():
        key, first = next((key, each) for key, each, other in texts if other == text)
        examined = f"{count:,} of {pluralize(len(sizes), 'sample')} that were examined"
        yield Finding(
            code="WDS170",
            severity="warning",
            message=f"{text}, in {examined}, such as {key}: {describe_sizes(first)}",
            count=count,
        )
