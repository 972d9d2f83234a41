"""Pascal VOC: `JPEGImages`, an XML file in `Annotations` for each, lists in `ImageSets/Main`, and masks.

Parts: the image; `json` with `boxes`, `box_format` (xyxy), `label_names`, `difficult` and `annotation`, the whole
content of the XML; `seg.png` from `SegmentationClass`, and `instances.png` from `SegmentationObject`. The numbers of
boxes stay as they are in the file: pixels, counted from 1, of which the last belongs to the box. Keys are the names of
the images without the extension, below the folder of the year if there are several.

Source: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/devkit_doc.pdf (the format).
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding
from wdsctl.core.file_limits import MAX_DOCUMENT_BYTES
from wdsctl.core.importers.annotations.annotated import (
    AnnotatedSample,
    AnnotationFormat,
    endings_of,
    findings_about,
    make_annotated_source,
    not_found_error,
    split_names,
    unused_files,
)
from wdsctl.core.importers.annotations.labelled import (
    BoxSurvey,
    Facts,
    box_findings,
    missing_in_lists,
    survey_boxes,
    unlabelled_findings,
)
from wdsctl.core.importers.annotations.xml_text import parse_xml
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    list_folder,
    media_type_of,
    normalize_split_names,
    split_of_folder,
    unused_files_findings,
    unused_finding,
)
from wdsctl.core.importers.common.values import encode_json
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Part, Source, SourceDescription
from wdsctl.core.text import path_for_message, pluralize

_MAX_XML_BYTES = 4 << 20
_IMAGE_FOLDERS = ("JPEGImages", "images", "Images")
_ANNOTATION_FOLDER = "Annotations"
_SPLIT_LISTS = "ImageSets/Main"
_OTHER_LIST = re.compile(r"(.*/)?ImageSets/[^/]+/[^/]+\.txt")
#: Folder of masks -> the part. The names are those of one mask for each image.
_MASKS = {"SegmentationClass": "seg.png", "SegmentationObject": "instances.png"}
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def _match(path: str) -> FormatMatch | None:
    found = _find_devkits(path)
    if not found:
        return None
    top, images = found[0]
    return FormatMatch(0.95, f"has {path_for_message(f'{top}{_ANNOTATION_FOLDER}')} of XML files, and {images}")


def _read(path: str) -> Source:
    return _VocFolder(path).source()


class _VocFolder:
    """The images of one or several years, with their annotations, masks and splits."""

    def __init__(self, root: str) -> None:
        found = _find_devkits(root)
        if not found:
            folders = " or ".join(_IMAGE_FOLDERS)
            raise not_found_error(f"the folder has no {_ANNOTATION_FOLDER} with XML files beside {folders}", root)
        self.files = FolderFiles(root)
        self.images: list[AnnotatedSample] = []
        self._lists: dict[str, str] = {}  # file -> split
        self._missing_in_lists: list[str] = []
        self._twice: list[str] = []
        words = {top: split_of_folder(top.rstrip("/")) for top, _ in found}
        splits = normalize_split_names(words.values())
        self._split_of_top = {top: splits[word] for top, word in words.items()}
        for top, images in found:
            self._add_images(top, f"{top}{images}/", prefix=top if len(found) > 1 else "")
        self._other_lists = [
            path for path in self.files.paths if _OTHER_LIST.fullmatch(path) if path not in self._lists
        ]

    def _add_images(self, top: str, folder: str, prefix: str) -> None:
        splits = self._read_splits(top)
        split_of_top = "" if splits else self._split_of_top[top]
        stems: set[str] = set()
        for path in self.files.paths:
            if not path.startswith(folder) or media_type_of(path) != "image":
                continue
            stem = os.path.splitext(path[len(folder) :])[0]
            stems.add(stem)
            annotation = f"{top}{_ANNOTATION_FOLDER}/{stem}.xml"
            masks = ((part, f"{top}{name}/{stem}.png") for name, part in _MASKS.items())
            self.images.append(
                AnnotatedSample(
                    path,
                    annotation if annotation in self.files.paths else None,
                    where=path_for_message(annotation),
                    split=splits.get(stem, split_of_top),
                    extras=tuple((part, mask) for part, mask in masks if mask in self.files.paths),
                    key=f"{prefix}{stem}",
                )
            )
        self._missing_in_lists += [stem for stem in splits if stem not in stems]

    def _read_splits(self, top: str) -> dict[str, str]:
        """Stem of an image -> its split. trainval.txt counts only if there is no train.txt or val.txt."""
        folder = f"{top}{_SPLIT_LISTS}/"
        names = {
            f"{folder}{split}.txt": split
            for split in ("train", "val", "test")
            if f"{folder}{split}.txt" in self.files.paths
        }
        if not {"train", "val"} & set(names.values()) and f"{folder}trainval.txt" in self.files.paths:
            names[f"{folder}trainval.txt"] = "train"
        self._lists |= names
        found: dict[str, str] = {}
        for path, split in names.items():
            for line in self.files.read(path, MAX_DOCUMENT_BYTES).decode("utf-8-sig", "surrogateescape").splitlines():
                stem = line.strip()
                if stem and found.setdefault(stem, split) != split:
                    self._twice.append(stem)
        return found

    def source(self) -> Source:
        splits = dict.fromkeys([*self._lists.values(), *split_names(self.images)])
        return make_annotated_source(self.files, self.images, self._read_parts, self.describe, splits=splits)

    def _read_parts(self, annotation: str | None) -> list[Part]:
        facts = self._read_annotation(annotation)
        facts.pop("objects", None)
        return [Part("json", encode_json(facts))]

    def _read_annotation(self, annotation: str | None) -> Facts:
        """Raises DatasetError WDS233 for XML that cannot be read, WDS232 for a box without numbers."""
        boxes: list[list[float]] = []
        facts: Facts = {"boxes": boxes, "box_format": "xyxy", "label_names": [], "difficult": []}
        if annotation is None:
            return facts
        where = os.path.join(self.files.root, annotation)
        content = parse_xml(self.files.read(annotation, _MAX_XML_BYTES), where)
        objects = content.get("object", []) if isinstance(content, dict) else []
        for each in objects:
            box = _box_of(each, where)
            if box is not None:
                boxes.append(box)
                facts["label_names"].append(each.get("name", ""))
                facts["difficult"].append(each.get("difficult") == "1")
        return {**facts, "annotation": content, "objects": len(objects)}

    def describe(self) -> SourceDescription:
        """Cost: reads all XML files."""
        survey = survey_boxes(self.images, self._read_annotation, _is_outside)
        annotations = (image.label for image in self.images if image.label)
        unused = unused_files(self.files, self.images, [*self._lists, *self._other_lists, *annotations])
        findings = tuple(self._findings(survey, unused))
        return SourceDescription(tuple(self._field_uses(survey)), findings, self._config(), unused)

    def _config(self) -> DatasetConfig:
        image = {"image": endings_of(self.images)}
        if not any(each.label for each in self.images) and any(each.extras for each in self.images):
            return DatasetConfig("SegmentationSample", {**image, "mask": "seg.png"})
        names = ("boxes", "box_format", "label_names")
        # Sizes tell what boxes are drawn on.
        return DatasetConfig("DetectionSample", {**image, **{name: f"json[{name}]" for name in names}})

    def _field_uses(self, survey: BoxSurvey) -> Iterator[FieldUse]:
        yield FieldUse("images", endings_of(self.images), pluralize(len(self.images), "sample"))
        annotated = sum(bool(image.label) for image in self.images)
        note = f"{annotated:,} files, {survey.boxes:,} boxes as xyxy: pixels, counted from 1"
        yield FieldUse(f"{_ANNOTATION_FOLDER}/*.xml", "json[boxes], json[label_names], json[annotation]", note)
        is_about_masks = self._config().sample_type == "SegmentationSample"
        for name, part in _MASKS.items():
            count = sum(part in dict(image.extras) for image in self.images)
            if count:
                note = "" if is_about_masks else "; for sample type SegmentationSample"
                yield FieldUse(f"{name}/*.png", part, f"{pluralize(count, 'file')}{note}")
        by_top = Counter((image.path[: image.path.find("/") + 1], image.split) for image in self.images)
        for path, split in self._lists.items():
            top = path[: path.index(_SPLIT_LISTS)]
            count = by_top[top, split] if top else sum(image.split == split for image in self.images)
            yield FieldUse(path, f"split {split}", pluralize(count, "sample"))
        with_lists = {path[: path.index(_SPLIT_LISTS)] for path in self._lists}
        for (top, split), count in by_top.items():
            if split and top not in {"", *with_lists} and split == self._split_of_top.get(top):
                yield FieldUse(top, f"split {split}", pluralize(count, "sample"))
        if self._other_lists:
            note = f"{len(self._other_lists):,} files for other tasks or classes"
            yield FieldUse("other lists in ImageSets", "", note)

    def _findings(self, survey: BoxSurvey, unused: Sequence[str]) -> Iterator[Finding]:
        yield from box_findings(survey, "image", "a bndbox")
        yield from findings_about("WDS212", self._twice, "image", "in two lists", ": the first list counts")
        yield from missing_in_lists(self._missing_in_lists, "the lists")
        unlisted = [image.path for image in self.images if not image.split]
        if self._lists or len(unlisted) < len(self.images):
            consequence = f": neither a list in {_SPLIT_LISTS} nor their folder names one"
            yield from findings_about("WDS213", unlisted, "image", "in no split", consequence)
        yield from unlabelled_findings(self.images, "image", "an XML file", "boxes")
        lone = {path: None for path in unused if path.endswith(".xml") or any(f"{name}/" in path for name in _MASKS)}
        if lone:
            yield unused_finding([*lone], "annotations without an image")
        rest = [path for path in unused if path not in lone]
        yield from unused_files_findings(rest, "it is in none of VOC's folders", self.files.hidden)


def _find_devkits(root: str) -> list[tuple[str, str]]:
    """(folder of a year with a trailing slash, or "" for the root; name of its folder of images)."""
    names = list_folder(root, root).folders
    if _ANNOTATION_FOLDER in names:
        tops = [""]
    else:  # VOCdevkit/VOC2007, VOCdevkit/VOC2012; or train/ and val/ as a download has them
        tops = [f"{name}/" for name in names if re.match("voc", name, re.IGNORECASE) or split_of_folder(name)]
    found = []
    for top in tops:
        inner = list_folder(os.path.join(root, top), root).folders
        images = next((name for name in _IMAGE_FOLDERS if name in inner), "")
        if images and _ANNOTATION_FOLDER in inner:
            files = list_folder(os.path.join(root, top, _ANNOTATION_FOLDER), root).files
            if any(name.endswith(".xml") for name in files):
                found.append((top, images))
    return found


def _box_of(each: Any, where: str) -> list[float] | None:
    """[xmin, ymin, xmax, ymax] of an object, as written; None if it has no box. Raises DatasetError WDS232."""
    box = each.get("bndbox") if isinstance(each, dict) else None
    if not isinstance(box, dict):
        return None
    try:
        values = [float(box[name]) for name in _CORNERS]
        if not all(map(math.isfinite, values)):
            raise ValueError(values)
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f"the bndbox of {each.get('name', 'an object')!r} lacks a number: expected {', '.join(_CORNERS)}",
            hint="correct the file",
            where=path_for_message(where),
            code="WDS232",
        ) from error
    return [int(value) if value.is_integer() else value for value in values]


def _is_outside(box: Sequence[float], facts: Facts) -> bool:
    """Whether a box extends more than a pixel beyond the image. False if the annotation has no size."""
    try:
        width, height = (float(facts["annotation"]["size"][name]) for name in ("width", "height"))
    except (KeyError, TypeError, ValueError):
        return False
    left, top, right, bottom = box
    return min(left, top) < 0 or left > right or top > bottom or right > width + 1 or bottom > height + 1


IMPORTER = AnnotationFormat("voc", "Pascal VOC: an XML file of boxes for each image, and masks", _match, _read)
