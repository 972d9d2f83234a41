"""Pictures with labels: what the formats of boxes have in common, and the source of those of annotation tools.

A format says which file has the labels of which picture, and makes of these labels the fields of a `DetectionSample`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding, WdsctlError
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
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    media_type_of,
    scan_folder,
    unused_files_findings,
)
from wdsctl.core.importers.common.values import encode_json
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Part, Source, SourceDescription
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_SCORE = 0.96  # the content of the labels says it; folders of parts and tables score less
_FIELDS = ("boxes", "box_format", "label_names", "masks", "is_crowd", "areas")

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Labels:
    """All labels of a source.

    `parse` makes the fields of a sample: `boxes`, `box_format`, `label_names` and others of `DetectionSample`, `width`
    and `height` if they are known, and `objects`, the number of objects with and without a box. It raises
    DatasetError. `files`: the files with labels. `left_out`: files that have no labels in this dataset, and why.
    `classes`: the names of classes of whole pictures, for labels that have no objects; `parse` then gives
    `label_name`.
    """

    pictures: Sequence[AnnotatedSample]
    parse: Callable[[Any], Facts]
    files: Sequence[str]
    uses: Sequence[FieldUse] = ()
    left_out: Sequence[str] = ()
    left_out_reason: str = ""
    field_map: Mapping[str, str] | None = None
    classes: Sequence[str] = ()
    boxes_of: Callable[[Facts], Sequence[Any]] = lambda facts: facts.get("boxes", ())
    close: Callable[[], None] = lambda: None


def label_format(
    name: str, about: str, find: Callable[[str], str], read: Callable[[FolderFiles, str], Labels], what: str
) -> AnnotationFormat:
    """An importer of labelled pictures. `find` returns why a path has the format, or nothing. `read` lists the labels;
    its second argument is the name of the file with the labels if the user named one. `what`: for the error.
    """

    def match(path: str) -> FormatMatch | None:
        reason = find(path)
        return FormatMatch(_SCORE, reason) if reason else None

    def open_labels(path: str) -> Source:
        if not importer.recognise(path):
            raise not_found_error(f"the source has no {what}", path)
        file = "" if source_files.is_folder(path) else os.path.basename(path)
        files = FolderFiles(os.path.dirname(path) or "." if file else path)
        return _make_source(files, read(files, file), is_whole=not file)

    importer = AnnotationFormat(name, about, match, open_labels)
    return importer


def find_label_files(path: str, ending: str, is_one: Callable[[str], bool]) -> list[str]:
    """The files with labels at the top of a folder, or the file itself; relative to the folder."""
    if source_files.is_folder(path):
        names = [name for name in scan_folder(path, path).files if name.lower().endswith(ending)]
        return [name for name in names if is_one(os.path.join(path, name))]
    is_file = path.lower().endswith(ending) and source_files.is_file(path)
    return [os.path.basename(path)] if is_file and is_one(path) else []


def _make_source(files: FolderFiles, labels: Labels, *, is_whole: bool) -> Source:
    pictures = name_splits(labels.pictures)

    def read_parts(label: Any) -> list[Part]:
        facts = labels.parse(label)
        facts.pop("objects", None)
        if "label_name" in facts:
            facts["label"] = labels.classes.index(facts["label_name"])
        return [Part("json", encode_json(facts))]

    def describe() -> SourceDescription:
        """Cost: reads all labels."""
        survey = survey_boxes(pictures, labels.parse, boxes_of=labels.boxes_of)
        unused = unused_files(files, pictures, labels.files)
        findings = [
            *box_findings(survey, "picture", "an area, such as points and lines"),
            *unlabelled_findings(pictures, "picture", "labels", "objects"),
        ]
        left_out = set(labels.left_out)
        if left_out:
            findings.append(
                Finding(code="WDS239", severity="warning", message=labels.left_out_reason, count=len(left_out))
            )
        rest = [path for path in unused if path not in left_out]
        for finding in unused_files_findings(rest, "no label names it", files.hidden):
            # Beside a file that the user named may be anything.
            is_error = is_whole or finding.severity != "error"
            findings.append(finding if is_error else replace(finding, severity="warning"))
        uses = [*_field_uses(labels, pictures, survey), *split_uses("splits", pictures)]
        return SourceDescription(tuple(uses), tuple(findings), _config(labels, survey), unused)

    return make_annotated_source(files, pictures, read_parts, describe, close=labels.close)


def _config(labels: Labels, survey: BoxSurvey) -> DatasetConfig:
    image = {"image": endings_of(labels.pictures)}
    if labels.field_map is not None:
        return DatasetConfig("DetectionSample", {**image, **labels.field_map}, drawn_on="shown")
    if labels.classes:
        fields = {name: f"json[{name}]" for name in ("label", "label_name")}
        return DatasetConfig("ImageClassificationSample", {**image, **fields})
    required = ("boxes", "box_format")
    optional = tuple(name for name in _FIELDS if name not in required and survey.filled[name])
    fields = {name: f"json[{name}]" for name in (*required, *optional)}
    return DatasetConfig(
        "DetectionSample",
        {**image, **fields},
        optional=tuple(name for name in optional if name != "label_names"),
        drawn_on="shown",
    )


def _field_uses(labels: Labels, pictures: Sequence[AnnotatedSample], survey: BoxSurvey) -> Iterator[FieldUse]:
    yield FieldUse("pictures", endings_of(pictures), pluralize(len(pictures), "sample"))
    if labels.classes:
        names = f"{pluralize(len(labels.classes), 'class', 'classes')}, numbered by name"
        yield FieldUse("classes", "json[label], json[label_name]", names)
    else:
        yield FieldUse("objects", "json", pluralize(survey.boxes, "box", "boxes"))
    yield from labels.uses


class BoxSurvey(NamedTuple):
    """What all labels say. `filled`: field -> the pictures in which it has a value. `example`: of a box outside."""

    boxes: int
    without_box: int
    outside: int
    example: str
    filled: Counter[str]


def is_outside_pixels(box: Sequence[float], facts: Facts) -> bool:
    """Whether a box in pixels extends more than a pixel beyond the picture. False if the size is not known."""
    width, height = facts.get("width"), facts.get("height")
    if not isinstance(width, int | float) or not isinstance(height, int | float):
        return False
    left, top, right, bottom = box
    if facts["box_format"] == "xywh":
        right, bottom = left + right, top + bottom
    return min(left, top) < -1 or right > width + 1 or bottom > height + 1


def survey_boxes(
    pictures: Iterable[AnnotatedSample],
    parse: Callable[[Any], Facts],
    is_outside: Callable[[Sequence[float], Facts], bool] = is_outside_pixels,
    boxes_of: Callable[[Facts], Sequence[Any]] = lambda facts: facts.get("boxes", ()),
) -> BoxSurvey:
    """Cost: reads all labels."""
    filled: Counter[str] = Counter()
    count = without_box = outside = 0
    example = ""
    for picture in pictures:
        try:
            facts = parse(picture.label)
        except WdsctlError:
            continue  # reading the sample reports it
        boxes = boxes_of(facts)
        outside_here = sum(is_outside(box, facts) for box in boxes)
        example = example or (picture.where if outside_here else "")
        count, outside = count + len(boxes), outside + outside_here
        without_box += facts.get("objects", len(boxes)) - len(boxes)
        filled.update(name for name in facts if facts[name])
    return BoxSurvey(count, without_box, outside, example, filled)


def box_findings(survey: BoxSurvey, medium: str, lacks: str) -> list[Finding]:
    """`medium`: the word for a picture. `lacks`: what objects without a box have not."""
    boxes, objects = pluralize(survey.outside, "box", "boxes"), pluralize(survey.without_box, "object")
    rows = (
        (survey.outside, f"{boxes} partly outside the {medium}, such as in {survey.example}"),
        (survey.without_box, f"{objects} without {lacks}: only json[annotation] has it"),
    )
    return [
        Finding(code="WDS163", severity="warning", message=message, count=count) for count, message in rows if count
    ]


def unlabelled_findings(pictures: Iterable[AnnotatedSample], medium: str, lacks: str, what: str) -> list[Finding]:
    """`medium`: the word for a picture. `lacks`: what some have not. `what`: their samples have not, in consequence."""
    bare = [each.path for each in pictures if each.label is None]
    return findings_about("WDS242", bare, medium, f"without {lacks}", f": samples without {what}")


def missing_in_lists(missing: Sequence[str], lists: str) -> list[Finding]:
    """`missing`: what lines of the lists of splits name, and no picture is."""
    if not missing:
        return []
    message = f"no image for {pluralize(len(missing), 'line')} of {lists}, such as {path_for_message(missing[0])}"
    return [Finding(code="WDS231", severity="error", message=message, count=len(missing))]


class PictureIndex:
    """The pictures of a folder, found by the names that labels have for them."""

    def __init__(self, files: FolderFiles) -> None:
        self._paths = files.paths
        self._by_name: dict[str, list[str]] = {}
        for path in files.paths:
            if media_type_of(path) == "image":
                self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def find(self, reference: str, folder: str = "") -> str:
        """The picture that labels in `folder` (with a trailing slash) name; empty if there is none, or several.

        Tools keep paths of the machine that labelled: of pictures with the same name, the one whose folders agree best.
        """
        reference = reference.replace("\\", "/")
        for path in (os.path.normpath(f"{folder}{reference}"), os.path.normpath(reference)):
            if path in self._paths:
                return path
        found = self._by_name.get(reference.rpartition("/")[2], [])
        scores = [_common_tail(path, reference) for path in found]
        best = [path for path, score in zip(found, scores, strict=True) if score == max(scores)]
        return best[0] if len(best) == 1 else ""

    def rest(self, pictures: Iterable[AnnotatedSample]) -> list[str]:
        """The pictures that no labels name."""
        named = {each.path for each in pictures}
        return [path for paths in self._by_name.values() for path in paths if path not in named]


def _common_tail(path: str, reference: str) -> int:
    """How many folders before the name agree."""
    pairs = zip(reversed(path.split("/")), reversed(reference.split("/")), strict=False)
    return next((count for count, (one, other) in enumerate(pairs) if one != other), 1 << 16)


def bounds(points: Sequence[Sequence[float]]) -> list[float]:
    """[left, top, right, bottom] of points."""
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return [min(xs), min(ys), max(xs), max(ys)]


class Shape(NamedTuple):
    """An object with an area. `box`: xyxy. `polygon`: [x, y, x, y, ...]; None if its box is all that is known."""

    name: str
    box: list[float]
    polygon: list[float] | None = None


def polygon_shape(name: str, points: Sequence[Sequence[float]]) -> Shape:
    return Shape(name, bounds(points), [each for point in points for each in point])


def shape_facts(shapes: Sequence[Shape]) -> Facts:
    """The fields of objects: `masks` only if one has a polygon."""
    masks = [[each.polygon] if each.polygon else None for each in shapes]
    boxes, names = [each.box for each in shapes], [each.name for each in shapes]
    facts: Facts = {"boxes": boxes, "box_format": "xyxy", "label_names": names}
    return facts | ({"masks": masks} if any(masks) else {})


def label_error(what: str, where: str) -> DatasetError:
    """Return the error for labels that cannot be read."""
    return DatasetError(what, hint="correct the labels", where=where, code="WDS232")


def refuse_labels(what: str, where: str) -> NoReturn:
    """Raise the error for labels that cannot be read."""
    raise label_error(what, where)
