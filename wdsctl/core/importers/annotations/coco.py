"""COCO: JSON files of images and annotations (captions, boxes, keypoints, panoptic segments), and folders of images.

The files of one folder that describe the same images make one sample per image: the image, and a part `json` with the
record of the image and

- `annotations`: the objects in the order of the files, each with the name of its `category`; objects that two files
  have (such as instances and person_keypoints) are joined by their `id`,
- `box_format`: xywh, if any object has a box,
- `captions`, a list of texts, and `caption_annotations`, the records they come from,
- `segments_info` of panoptic files, whose PNG is the part `seg.png`.

Files of different splits (`instances_train2017.json`, `instances_val2017.json`) make splits. Sources:
https://cocodataset.org/#format-data (the format); https://cocodataset.org/#panoptic-eval (ids of segments in colors).
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding, InputError, WdsctlError
from wdsctl.core.importers.annotations.coco_files import (
    FILE_NAME_FIELD,
    ID_TYPES,
    AnnotationFile,
    find_annotation_files,
    find_segments_folder,
    list_image_folders,
    name_group,
    with_file_name,
)
from wdsctl.core.importers.common.files import extension_of_name, find_base, make_file_part
from wdsctl.core.importers.common.folder_files import (
    normalize_split_names,
    split_of_folder,
    unused_files_findings,
    walk_folders,
)
from wdsctl.core.importers.common.samples import RowMapping, SourceRow
from wdsctl.core.importers.common.source import make_row_source
from wdsctl.core.importers.common.values import check_format_options, parse_choice_option
from wdsctl.core.importers.protocol import FieldUse, FilePart, FormatMatch, Options, Source, SourceDescription
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_PROBED_IMAGES = 100  # images whose files locate the image folder
_OUTSIDE_PIXELS = 1.0  # tools round boxes to whole pixels
_SEGMENTS_PART = "seg.png"
_COUNTED_FIELDS = ("caption", "segments_info", "segmentation", "keypoints", "iscrowd", "area", "category_id")


class CocoImporter:
    """Options: `-O key=id` makes keys of image ids; `orphans=skip` leaves out annotations of missing images or
    categories.
    """

    name = "coco"
    about = "COCO captions, boxes, keypoints and panoptic segments: annotations in JSON files, images in folders"

    def recognise(self, path: str) -> FormatMatch | None:
        files = find_annotation_files(path)
        if not files:
            return None
        is_folder = source_files.is_folder(path)
        shown = path_for_message(os.path.relpath(files[0], path) if is_folder else os.path.basename(path))
        if len(files) == 1:
            return FormatMatch(0.9, f"a JSON object with images and annotations: {shown}")
        return FormatMatch(0.9, f"{len(files)} JSON files with images and annotations, such as {shown}")

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ("key", "base", "orphans"))
        files = [path] if source_files.is_file(path) else find_annotation_files(path)
        if not files:
            raise InputError(
                "the folder has no JSON file with images and annotations",
                hint="pass the file itself, such as FOLDER/annotations/instances_train2017.json",
                where=path_for_message(path),
            )
        skip_orphans = parse_choice_option(self.name, options, "orphans", ("error", "skip")) == "skip"
        rows = _ImageRows(files, skip_orphans=skip_orphans, allowed=options.get("base", ""))
        return make_row_source(
            rows,
            RowMapping.from_options(options, media=(FILE_NAME_FIELD,), key=":stem"),
            rows.split_names,
            has_file_references=True,
            describe=lambda: rows.describe(path),
        )


IMPORTER = CocoImporter()


class _Image(NamedTuple):
    """An image of a group. `records`: (file, start, stop) of its record in each file that has it."""

    group: int
    records: tuple[tuple[int, int, int], ...]


class _Group(NamedTuple):
    """The files that describe the same images. `base`: the folder of the images. `split`, `prefix`: as in SourceRow."""

    files: tuple[int, ...]
    split: str
    prefix: str
    base: str


class _ImageRows:
    """Locates images and annotations in the files, and parses their JSON when a row is read.

    Memory: about 200 bytes per image or annotation.
    """

    def __init__(self, paths: Sequence[str], *, skip_orphans: bool, allowed: str) -> None:
        self._files = [AnnotationFile(path) for path in paths]
        self._skip_orphans = skip_orphans
        self._allowed = allowed
        self._counts: Counter[str] = Counter()  # of what is in the annotations, for `describe`
        self._examples: dict[str, str] = {}
        self._extensions: set[str] = set()
        self._notes = np.empty((0, 3), np.int64)  # (file, start, stop), sorted by image
        try:
            for file in self._files:
                file.index()
            self._groups = self._make_groups()
            self._images: list[_Image] = []
            self._ends = self._index_groups()  # image i has the annotations ends[i] to ends[i + 1]
        except BaseException:  # also on Ctrl-C: no caller can close the files yet
            self.close()
            raise

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group.split for group in self._groups if group.split))

    def _make_groups(self) -> list[_Group]:
        """Put files whose names end alike (`captions_train2017`, `instances_train2017`) into one group."""
        by_name: dict[str, list[int]] = {}
        for number, file in enumerate(self._files):
            by_name.setdefault(name_group(file.path), []).append(number)
        if all(not split_of_folder(name) for name in by_name):
            by_name = {"": list(range(len(self._files)))}
        groups = []
        for name, numbers in by_name.items():
            first = self._files[numbers[0]]
            files = [each for number in numbers for each in self._first_files(self._files[number])]
            base = find_base(os.path.dirname(first.path), files, subfolders=list_image_folders(first.path))
            prefix = f"{name}/" if len(by_name) > 1 and name else ""
            groups.append(_Group(tuple(numbers), split_of_folder(name) if len(by_name) > 1 else "", prefix, base))
        splits = normalize_split_names(group.split for group in groups)
        return [group._replace(split=splits[group.split]) for group in groups]

    def _first_files(self, file: AnnotationFile) -> list[str]:
        """The file names of the first 100 images."""
        found = (file.json.parse(*span) for span in file.images[:_PROBED_IMAGES])
        records = [with_file_name(record) for record in found if isinstance(record, dict)]
        return [record[FILE_NAME_FIELD] for record in records if isinstance(record.get(FILE_NAME_FIELD), str)]

    def _index_groups(self) -> Any:
        spans: list[tuple[int, int, int]] = []
        owners: list[int] = []
        for number, group in enumerate(self._groups):
            rows, sizes = self._index_images(number, group)
            if not rows:
                raise _no_images_error(self._files[group.files[0]].path)
            orphans: list[Any] = []
            strange: list[Any] = []
            for file_number in group.files:
                file = self._files[file_number]
                for start, stop in file.annotations:
                    note = file.parse_object(start, stop, "image_id")
                    row = rows.get(note["image_id"])
                    if row is None:
                        orphans.append(note["image_id"])
                    elif _names_unknown_category(note, file):
                        strange.append(note["category_id"])
                    else:
                        spans.append((file_number, start, stop))
                        owners.append(row)
                        self._count_annotation(note, sizes.get(row), file, start)
            self._check_orphans("images", orphans, group)
            self._check_orphans("categories", strange, group)
        of_image = np.array(owners, np.int64)
        order = np.argsort(of_image, kind="stable")
        self._notes = np.array(spans, np.int64).reshape(-1, 3)[order]
        return np.searchsorted(of_image[order], np.arange(len(self._images) + 1))

    def _index_images(self, number: int, group: _Group) -> tuple[dict[Any, int], dict[int, tuple[float, float]]]:
        """(image id -> row, row -> width and height) of a group, whose images are added to the rows."""
        rows: dict[Any, int] = {}
        sizes: dict[int, tuple[float, float]] = {}
        names: dict[int, Any] = {}
        records: list[list[tuple[int, int, int]]] = []
        first_row = len(self._images)
        for file_number in group.files:
            file = self._files[file_number]
            seen: set[Any] = set()
            for start, stop in file.images:
                record = with_file_name(file.parse_object(start, stop, "id"))
                if record["id"] in seen:
                    raise file.damaged_error("two images have the same id")
                seen.add(record["id"])
                row = rows.setdefault(record["id"], first_row + len(records))
                name = record.get(FILE_NAME_FIELD)
                if row - first_row == len(records):
                    records.append([])
                if names.setdefault(row, name) != name:
                    raise DatasetError(
                        f"the image {record['id']!r} has the file {name!r} here, but {names[row]!r} in another "
                        "annotation file",
                        hint="the files list different images: prepare them one by one",
                        where=path_for_message(file.path),
                        code="WDS233",
                    )
                records[row - first_row].append((file_number, start, stop))
                self._extensions.update([extension_of_name(name)] if isinstance(name, str) else [])
                size = (record.get("width"), record.get("height"))
                if all(isinstance(each, int | float) for each in size):
                    sizes[row] = size  # type: ignore[assignment]
        self._images += [_Image(number, tuple(each)) for each in records]
        return rows, sizes

    def _count_annotation(
        self, note: dict[str, Any], size: tuple[float, float] | None, file: AnnotationFile, at: int
    ) -> None:
        kinds = [name for name in _COUNTED_FIELDS if name in note]
        is_object = "segments_info" not in note and ("caption" not in note or "bbox" in note)
        if is_object and is_box(note.get("bbox")):
            kinds.append("bbox")
            if size and _is_outside(note["bbox"], size):
                kinds.append("outside")
        elif is_object:
            kinds.append("bad bbox" if "bbox" in note else "other")
        self._counts.update(kinds)
        for kind in {"bad bbox", "outside"}.intersection(kinds) - self._examples.keys():
            self._examples[kind] = f"{path_for_message(os.path.basename(file.path))} (byte {at:,})"

    def _check_orphans(self, what: str, missing: list[Any], group: _Group) -> None:
        if missing and not self._skip_orphans:
            raise DatasetError(
                f"{pluralize(len(missing), 'annotation')} of missing {what}, such as {missing[0]!r}",
                hint="pass `-O orphans=skip` to skip these annotations",
                where=path_for_message(self._files[group.files[0]].path),
                code="WDS232",
            )
        if missing:
            self._counts[f"missing {what}"] += len(missing)
            self._examples.setdefault(f"missing {what}", repr(missing[0]))

    def rows(self, start: int) -> Iterator[SourceRow]:
        for number in range(start, len(self._images)):
            image = self._images[number]
            group = self._groups[image.group]
            first = self._files[image.records[0][0]]
            where = f"{path_for_message(first.path)}, image {number:,}"
            record: dict[str, Any] = {}
            for file_number, *span in reversed(image.records):
                record |= self._files[file_number].json.parse(*span)
            record = with_file_name(record)
            fault: WdsctlError | None = None
            if not record.get(FILE_NAME_FIELD):
                fault = first.damaged_error(f"image {number:,} has no {FILE_NAME_FIELD}")
            row = SourceRow(number, where, record, fault, group.base, group.prefix, group.split)
            yield self._with_annotations(row, self._notes[self._ends[number] : self._ends[number + 1]].tolist())

    def _with_annotations(self, row: SourceRow, spans: list[list[int]]) -> SourceRow:
        """Add the annotations of an image to its record, and the PNG of its segments."""
        record = dict(row.values)
        objects: list[dict[str, Any]] = []
        others: list[dict[str, Any]] = []
        captions: list[dict[str, Any]] = []
        by_id: dict[Any, tuple[int, int]] = {}  # id of an object -> (its file, its position)
        for file_number, start, stop in spans:
            file = self._files[file_number]
            note: dict[str, Any] = file.json.parse(start, stop)
            category = file.category(note)
            note = note if category is None else {**note, "category": category}
            if "segments_info" in note:
                row = self._with_segments(row, record, note, file)
            elif "caption" in note and "bbox" not in note:
                captions.append(note)
            elif self._counts["bbox"] and not is_box(note.get("bbox")):
                others.append(note)
            else:
                known = by_id.get(_hashable_id(note), (file_number, 0))
                if known[0] != file_number and _is_same_object(objects[known[1]], note):
                    objects[known[1]] = {**objects[known[1]], **note}
                else:
                    by_id[_hashable_id(note)] = (file_number, len(objects))
                    objects.append(note)
        if self._counts["bbox"]:
            record["box_format"] = "xywh"
        record["annotations"] = objects
        if others:
            record["other_annotations"] = others
        if self._counts["caption"]:
            record["captions"] = [note["caption"] for note in captions]
            record["caption_annotations"] = captions
        return row._replace(values=record)

    def _with_segments(
        self, row: SourceRow, record: dict[str, Any], note: dict[str, Any], file: AnnotationFile
    ) -> SourceRow:
        """Add the segments of a panoptic annotation to the record, and its PNG to the row."""
        segments = note["segments_info"] if isinstance(note["segments_info"], list) else []
        categories = [file.category(segment) if isinstance(segment, dict) else None for segment in segments]
        record["segments_info"] = [
            segment if category is None else {**segment, "category": category}
            for segment, category in zip(segments, categories, strict=True)
        ]
        record["segments_file_name"] = note.get(FILE_NAME_FIELD)
        try:
            name = str(note.get(FILE_NAME_FIELD, ""))
            part = make_file_part(_SEGMENTS_PART, find_segments_folder(file.path), name, f"{row.where}, segments")
        except WdsctlError as error:
            return row._replace(fault=row.fault or error)
        return row._replace(parts=(part,))

    def describe(self, path: str) -> SourceDescription:
        """Cost: lists the folders, and reads the records of images."""
        unused, hidden = self._unused_files(path)
        findings = (*self._findings(), *unused_files_findings(unused, "the annotations do not list it", hidden))
        return SourceDescription(tuple(self._field_uses()), findings, self._config(), tuple(unused))

    def _config(self) -> DatasetConfig | None:
        image = {"image": ",".join(sorted(self._extensions)) or "bin"}
        if self._counts["bbox"]:
            seen = {"labels": "category_id", "masks": "segmentation", "is_crowd": "iscrowd", "areas": "area"}
            seen |= {"keypoints": "keypoints"}
            fields = {"boxes": "bbox"} | {field: key for field, key in seen.items() if self._counts[key]}
            if any(file.categories for file in self._files):
                fields["label_names"] = "category"
            paths = {field: f"json[annotations][*][{key}]" for field, key in fields.items()}
            # Some objects lack what others have, such as keypoints: the place of theirs is None.
            optional = tuple(field for field in fields if field != "boxes")
            return DatasetConfig(
                "DetectionSample",
                {**image, "box_format": "json[box_format]", **paths},
                optional=optional,
                drawn_on="shown",
            )
        if self._counts["segments_info"]:
            return DatasetConfig(
                "SegmentationSample",
                {**image, "mask": _SEGMENTS_PART, "segments": "json[segments_info]"},
                drawn_on="shown",
            )
        if self._counts["caption"]:
            return DatasetConfig(
                "CaptioningSample", {**image, "caption": "json[captions][0]", "captions": "json[captions]"}
            )
        return None

    def _field_uses(self) -> Iterator[FieldUse]:
        counts = self._counts
        images = pluralize(len(self._images), "image")
        yield FieldUse("images", f"{','.join(sorted(self._extensions)) or 'bin'}, json", f"{images}, one sample each")
        if counts["bbox"]:
            note = "boxes are xywh: left, top, width and height in pixels"
            records = pluralize(counts["bbox"], "record")
            yield FieldUse("annotations with boxes", "json[annotations]", f"{records}, joined by id; {note}")
        for kind in ("segmentation", "keypoints"):
            if counts[kind]:
                yield FieldUse(f"annotations[{kind}]", f"json[annotations][*][{kind}]", f"{counts[kind]:,}")
        if counts["caption"]:
            note = "" if not counts["bbox"] else "; to train on them: sample type CaptioningSample"
            yield FieldUse("captions", "json[captions]", f"{counts['caption']:,}{note}")
        if counts["segments_info"]:
            yield FieldUse(
                "panoptic segments", f"{_SEGMENTS_PART}, json[segments_info]", f"{counts['segments_info']:,}"
            )
        rest = counts["other"] + counts["bad bbox"]
        if rest:
            target = "json[other_annotations]" if counts["bbox"] else "json[annotations]"
            yield FieldUse("other annotations", target, f"{rest:,}")
        categories = {name for file in self._files for name in file.categories.values()}
        if categories:
            yield FieldUse("categories[name]", "json[annotations][*][category]", f"{len(categories):,} names")
        for name in sorted({name for file in self._files for name in file.category_fields}):
            yield FieldUse(f"categories[{name}]", "", "about the categories, not about one sample")
        for name in sorted({name for file in self._files for name in file.other_members}):
            yield FieldUse(name, "", "about the dataset, not about one sample")
        for group in self._groups:
            if group.split:
                yield FieldUse(group.prefix.rstrip("/"), f"split {group.split}")

    def _findings(self) -> Iterator[Finding]:
        for kind, code, one, many, what in (
            ("outside", "WDS163", "box", "boxes", "that extend more than a pixel beyond the image"),
            ("bad bbox", "WDS163", "annotation", "", "whose bbox is not four numbers (kept in other_annotations)"),
            ("missing images", "WDS232", "annotation", "", "of an image that the files do not list (skipped)"),
            ("missing categories", "WDS232", "annotation", "", "of a category that the files do not list (skipped)"),
        ):
            if self._counts[kind]:
                # A warning only, because -O orphans=skip has asked to skip the annotations.
                message = f"{pluralize(self._counts[kind], one, many)} {what}, such as {self._examples[kind]}"
                yield Finding(code=code, severity="warning", message=message, count=self._counts[kind])
        if self._counts["caption"] and not self._counts["bbox"]:
            rows = range(len(self._images))
            lacking = sum(not any("caption" in note for note in self._parsed_notes(row)) for row in rows)
            if lacking:
                without = f"{pluralize(lacking, 'image')} without a caption, which the loader skips (CaptioningSample)"
                yield Finding(code="WDS148", severity="warning", message=without, count=lacking)
        bare = int(np.count_nonzero(np.diff(self._ends) == 0))
        if bare:
            message = f"{pluralize(bare, 'image')} without annotations: samples with empty lists"
            yield Finding(code="WDS242", severity="note", message=message, count=bare)

    def _parsed_notes(self, row: int) -> Iterator[dict[str, Any]]:
        for file_number, start, stop in self._notes[self._ends[row] : self._ends[row + 1]].tolist():
            yield self._files[file_number].json.parse(start, stop)

    def _unused_files(self, path: str) -> tuple[list[str], int]:
        """(files below the source, and below the folders of images, that no sample has; the number of hidden files)."""
        used = {source_files.absolute(file.path) for file in self._files}
        folders: dict[str, None] = {}
        for row in self.rows(0):
            reference = row.values.get(FILE_NAME_FIELD)
            base = source_files.absolute(row.base)
            folders[base] = None
            if isinstance(reference, str):
                bases = [each for each in (base, self._allowed) if each]
                used.update(source_files.normalize(os.path.join(each, reference)) for each in bases)
            used.update(source_files.absolute(part.path) for part in row.parts if isinstance(part, FilePart))
        source = source_files.absolute(path)
        roots = [source] if source_files.is_folder(source) else []
        roots += [base for base in folders if not any(_is_within(base, root) for root in roots)]
        unused: list[str] = []
        hidden = 0
        for root in roots:
            if root != source and _is_within(source, root):
                continue  # beside the file that is the source may be anything; a folder of images alone has images
            for prefix, names in walk_folders(root):
                hidden += names.hidden
                each = (f"{prefix}{name}" for name in names.files)
                unused += [name for name in each if os.path.join(root, name) not in used]
        return unused, hidden

    def files(self) -> Sequence[str]:
        return [file.path for file in self._files]

    def close(self) -> None:
        for file in self._files:
            file.json.close()


def is_box(value: Any) -> bool:
    """Whether a value is a list of four finite numbers."""
    return (
        isinstance(value, list)
        and len(value) == 4
        and all(isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each) for each in value)
    )


def _no_images_error(path: str) -> DatasetError:
    return DatasetError(
        "the file has annotations, but lists no images",
        hint="pass the file that lists them; for questions and answers of VQA, pass the folder of the files of "
        "questions, annotations and pictures",
        where=path_for_message(path),
        code="WDS233",
    )


def _is_outside(box: list[float], size: tuple[float, float]) -> bool:
    left, top, width, height = box
    return (
        min(left, top) < -_OUTSIDE_PIXELS
        or min(width, height) < 0
        or left + width > size[0] + _OUTSIDE_PIXELS
        or top + height > size[1] + _OUTSIDE_PIXELS
    )


def _names_unknown_category(note: dict[str, Any], file: AnnotationFile) -> bool:
    """Whether an annotation names a category that its file lacks. A file without categories has nothing to check."""
    number = note.get("category_id")
    return bool(file.categories) and number is not None and file.category(note) is None


def _hashable_id(note: dict[str, Any]) -> Any:
    number = note.get("id")
    return number if isinstance(number, ID_TYPES) else id(note)


def _is_same_object(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two annotations with one id, from two files, are one object: no field that both have differs."""
    return all(first[name] == second[name] for name in first.keys() & second.keys() - {"keypoints", "num_keypoints"})


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
