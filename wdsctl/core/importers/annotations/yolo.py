"""YOLO: images, and a text file of objects for each, in `images` and `labels` or side by side.

A row of a label file is `class cx cy w h`, in shares of the image's width and height; or `class x1 y1 x2 y2 ...`, a
polygon, whose bounds are the box; or, if data.yaml has `kpt_shape`, a box and its keypoints. Parts: the image, and
`json` with `boxes`, `box_format` (normalized_cxcywh), `labels`, `label_names`, and `masks` or `keypoints`.

Source: https://docs.ultralytics.com/datasets/detect/ (and segment, pose), which also defines that an image without a
label file has no objects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
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
    name_splits,
    not_found_error,
    split_uses,
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
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    list_folder,
    media_type_of,
    split_of_folder,
    split_of_path,
    unused_files_findings,
    unused_finding,
)
from wdsctl.core.importers.common.values import encode_json, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Part, Source, SourceDescription
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize
from wdsctl.core.yaml_files.document import parse_yaml

_MAX_LABEL_BYTES = 16 << 20
_MAX_YAML_BYTES = 1 << 20
_PROBED_LABELS = 5
_MAX_WRAPPERS = 3
_ROW = re.compile(rb"\s*\d+(\.0*)?(\s+[-+0-9.eE]+){4,}\s*")
_NAME_FILES = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml", "classes.txt", "obj.names")
_SPLIT_KEYS = ("train", "val", "test")
#: How far outside of 0 to 1 a value may be: tools round to few digits.
_TOLERANCE = 0.01


def _match(path: str) -> FormatMatch | None:
    root = _root_of(path)
    for folder in _label_folders(root):
        names = [name for name in list_folder(folder, root).files if _is_label_name(name)][:_PROBED_LABELS]
        heads = [read_head(os.path.join(folder, name)) for name in names]
        rows = [row for head in heads for row in head.splitlines()[:20] if row.strip()]
        if rows and all(map(_ROW.fullmatch, rows[: len(rows) - 1] or rows)):
            shown = path_for_message(os.path.relpath(os.path.join(folder, names[0]), root))
            # A file named data.yaml might be a blend file, too: the labels beside it say that it is not.
            score = 0.9 if source_files.is_folder(path) else 0.95
            return FormatMatch(score, f"{shown} has rows of a class and a box")
        if rows:
            break
    return None


def _read(path: str) -> Source:
    folder = _YoloFolder(_root_of(path))
    return make_annotated_source(folder.files, folder.images, folder.read_parts, folder.describe)


class _YoloFolder:
    """The images of a folder, with their labels, and the names of classes."""

    def __init__(self, root: str) -> None:
        self.files = FolderFiles(root)
        self._settings, self._names_file = _read_settings(self.files)
        self._names = _class_names(self._settings, f"{path_for_message(root)}/{self._names_file}")
        # Tools write classes.txt beside data.yaml.
        self._other_names_files = [
            path
            for name in _NAME_FILES
            for path in (name, f"labels/{name}")
            if name.endswith((".txt", ".names")) and path in self.files.paths and path != self._names_file
            if _read_names(self.files, path) == list(self._names.values())
        ]
        self._keypoint_shape = _keypoint_shape(self._settings)
        values = ((self._settings.get(split), split) for split in _SPLIT_KEYS)
        listed = ((each, split) for value, split in values for each in (value if isinstance(value, list) else [value]))
        self._named = [(each, split) for each, split in listed if isinstance(each, str)]  # lists and folders
        self._missing_in_lists: list[str] = []
        self._twice: list[str] = []
        self._list_files: list[str] = []
        split_of = self._splits_by_list()
        folders = self._splits_by_folder()
        paths = [path for path in self.files.paths if media_type_of(path) == "image"]
        self._twice += [path for path in paths if path not in split_of and len(set(_named_splits(path, folders))) > 1]
        if not paths:
            raise not_found_error("the folder has no images", root)
        self.images = name_splits(
            AnnotatedSample(
                path,
                label := self._label_of(path) or None,
                where=path_for_message(label or ""),
                split=split_of.get(path) or _split(path, folders),
            )
            for path in paths
        )

    def _label_of(self, path: str) -> str:
        """The label file of an image: in `labels` for an image in `images`, or else beside it; empty if none."""
        stem = strip_extension(path)
        *folders, name = stem.split("/")
        places = [at for at, folder in enumerate(folders) if folder == "images"]
        # The last `images` counts; `images/images` of an unpacked zip may be beside `labels/labels`.
        for replaced in [{at} for at in reversed(places)] + [set(places)]:
            label = "/".join(
                [*("labels" if at in replaced else each for at, each in enumerate(folders)), f"{name}.txt"]
            )
            if label in self.files.paths and (replaced or not places):
                return label
        return ""

    def _splits_by_list(self) -> dict[str, str]:
        """Image -> split, from the lists that data.yaml names, and train.txt, val.txt and test.txt."""
        found: dict[str, str] = {}
        lists = {f"{split}.txt": split for split in _SPLIT_KEYS}
        lists |= {_inside(each, self.files.root): split for each, split in self._named if each.endswith(".txt")}
        for name, split in lists.items():
            if name not in self.files.paths:
                continue
            self._list_files.append(name)
            folder = os.path.dirname(name)
            for line in self.files.read(name, MAX_DOCUMENT_BYTES).decode("utf-8-sig", "surrogateescape").splitlines():
                path = line.strip()
                if os.path.isabs(path):
                    path = os.path.relpath(path, source_files.absolute(self.files.root))
                candidates = [os.path.normpath(os.path.join(folder, path)), os.path.normpath(path)]
                image = next((each for each in candidates if each in self.files.paths), "")
                if image and found.setdefault(image, split) != split:
                    self._twice.append(image)
                elif not image and line.strip():
                    self._missing_in_lists.append(line.strip())
        return found

    def _splits_by_folder(self) -> list[tuple[str, str]]:
        """(folder, split) of data.yaml: `val: ../valid/images` is the folder `valid/images`. It may name one twice."""
        return [
            (f"{_inside(each, self.files.root)}/", split) for each, split in self._named if not each.endswith(".txt")
        ]

    def read_parts(self, label: str | None) -> list[Part]:
        return [Part("json", encode_json(self._read_objects(label)))]

    def _read_objects(self, label: str | None) -> Facts:
        """The fields of `json`. Raises DatasetError WDS232 for rows that are no objects."""
        labels, boxes, masks, keypoints = list[int](), list[list[float]](), list[Any](), list[Any]()
        text = self.files.read(label, _MAX_LABEL_BYTES).removeprefix(b"\xef\xbb\xbf") if label else b""
        for number, row in enumerate(text.splitlines(), 1):
            if row.strip():
                where = f"{path_for_message(os.path.join(self.files.root, label or ''))}:{number}"
                kind, values = self._parse_row(row, where)
                box, mask, points = self._split_values(values, where)
                labels.append(kind)
                boxes.append(box)
                masks.append(mask)
                keypoints.append(points)
        facts: Facts = {"boxes": boxes, "box_format": "normalized_cxcywh", "labels": labels}
        facts |= {"label_names": [self._names[label] for label in labels]} if self._names else {}
        facts |= {"masks": masks} if any(masks) else {}
        facts |= {"keypoints": keypoints} if any(keypoints) else {}
        return facts

    def _parse_row(self, row: bytes, where: str) -> tuple[int, list[float]]:
        """(class, values) of a row. Raises DatasetError WDS232."""
        try:
            number, *values = map(float, row.split())
        except ValueError as error:
            raise _row_error("expected numbers, found text", where) from error
        kind = int(number) if number.is_integer() and number >= 0 else -1
        if kind < 0 or (self._names and kind not in self._names):
            known = f"0 to {max(self._names)}" if self._names else "a whole number"
            raise _row_error(f"the class is {number:g}, expected {known}", where)
        return kind, values

    def _split_values(self, values: list[float], where: str) -> tuple[list[float], list[list[float]] | None, Any]:
        """(box, polygons, keypoints) of the values after the class."""
        points, dimensions = self._keypoint_shape
        box, rest = values[:4], values[4:]
        if points and len(rest) == points * dimensions:
            _check_shares(box + [value for at, value in enumerate(rest) if at % dimensions < 2], where)
            return box, None, [rest[at : at + dimensions] for at in range(0, len(rest), dimensions)]
        if points or (rest and (len(values) < 6 or len(values) % 2)) or len(box) < 4:
            expected = f"4 and {points} x {dimensions} values" if points else "4 values, or pairs for a polygon"
            raise _row_error(f"the row has {len(values)} values after the class, expected {expected}", where)
        _check_shares(values, where)
        if not rest:
            return box, None, None
        left, right, top, bottom = min(values[::2]), max(values[::2]), min(values[1::2]), max(values[1::2])
        return [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], [values], None

    def describe(self) -> SourceDescription:
        """Cost: reads all label files."""
        survey = survey_boxes(self.images, self._read_objects, _is_outside)
        labels = (image.label for image in self.images if image.label)
        read = (self._names_file, *self._other_names_files, *self._list_files, *labels)
        unused = unused_files(self.files, self.images, read)
        findings = tuple(self._findings(survey, unused))
        return SourceDescription(tuple(self._field_uses(survey)), findings, self._config(survey), unused)

    def _config(self, survey: BoxSurvey) -> DatasetConfig:
        names = ["boxes", "box_format", "labels", *(["label_names"] if self._names else [])]
        optional = tuple(name for name in ("masks", "keypoints") if survey.filled[name])
        return DatasetConfig(
            "DetectionSample",
            {"image": endings_of(self.images), **{name: f"json[{name}]" for name in (*names, *optional)}},
            optional=optional,
            drawn_on="shown",  # tools that write and train on this format turn images by EXIF
        )

    def _field_uses(self, survey: BoxSurvey) -> Iterator[FieldUse]:
        yield FieldUse("images", endings_of(self.images), pluralize(len(self.images), "sample"))
        labelled = sum(bool(image.label) for image in self.images)
        note = f"{labelled:,} files, {survey.boxes:,} boxes: center, width and height as fractions of the image"
        yield FieldUse("label files", "json[boxes], json[labels]", note)
        for name in ("masks", "keypoints"):
            if survey.filled[name]:
                note = f"in {pluralize(survey.filled[name], 'image')}"
                yield FieldUse(f"{name} in label files", f"json[{name}]", note)
        if self._names:
            yield FieldUse(f"{self._names_file}: names", "json[label_names]", f"{len(self._names):,} names")
        else:
            yield FieldUse("names of classes", "", "no data.yaml or classes.txt found: labels are numbers only")
        for path in self._other_names_files:
            yield FieldUse(path, "", f"{self._names_file} has the same names")
        read = {"names", *_SPLIT_KEYS, "kpt_shape"}
        for name in self._settings:
            if name not in read:
                yield FieldUse(f"{self._names_file}: {name}", "", "about the dataset, not about one sample")
        yield from split_uses("folders and lists", self.images)

    def _findings(self, survey: BoxSurvey, unused: Sequence[str]) -> Iterator[Finding]:
        yield from box_findings(survey, "image", "a box")
        yield from unlabelled_findings(self.images, "image", "a label file", "objects")
        twice = "in two lists or folders of splits"
        yield from findings_about("WDS212", self._twice, "image", twice, ": the first one counts")
        unlisted = [image.path for image in self.images if not image.split]
        if len(unlisted) < len(self.images):
            consequence = ": neither a list nor its folder names one"
            yield from findings_about("WDS213", unlisted, "image", "in no split", consequence)
        yield from missing_in_lists(self._missing_in_lists, ", ".join(self._list_files))
        labels = {path: None for path in unused if _is_label_name(os.path.basename(path)) and self._is_label(path)}
        if labels:
            yield unused_finding([*labels], "label files without an image")
        rest = [path for path in unused if path not in labels]
        yield from unused_files_findings(rest, "neither an image nor its label file", self.files.hidden)

    def _is_label(self, path: str) -> bool:
        head = read_head(os.path.join(self.files.root, path), 1 << 12).splitlines()
        return "labels" in path.split("/") or (bool(head) and _ROW.fullmatch(head[0]) is not None)


def _root_of(path: str) -> str:
    """The folder of the dataset: the folder of its data.yaml, or the path itself, or a lone folder in it.

    Raises OSError, and errors of listing folders.
    """
    if os.path.basename(path) in _NAME_FILES and source_files.is_file(path):
        return os.path.dirname(path) or "."
    root = path
    for _ in range(_MAX_WRAPPERS if source_files.is_folder(path) else 0):
        names = list_folder(root, path)
        if names.files or len(names.folders) != 1 or split_of_folder(names.folders[0]):
            break
        root = os.path.join(root, names.folders[0])
    return root


def _label_folders(root: str) -> list[str]:
    """Folders that may have label files: those named `labels`, or the root if it has names of classes and images."""
    top = list_folder(root, root)
    found = []
    for outer in ["", *(f"{name}/" for name in top.folders if split_of_folder(name))]:
        names = top.folders if not outer else list_folder(os.path.join(root, outer), root).folders
        if "labels" in names and "images" in names:
            inner = list_folder(os.path.join(root, f"{outer}labels"), root).folders
            found += [os.path.join(root, f"{outer}labels", name) for name in ("", *inner)]
    if not found and any(name in top.files for name in _NAME_FILES):
        found = [os.path.join(root, name) for name in ("", *top.folders)]
        found = [folder for folder in found if any(media_type_of(name) for name in list_folder(folder, root).files)]
    return found


def _is_label_name(name: str) -> bool:
    return name.endswith(".txt") and name not in (*_NAME_FILES, *(f"{split}.txt" for split in _SPLIT_KEYS))


def _read_settings(files: FolderFiles) -> tuple[dict[str, Any], str]:
    """(content of data.yaml, its name); the names of classes.txt in the same form; ({}, "") if there is neither."""
    for name in _NAME_FILES:
        path = next((each for each in (name, f"labels/{name}") if each in files.paths), "")
        if not path:
            continue
        if name.endswith((".yaml", ".yml")):
            text = files.read(path, _MAX_YAML_BYTES).decode("utf-8", "surrogateescape")
            data = parse_yaml(text, os.path.join(files.root, path)).data
            if isinstance(data, dict) and "names" in data:
                return dict(data), path
            continue
        return {"names": _read_names(files, path)}, path
    return {}, ""


def _read_names(files: FolderFiles, path: str) -> list[str]:
    """The names of classes, a line each. A blank line between names has a number, too."""
    text = files.read(path, _MAX_YAML_BYTES).decode("utf-8-sig", "surrogateescape")
    return [line.strip() for line in text.rstrip().splitlines()]


def _class_names(settings: Mapping[str, Any], where: str) -> dict[int, str]:
    """Number -> name, from a list or an object. Raises DatasetError WDS233 for anything else."""
    names = settings.get("names", [])
    if isinstance(names, list):
        return {number: str(name) for number, name in enumerate(names)}
    if isinstance(names, dict) and all(str(number).isdecimal() for number in names):
        return {int(number): str(name) for number, name in names.items()}
    raise DatasetError(
        "names: expected a list, or an object of numbers and names",
        hint="correct data.yaml: `names: [cat, dog]`",
        where=where,
        code="WDS233",
    )


def _keypoint_shape(settings: Mapping[str, Any]) -> tuple[int, int]:
    """(keypoints, values of each); (0, 0) if there are none."""
    shape = settings.get("kpt_shape")
    if (
        isinstance(shape, list)
        and len(shape) == 2
        and all(isinstance(each, int) for each in shape)
        and shape[1] in (2, 3)
    ):
        return max(shape[0], 0), shape[1]
    return 0, 0


def _inside(reference: str, root: str) -> str:
    """A path of data.yaml relative to its folder. Roboflow writes `../train/images` for `train/images`."""
    if os.path.isabs(reference):
        return os.path.relpath(reference, source_files.absolute(root))
    return os.path.normpath(reference).removeprefix("../").rstrip("/")


def _named_splits(path: str, folders: Sequence[tuple[str, str]]) -> list[str]:
    """The splits whose folders in data.yaml have an image."""
    return [split for folder, split in folders if path.startswith(folder)]


def _split(path: str, folders: Sequence[tuple[str, str]]) -> str:
    """The split of an image by its folders: those of data.yaml, or the first that is named like a split."""
    named = next(iter(_named_splits(path, folders)), "")
    return named or split_of_path(path)


def _check_shares(values: list[float], where: str) -> None:
    odd = next((value for value in values if not -_TOLERANCE <= value <= 1 + _TOLERANCE), None)
    if odd is not None:
        raise _row_error(f"{odd:g} is not a fraction of the image: expected 0 to 1", where)


def _is_outside(box: Sequence[float], _: Facts) -> bool:
    x, y, width, height = box
    return any(
        center - size / 2 < -_TOLERANCE or center + size / 2 > 1 + _TOLERANCE
        for center, size in ((x, width), (y, height))
    )


def _row_error(what: str, where: str) -> DatasetError:
    return DatasetError(
        what, hint="correct the row: `class cx cy w h`, as fractions of width and height", where=where, code="WDS232"
    )


IMPORTER = AnnotationFormat("yolo", "YOLO boxes, polygons or keypoints: a text file for each image", _match, _read)
