"""COCO: one JSON file of images and annotations (captions, boxes, ...), and a folder of images.

A sample is an image and a part `json`: the record of the image, its `annotations` in the order of the file, with the
name of the `category`, and its `captions` as a list of strings, if it has any.

Source: https://cocodataset.org/#format-data (the format).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.importers.protocol import FormatMatch, Options, Source
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.files import find_base
from wdsctl.core.importers.records.samples import RowMapping, SourceRow
from wdsctl.core.importers.records.source import make_row_source
from wdsctl.core.importers.records.text import JsonFile
from wdsctl.core.importers.records.values import read_head
from wdsctl.core.text import path_for_message, pluralize

_FILE_NAME_FIELD = "file_name"
_PROBED_IMAGES = 100  # images whose files locate the image folder
_ID = int | float | str  # a category's id in an annotation: exports of tables write 1.0 for 1


class CocoImporter:
    """Options: `-O key=id` makes keys of image ids; `orphans=skip` leaves out annotations of missing images or
    categories.
    """

    name = "coco"
    about = "COCO captions, boxes and the like: annotations in one JSON file, images in a folder"

    def recognise(self, path: str) -> FormatMatch | None:
        file = _find_annotation_file(path)
        if file is None:
            return None
        head = read_head(file, 1 << 18)
        if not head.lstrip().startswith(b"{") or b'"images"' not in head:
            return None
        if b'"annotations"' not in head and b'"file_name"' not in head:
            return None
        return FormatMatch(0.9, "a JSON object with images and annotations")

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ("key", "base", "orphans"))
        file = _find_annotation_file(path)
        if file is None:
            raise InputError(
                "cannot decide which file has the annotations",
                hint="name the file itself: FOLDER/annotations/instances_train2017.json",
                where=path_for_message(path),
            )
        rows = _ImageRows(
            file, skip_orphans=given.parse_choice_option(self.name, options, "orphans", ("error", "skip")) == "skip"
        )
        base = find_base(os.path.dirname(file), rows.first_files(), subfolders=_image_folder_candidates(file))
        return make_row_source(
            rows,
            RowMapping.from_options(options, base=base, media=(_FILE_NAME_FIELD,), key=":stem"),
            has_file_references=True,
        )


IMPORTER = CocoImporter()


class _ImageRows:
    """Locates images and annotations in the file, and parses their JSON when a row is read.

    Memory: some 100 bytes per image or annotation.
    """

    def __init__(self, path: str, *, skip_orphans: bool) -> None:
        self._path = path
        self._file = JsonFile(path)
        self._categories: dict[Any, str] = {}
        self._images = np.empty((0, 2), np.int64)
        self._notes = np.empty((0, 2), np.int64)  # sorted by image
        self._ends = np.zeros(1, np.int64)  # (images + 1,): image i has the annotations ends[i] to ends[i + 1]
        try:
            self._index_file(skip_orphans)
        except BaseException:  # also on Ctrl-C: no caller can close the file yet
            self._file.close()
            raise

    def _index_file(self, skip_orphans: bool) -> None:
        notes: list[tuple[int, int]] = []
        owners: list[Any] = []
        kinds: list[Any] = []
        rows: dict[Any, int] = {}
        for name, at in self._file.members():
            if name == "images":
                spans = list(self._file.elements(at))
                self._images = np.array(spans, np.int64).reshape(-1, 2)
                for row, span in enumerate(spans):
                    rows[self._read_id(span, "id")] = row
            elif name == "annotations":
                spans = list(self._file.elements(at))
                owned = [self._annotation_owners(span) for span in spans]
                owners, kinds = [owner for owner, _ in owned], [kind for _, kind in owned]
                notes = spans
            elif name == "categories":
                found = (self._file.parse(*span) for span in self._file.elements(at))
                named_ones = (
                    each for each in found if isinstance(each, dict) and isinstance(each.get("id"), int | str)
                )
                self._categories = {each["id"]: str(each.get("name")) for each in named_ones}
        if len(rows) != len(self._images):
            raise self._damaged_error("two images have one id")
        of_image = np.fromiter((rows.get(owner, -1) for owner in owners), np.int64, len(owners))
        known = {None, *self._categories}
        # A file without categories, such as captions, has nothing to check against.
        strange = [i for i, kind in enumerate(kinds) if self._categories and kind not in known]
        if not skip_orphans:
            self._refuse_orphans("images", [owners[i] for i in np.flatnonzero(of_image < 0).tolist()])
            self._refuse_orphans("categories", [kinds[i] for i in strange])
        of_image[strange] = -1
        self._sort_annotations(np.array(notes, np.int64).reshape(-1, 2), of_image)

    def _refuse_orphans(self, what: str, missing: list[Any]) -> None:
        if missing:
            raise DatasetError(
                f"{pluralize(len(missing), 'annotation')} of missing {what}, such as {missing[0]!r}",
                hint="`-O orphans=skip` leaves them out",
                where=path_for_message(self._path),
                code="WDS232",
            )

    def _sort_annotations(self, annotation_spans: Int64Array, image_rows: Int64Array) -> None:
        """Group the annotations by image. `image_rows`: row of each annotation's image; negative to leave it out."""
        order = np.argsort(image_rows, kind="stable")[np.count_nonzero(image_rows < 0) :]
        self._notes = annotation_spans[order]
        self._ends = np.searchsorted(image_rows[order], np.arange(len(self._images) + 1))

    def _annotation_owners(self, span: tuple[int, int]) -> tuple[Any, Any]:
        """(image id, category id) of an annotation; the category id is None if there is none."""
        value = self._file.parse(*span)
        kind = value.get("category_id") if isinstance(value, dict) else None
        # A value of any other type matches no category.
        return self._check_id(value, "image_id"), kind if isinstance(kind, _ID | None) else str(kind)

    def _read_id(self, span: tuple[int, int], field: str) -> Any:
        return self._check_id(self._file.parse(*span), field)

    def _check_id(self, value: Any, field: str) -> Any:
        found = value.get(field) if isinstance(value, dict) else None
        if not isinstance(found, int | str):
            raise self._damaged_error(f"an entry has no {field}")
        return found

    def first_files(self) -> list[str]:
        """The file names of the first 100 images."""
        records = (self._file.parse(*span) for span in self._images[:_PROBED_IMAGES].tolist())
        return [record[_FILE_NAME_FIELD] for record in records if isinstance(record.get(_FILE_NAME_FIELD), str)]

    def rows(self, start: int) -> Iterator[SourceRow]:
        for number in range(start, len(self._images)):
            where = f"{path_for_message(self._path)}, image {number:,}"
            record = self._file.parse(*self._images[number].tolist())
            notes = self._notes[self._ends[number] : self._ends[number + 1]].tolist()
            annotations = [self._read_annotation(span) for span in notes]
            captions = [note["caption"] for note in annotations if "caption" in note]
            record |= {"captions": captions} if captions else {}
            fault = (
                None
                if record.get(_FILE_NAME_FIELD)
                else self._damaged_error(f"image {number:,} has no {_FILE_NAME_FIELD}")
            )
            yield SourceRow(number, where, {**record, "annotations": annotations}, fault, os.path.dirname(self._path))

    def _read_annotation(self, span: tuple[int, int]) -> dict[str, Any]:
        note: dict[str, Any] = self._file.parse(*span)
        number = note.get("category_id")
        category = self._categories.get(number) if isinstance(number, _ID) else None
        return note if category is None else {**note, "category": category}

    def _damaged_error(self, what: str) -> DatasetError:
        hint = "this is no COCO file, or not a whole one: look at its origin"
        return DatasetError(what, hint=hint, where=path_for_message(self._path), code="WDS233")

    def files(self) -> Sequence[str]:
        return (self._path,)

    def close(self) -> None:
        self._file.close()


def _find_annotation_file(path: str) -> str | None:
    """The annotation file: the path itself, or the only JSON file in the folder's `annotations`; None if unclear."""
    if os.path.isfile(path):
        return path if path.lower().endswith(".json") else None
    folder = os.path.join(path, "annotations")
    try:
        found = [name for name in os.listdir(folder) if name.endswith(".json")]
    except OSError:
        return None
    return os.path.join(folder, found[0]) if len(found) == 1 else None


def _image_folder_candidates(file: str) -> list[str]:
    """Possible image folders, relative to the annotation file: for instances_train2017.json, train2017 and others."""
    split = os.path.splitext(os.path.basename(file))[0].rpartition("_")[2]
    return [f"{up}{name}" for up in ("", "../") for name in (f"images/{split}", split, "images", "")]
