"""Pascal VOC: `JPEGImages`, an XML file in `Annotations` for each, lists in `ImageSets/Main`, and masks.

Parts: the image; `json` with `boxes`, `box_format` (xyxy), `label_names`, `difficult` and `annotation`, the whole
content of the XML; `seg.png` from `SegmentationClass`, and `instances.png` from `SegmentationObject`. The numbers of
boxes stay as they are in the file: pixels, counted from 1, of which the last belongs to the box.

Source: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/devkit_doc.pdf (the format).
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from xml.parsers import expat

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding, InputError, WdsctlError
from wdsctl.core.file_limits import MAX_DOCUMENT_BYTES
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    ListedSamples,
    list_folder,
    media_type_of,
    normalize_split_names,
    split_of_folder,
    unused_files_findings,
    unused_finding,
)
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options, encode_json
from wdsctl.core.importers.protocol import FieldUse, FilePart, FormatMatch, Options, Part, Source, SourceDescription
from wdsctl.core.samples.naming import safe_key
from wdsctl.core.text import path_for_message, pluralize

_MAX_XML_BYTES = 4 << 20
_MAX_DEPTH = 32
_IMAGE_FOLDERS = ("JPEGImages", "images", "Images")
_ANNOTATION_FOLDER = "Annotations"
_SPLIT_LISTS = "ImageSets/Main"
#: Folder of masks -> the part. The names are those of one mask for each image.
_MASKS = {"SegmentationClass": "seg.png", "SegmentationObject": "instances.png"}
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


class VocImporter:
    """Keys are the names of the images without the extension, below the folder of the year if there are several."""

    name = "voc"
    about = "Pascal VOC: an XML file of boxes for each image, and masks"

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            found = _find_devkits(path)
        except (OSError, WdsctlError):
            return None
        if not found:
            return None
        top, images = found[0]
        return FormatMatch(0.95, f"has {path_for_message(f'{top}{_ANNOTATION_FOLDER}')} of XML files, and {images}")

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        folder = _VocFolder(path)
        samples = ListedSamples(folder.files, folder.images, folder.make_sample)
        return SampleSource(samples, folder.split_names, folder.describe)


IMPORTER = VocImporter()


class _Image(NamedTuple):
    """An image, its XML file or "", its masks as (part, path), its key and its split or ""."""

    path: str
    annotation: str
    masks: tuple[tuple[str, str], ...]
    key: str
    split: str


class _VocFolder:
    """The images of one or several years, with their annotations, masks and splits."""

    def __init__(self, root: str) -> None:
        found = _find_devkits(root)
        if not found:
            raise InputError(
                f"the folder has no {_ANNOTATION_FOLDER} with XML files beside {' or '.join(_IMAGE_FOLDERS)}",
                hint="check the path",
                where=path_for_message(root),
                code="WDS003",
            )
        self.files = FolderFiles(root)
        self.images: list[_Image] = []
        self._lists: dict[str, str] = {}  # file -> split
        self._missing_in_lists: list[str] = []
        self._twice: list[str] = []
        words = {top: split_of_folder(top.rstrip("/")) for top, _ in found}
        splits = normalize_split_names(words.values())
        self._split_of_top = {top: splits[word] for top, word in words.items()}
        for top, images in found:
            self._add_images(top, images, prefix=top if len(found) > 1 else "")

    def _add_images(self, top: str, images: str, prefix: str) -> None:
        folder = f"{top}{images}/"
        splits = self._read_splits(top)
        split_of_top = "" if splits else self._split_of_top[top]
        stems: set[str] = set()
        for path in self.files.paths:
            if not path.startswith(folder) or media_type_of(path) != "image":
                continue
            stem = os.path.splitext(path[len(folder) :])[0]
            stems.add(stem)
            annotation = f"{top}{_ANNOTATION_FOLDER}/{stem}.xml"
            masks = [(part, f"{top}{name}/{stem}.png") for name, part in _MASKS.items()]
            self.images.append(
                _Image(
                    path,
                    annotation if annotation in self.files.paths else "",
                    tuple((part, mask) for part, mask in masks if mask in self.files.paths),
                    safe_key(f"{prefix}{stem}"),
                    splits.get(stem, split_of_top),
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

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self._lists.values(), *(image.split for image in self.images if image.split)]))

    def make_sample(self, image: _Image) -> SourceSample:
        """Read the annotation of an image. Raises DatasetError WDS233 for XML that cannot be read."""
        facts = self._read_annotation(image)
        parts: list[FilePart | Part] = [self.files.part(extension_of_name(image.path), image.path)]
        parts += [self.files.part(part, path) for part, path in image.masks]
        parts.append(Part("json", encode_json(facts)))
        return SourceSample(image.key, tuple(parts), split=image.split)

    def _read_annotation(self, image: _Image) -> dict[str, Any]:
        boxes: list[list[float]] = []
        facts: dict[str, Any] = {"boxes": boxes, "box_format": "xyxy", "label_names": [], "difficult": []}
        if not image.annotation:
            return facts
        where = os.path.join(self.files.root, image.annotation)
        content = parse_xml(self.files.read(image.annotation, _MAX_XML_BYTES), where)
        objects = content.get("object", []) if isinstance(content, dict) else []
        for each in objects:
            box = _box_of(each, where)
            if box is not None:
                boxes.append(box)
                facts["label_names"].append(each.get("name", ""))
                facts["difficult"].append(each.get("difficult") == "1")
        return {**facts, "annotation": content}

    def describe(self) -> SourceDescription:
        """Cost: reads all XML files."""
        counts: Counter[str] = Counter()
        example = ""
        for image in self.images:
            try:
                facts = self._read_annotation(image)
            except WdsctlError:
                continue  # reading the sample reports it
            counts["boxes"] += len(facts["boxes"])
            content = facts.get("annotation", {})
            objects = content.get("object", []) if isinstance(content, dict) else []
            counts["objects without a box"] += len(objects) - len(facts["boxes"])
            outside = sum(_is_outside(box, content.get("size")) for box in facts["boxes"])
            example = example or (path_for_message(image.annotation) if outside else "")
            counts["outside"] += outside
        unused = self._unused_files()
        findings = tuple(self._findings(counts, example, unused))
        return SourceDescription(tuple(self._field_uses(counts)), findings, self._config(), unused)

    def _unused_files(self) -> tuple[str, ...]:
        used = {*self._lists, *self._other_lists()}
        for image in self.images:
            used.update((image.path, image.annotation, *(path for _, path in image.masks)))
        return tuple(path for path in self.files.paths if path not in used)

    def _config(self) -> DatasetConfig:
        images = ",".join(sorted({extension_of_name(image.path) for image in self.images}))
        if not any(image.annotation for image in self.images) and any(image.masks for image in self.images):
            return DatasetConfig("SegmentationSample", {"image": images, "mask": "seg.png"})
        names = ("boxes", "box_format", "label_names")
        field_map = {"image": images, **{name: f"json[{name}]" for name in names}}
        return DatasetConfig("DetectionSample", field_map)  # sizes tell what boxes are drawn on

    def _field_uses(self, counts: Counter[str]) -> Iterator[FieldUse]:
        endings = sorted({extension_of_name(image.path) for image in self.images})
        yield FieldUse("images", ",".join(endings), pluralize(len(self.images), "sample"))
        annotated = sum(bool(image.annotation) for image in self.images)
        note = f"{annotated:,} files, {counts['boxes']:,} boxes as xyxy: pixels, counted from 1"
        yield FieldUse(f"{_ANNOTATION_FOLDER}/*.xml", "json[boxes], json[label_names], json[annotation]", note)
        for name, part in _MASKS.items():
            count = sum(part in dict(image.masks) for image in self.images)
            if count:
                note = (
                    "" if self._config().sample_type == "SegmentationSample" else "; for sample type SegmentationSample"
                )
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
        others = self._other_lists()
        if others:
            yield FieldUse("other lists in ImageSets", "", f"{len(others):,} files for other tasks or classes")

    def _other_lists(self) -> list[str]:
        pattern = re.compile(r"(.*/)?ImageSets/[^/]+/[^/]+\.txt")
        return [path for path in self.files.paths if pattern.fullmatch(path) and path not in self._lists]

    def _findings(self, counts: Counter[str], example: str, unused: Sequence[str]) -> Iterator[Finding]:
        twice = (
            f"in two lists, such as {path_for_message(self._twice[0])}: the first list counts" if self._twice else ""
        )
        for code, count, one, many, what in (
            ("WDS163", counts["outside"], "box", "boxes", f"partly outside the image, such as in {example}"),
            ("WDS163", counts["objects without a box"], "object", "", "without a bndbox: only json[annotation] has it"),
            ("WDS212", len(self._twice), "image", "", twice),
        ):
            if count:
                yield Finding(
                    code=code, severity="warning", message=f"{pluralize(count, one, many)} {what}", count=count
                )
        if self._missing_in_lists:
            yield Finding(
                code="WDS231",
                severity="error",
                message=f"no image for {pluralize(len(self._missing_in_lists), 'line')} of the lists, such as "
                f"{path_for_message(self._missing_in_lists[0])}",
                count=len(self._missing_in_lists),
            )
        unlisted = [image.path for image in self.images if self.split_names and not image.split]
        if unlisted:
            yield Finding(
                code="WDS213",
                severity="warning",
                message=f"{pluralize(len(unlisted), 'image')} in no split, such as {path_for_message(unlisted[0])}: "
                f"neither a list in {_SPLIT_LISTS} nor their folder names one",
                count=len(unlisted),
            )
        bare = [image.path for image in self.images if not image.annotation]
        if bare:
            yield Finding(
                code="WDS242",
                severity="warning",
                message=f"{pluralize(len(bare), 'image')} without an XML file, such as {path_for_message(bare[0])}: "
                "samples without boxes",
                count=len(bare),
            )
        lone = [path for path in unused if path.endswith(".xml") or any(f"{name}/" in path for name in _MASKS)]
        if lone:
            yield unused_finding(lone, "annotations without an image")
        rest = set(unused) - set(lone)
        yield from unused_files_findings(
            (path for path in unused if path in rest), "it is in none of VOC's folders", self.files.hidden
        )


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


def _is_outside(box: list[float], size: Any) -> bool:
    """Whether a box extends more than a pixel beyond the image. False if the annotation has no size."""
    try:
        width, height = (float(size[name]) for name in ("width", "height"))
    except (KeyError, TypeError, ValueError):
        return False
    left, top, right, bottom = box
    return min(left, top) < 0 or left > right or top > bottom or right > width + 1 or bottom > height + 1


def parse_xml(data: bytes, where: str) -> dict[str, Any] | str:
    """The content of an XML document: an element is its text, or an object of its elements; `object` and repeated
    elements are lists. Attributes get names such as `@id`.

    Raises DatasetError WDS233 for XML that is damaged, declares entities, or nests deeper than 32.
    """
    stack: list[tuple[dict[str, Any], list[str]]] = [({}, [])]

    def refuse(*_: Any) -> int:
        raise _xml_error("it declares entities, which can expand without end", where)

    def start(_: str, attributes: dict[str, str]) -> None:
        if len(stack) > _MAX_DEPTH:
            raise _xml_error(f"elements nest deeper than {_MAX_DEPTH}", where)
        stack.append(({f"@{name}": value for name, value in attributes.items()}, []))

    def characters(text: str) -> None:
        stack[-1][1].append(text)

    def end(name: str) -> None:
        children, texts = stack.pop()
        text = "".join(texts).strip()
        if children and text:
            children["#text"] = text
        value = children or text
        parent = stack[-1][0]
        if name in parent:
            if not isinstance(parent[name], list):
                parent[name] = [parent[name]]
            parent[name].append(value)
        else:
            parent[name] = [value] if name == "object" else value

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise _xml_error(str(error), where) from error
    content: dict[str, Any] | str = next(iter(stack[0][0].values()), "")
    return content


def _xml_error(why: str, where: str) -> DatasetError:
    return DatasetError(
        f"the XML cannot be read: {why}",
        hint="copy the file again from its origin",
        where=path_for_message(where),
        code="WDS233",
    )
