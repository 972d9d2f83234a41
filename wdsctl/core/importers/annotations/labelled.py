"""Pictures with labels of their own: what the formats of annotation tools have in common.

A format says which file has the labels of which picture, and makes of these labels the fields of a `DetectionSample`.
This module makes the samples: the picture, further files, and `json` with the fields. It accounts for every picture,
every object and every other file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding, InputError, WdsctlError
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    ListedSamples,
    media_type_of,
    normalize_split_names,
    split_of_folder,
    unused_files_findings,
)
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options, encode_json
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Part, Source, SourceDescription
from wdsctl.core.samples.naming import safe_key, strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_SCORE = 0.96  # the content of the labels says it; folders of parts and tables score less
_FIELDS = ("boxes", "box_format", "label_names", "masks", "is_crowd", "areas")


class LabelledPicture(NamedTuple):
    """A picture, or labels whose picture was not found: `path` is empty then, and `reference` is what they name.

    `label`: what `Labels.parse` takes; None for a picture without labels. `where`: the labels, in messages. `extras`:
    further parts, as (name of the part, path).
    """

    path: str
    label: Any
    where: str = ""
    reference: str = ""
    split: str = ""
    extras: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Labels:
    """All labels of a source.

    `parse` makes the fields of a sample: `boxes`, `box_format`, `label_names` and others of `DetectionSample`, `width`
    and `height` if they are known, and `objects`, the number of objects with and without a box. It raises
    DatasetError. `files`: the files with labels. `left_out`: files that have no labels in this dataset, and why.
    `classes`: the names of classes of whole pictures, for labels that have no objects; `parse` then gives
    `label_name`.
    """

    pictures: Sequence[LabelledPicture]
    parse: Callable[[Any], dict[str, Any]]
    files: Sequence[str]
    uses: Sequence[FieldUse] = ()
    left_out: Sequence[str] = ()
    left_out_reason: str = ""
    field_map: Mapping[str, str] | None = None
    classes: Sequence[str] = ()
    boxes_of: Callable[[dict[str, Any]], Sequence[Any]] = lambda facts: facts.get("boxes", ())
    close: Callable[[], None] = lambda: None


class LabelFormat(NamedTuple):
    """An importer of labelled pictures. `find` returns why a path has the format, or nothing; it may raise OSError and
    WdsctlError. `read` lists the labels; the name is that of the file with the labels if the user named one.
    """

    name: str
    about: str
    find: Callable[[str], str]
    read: Callable[[FolderFiles, str], Labels]
    what: str  # is expected, in the error

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            reason = self.find(path)
        except (OSError, WdsctlError):
            return None
        return FormatMatch(_SCORE, reason) if reason else None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        if not self.recognise(path):
            raise InputError(
                f"the source has no {self.what}", hint="check the path", where=path_for_message(path), code="WDS003"
            )
        name = "" if source_files.is_folder(path) else os.path.basename(path)
        files = FolderFiles(os.path.dirname(path) or "." if name else path)
        folder = _LabelledFolder(files, self.read(files, name), is_whole=not name)
        samples = ListedSamples(files, folder.labels.pictures, folder.make_sample, close=folder.labels.close)
        return SampleSource(samples, folder.split_names, folder.describe)


class _LabelledFolder:
    def __init__(self, files: FolderFiles, labels: Labels, *, is_whole: bool) -> None:
        self.files = files
        self.labels = labels
        self._is_whole = is_whole
        self._splits = normalize_split_names(dict.fromkeys(each.split for each in labels.pictures if each.split))

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(self._splits.values())

    def make_sample(self, picture: LabelledPicture) -> SourceSample:
        """Read the labels of a picture. Raises DatasetError WDS231 for labels without one."""
        if not picture.path:
            raise DatasetError(
                f"{path_for_message(picture.reference)!r}: no picture of this name is in the folder",
                hint="copy the picture into the folder of the labels",
                where=picture.where,
                code="WDS231",
            )
        parts = [self.files.part(extension_of_name(picture.path), picture.path)]
        parts += [self.files.part(name, path) for name, path in picture.extras]
        facts = self.labels.parse(picture.label)
        facts.pop("objects", None)
        if "label_name" in facts:
            facts["label"] = self.labels.classes.index(facts["label_name"])
        key = safe_key(strip_extension(picture.path))
        split = self._splits.get(picture.split, "")
        return SourceSample(key, (*parts, Part("json", encode_json(facts))), split=split)

    def describe(self) -> SourceDescription:
        """Cost: reads all labels."""
        counts: Counter[str] = Counter()
        filled: set[str] = set()
        example = ""
        for picture in self.labels.pictures:
            try:
                facts = self.labels.parse(picture.label)
            except WdsctlError:
                continue  # reading the sample reports it
            boxes = self.labels.boxes_of(facts)
            counts["boxes"] += len(boxes)
            counts["no box"] += facts.get("objects", len(boxes)) - len(boxes)
            filled.update(name for name in _FIELDS if facts.get(name))
            size = facts.get("width"), facts.get("height")
            outside = sum(_is_outside(box, facts["box_format"], size) for box in boxes)
            example = example or (picture.where if outside else "")
            counts["outside"] += outside
        unused = self._unused_files()
        return SourceDescription(
            tuple(self._field_uses(counts)),
            tuple(self._findings(counts, example, unused)),
            self._config(filled),
            unused,
        )

    def _unused_files(self) -> tuple[str, ...]:
        used = {*self.labels.files}
        for picture in self.labels.pictures:
            used.update((picture.path, *(path for _, path in picture.extras)))
        return tuple(path for path in self.files.paths if path not in used)

    def _endings(self) -> str:
        return ",".join(sorted({extension_of_name(each.path) for each in self.labels.pictures if each.path}))

    def _config(self, filled: set[str]) -> DatasetConfig:
        if self.labels.field_map is not None:
            return DatasetConfig(
                "DetectionSample", {"image": self._endings(), **self.labels.field_map}, drawn_on="shown"
            )
        if self.labels.classes:
            fields = {name: f"json[{name}]" for name in ("label", "label_name")}
            return DatasetConfig("ImageClassificationSample", {"image": self._endings(), **fields})
        required = ("boxes", "box_format")
        optional = tuple(name for name in _FIELDS if name not in required and name in filled)
        fields = {name: f"json[{name}]" for name in (*required, *optional)}
        return DatasetConfig(
            "DetectionSample",
            {"image": self._endings(), **fields},
            optional=tuple(name for name in optional if name != "label_names"),
            drawn_on="shown",
        )

    def _field_uses(self, counts: Counter[str]) -> Iterator[FieldUse]:
        yield FieldUse("pictures", self._endings(), pluralize(len(self.labels.pictures), "sample"))
        if self.labels.classes:
            names = f"{pluralize(len(self.labels.classes), 'class', 'classes')}, numbered by name"
            yield FieldUse("classes", "json[label], json[label_name]", names)
        else:
            yield FieldUse("objects", "json", pluralize(counts["boxes"], "box", "boxes"))
        yield from self.labels.uses
        by_split = Counter(self._splits.get(each.split, "") for each in self.labels.pictures)
        for split in self.split_names:
            yield FieldUse("splits", f"split {split}", pluralize(by_split[split], "sample"))

    def _findings(self, counts: Counter[str], example: str, unused: Sequence[str]) -> Iterator[Finding]:
        for count, one, many, what in (
            (counts["outside"], "box", "boxes", f"partly outside the picture, such as in {example}"),
            (counts["no box"], "object", "", "without an area, such as points and lines: only json[annotation] has it"),
        ):
            if count:
                message = f"{pluralize(count, one, many)} {what}"
                yield Finding(code="WDS163", severity="warning", message=message, count=count)
        bare = [each.path for each in self.labels.pictures if each.label is None]
        if bare:
            yield Finding(
                code="WDS242",
                severity="warning",
                message=f"{pluralize(len(bare), 'picture')} without labels, such as {path_for_message(bare[0])}: "
                "samples without objects",
                count=len(bare),
            )
        left_out = set(self.labels.left_out)
        if left_out:
            yield Finding(code="WDS239", severity="warning", message=self.labels.left_out_reason, count=len(left_out))
        rest = [path for path in unused if path not in left_out]
        for finding in unused_files_findings(rest, "no label names it", self.files.hidden):
            # Beside a file that the user named may be anything.
            yield finding if self._is_whole or finding.severity != "error" else replace(finding, severity="warning")


def split_of_path(path: str) -> str:
    """The word of the first folder that is named like a split; empty if there is none."""
    return next(filter(None, map(split_of_folder, path.split("/")[:-1])), "")


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

    def rest(self, pictures: Iterable[LabelledPicture]) -> list[str]:
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


def _is_outside(box: Sequence[float], box_format: str, size: tuple[Any, Any]) -> bool:
    """Whether a box in pixels extends more than a pixel beyond the picture. False if the size is not known."""
    if not all(isinstance(each, int | float) for each in size):
        return False
    left, top, right, bottom = box
    if box_format == "xywh":
        right, bottom = left + right, top + bottom
    return min(left, top) < -1 or right > size[0] + 1 or bottom > size[1] + 1


def label_error(what: str, where: str) -> DatasetError:
    """Return the error for labels that cannot be read."""
    return DatasetError(what, hint="correct the labels", where=where, code="WDS232")


def refuse_labels(what: str, where: str) -> NoReturn:
    """Raise the error for labels that cannot be read."""
    raise label_error(what, where)
