"""COCO: one JSON file of images and annotations (captions, boxes, ...), and a folder of images.

A sample is an image and a part `json`: the image's record, its `annotations` in the file's order with the `category`
by name, and its `captions` as texts where it has some.

Source: https://cocodataset.org/#format-data (the form).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.json_file import JsonFile
from wdsctl.core.convert.rows.looking import head_of
from wdsctl.core.convert.rows.references import base_of
from wdsctl.core.convert.rows.samples import Row, Shape
from wdsctl.core.convert.rows.source import row_source
from wdsctl.core.convert.source import Options, Recognised, Source
from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.plain_members import Ints
from wdsctl.core.printable import named

_IMAGE = "file_name"
_FIRST = 100  # images whose files are looked for
_ID = int | float | str  # of a category, in an annotation: tables that were exported have 1.0 for 1


class Coco:
    """`-O key=id` takes keys from images' ids, `orphans=skip` leaves out annotations of images or categories that are
    not there.
    """

    name = "coco"
    about = "COCO captions, boxes and the like: annotations in one JSON file, images in a folder"

    def recognise(self, path: str) -> Recognised | None:
        file = _chosen(path)
        if file is None:
            return None
        head = head_of(file, 1 << 18)
        if not head.lstrip().startswith(b"{") or b'"images"' not in head:
            return None
        if b'"annotations"' not in head and b'"file_name"' not in head:
            return None
        return Recognised(0.9, "a JSON object with images and annotations")

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, ("key", "base", "orphans"))
        file = _chosen(path)
        if file is None:
            raise InputError(
                "it cannot be told which file has the annotations",
                hint="name the file itself: FOLDER/annotations/instances_train2017.json",
                where=named(path),
            )
        rows = _Images(file, skip_orphans=given.one_of(self.name, options, "orphans", ("error", "skip")) == "skip")
        base = base_of(os.path.dirname(file), rows.first_files(), beside=_beside(file))
        return row_source(rows, Shape.of(options, base=base, media=(_IMAGE,), key=":stem"), names_files=True)


IMPORTER = Coco()


class _Images:
    """Where images and annotations are in the file: some 100 bytes of memory each. The JSON is read when due."""

    def __init__(self, path: str, *, skip_orphans: bool) -> None:
        self._path = path
        self._file = JsonFile(path)
        self._categories: dict[Any, str] = {}
        self._images = np.empty((0, 2), np.int64)
        self._notes = np.empty((0, 2), np.int64)  # sorted by image
        self._ends = np.zeros(1, np.int64)  # (images + 1,): the notes of image i are those from ends[i] to ends[i + 1]
        try:
            self._index(skip_orphans)
        except BaseException:  # Ctrl-C too: nobody else has the file yet, so nobody else would close it
            self._file.close()
            raise

    def _index(self, skip_orphans: bool) -> None:
        notes: list[tuple[int, int]] = []
        owners: list[Any] = []
        kinds: list[Any] = []
        rows: dict[Any, int] = {}
        for name, at in self._file.members():
            if name == "images":
                places = list(self._file.elements(at))
                self._images = np.array(places, np.int64).reshape(-1, 2)
                for row, place in enumerate(places):
                    rows[self._id(place, "id")] = row
            elif name == "annotations":
                places = list(self._file.elements(at))
                owned = [self._owners(place) for place in places]
                owners, kinds = [owner for owner, _ in owned], [kind for _, kind in owned]
                notes = places
            elif name == "categories":
                found = (self._file.value(*place) for place in self._file.elements(at))
                named_ones = (
                    each for each in found if isinstance(each, dict) and isinstance(each.get("id"), int | str)
                )
                self._categories = {each["id"]: str(each.get("name")) for each in named_ones}
        if len(rows) != len(self._images):
            raise self._damaged("two images have one id")
        of_image = np.fromiter((rows.get(owner, -1) for owner in owners), np.int64, len(owners))
        known = {None, *self._categories}
        # A file without categories, of captions for one, names none.
        strange = [i for i, kind in enumerate(kinds) if self._categories and kind not in known]
        if not skip_orphans:
            self._refuse("images", [owners[i] for i in np.flatnonzero(of_image < 0).tolist()])
            self._refuse("categories", [kinds[i] for i in strange])
        of_image[strange] = -1
        self._sort(np.array(notes, np.int64).reshape(-1, 2), of_image)

    def _refuse(self, what: str, missing: list[Any]) -> None:
        if missing:
            raise DatasetError(
                f"{counted(len(missing), 'annotation')} of {what} that are not there, such as {missing[0]!r}",
                hint="`-O orphans=skip` leaves them out",
                where=named(self._path),
                code="WDS232",
            )

    def _sort(self, notes: Ints, of_image: Ints) -> None:
        """`of_image`: the row of the image of each note; below 0 where it is left out."""
        order = np.argsort(of_image, kind="stable")[np.count_nonzero(of_image < 0) :]
        self._notes = notes[order]
        self._ends = np.searchsorted(of_image[order], np.arange(len(self._images) + 1))

    def _owners(self, place: tuple[int, int]) -> tuple[Any, Any]:
        """The image and the category of an annotation, by their ids; None where it has no category."""
        value = self._file.value(*place)
        kind = value.get("category_id") if isinstance(value, dict) else None
        # Whatever else stands there is the id of no category.
        return self._id_of(value, "image_id"), kind if isinstance(kind, _ID | None) else str(kind)

    def _id(self, place: tuple[int, int], field: str) -> Any:
        return self._id_of(self._file.value(*place), field)

    def _id_of(self, value: Any, field: str) -> Any:
        found = value.get(field) if isinstance(value, dict) else None
        if not isinstance(found, int | str):
            raise self._damaged(f"an entry has no {field}")
        return found

    def first_files(self) -> list[str]:
        """The names of the first images' files."""
        records = (self._file.value(*place) for place in self._images[:_FIRST].tolist())
        return [record[_IMAGE] for record in records if isinstance(record.get(_IMAGE), str)]

    def rows(self, start: int) -> Iterator[Row]:
        for number in range(start, len(self._images)):
            where = f"{named(self._path)}, image {number:,}"
            record = self._file.value(*self._images[number].tolist())
            notes = self._notes[self._ends[number] : self._ends[number + 1]].tolist()
            annotations = [self._annotation(place) for place in notes]
            captions = [note["caption"] for note in annotations if "caption" in note]
            record |= {"captions": captions} if captions else {}
            fault = None if record.get(_IMAGE) else self._damaged(f"image {number:,} has no {_IMAGE}")
            yield Row(number, where, {**record, "annotations": annotations}, fault, os.path.dirname(self._path))

    def _annotation(self, place: tuple[int, int]) -> dict[str, Any]:
        note: dict[str, Any] = self._file.value(*place)
        number = note.get("category_id")
        category = self._categories.get(number) if isinstance(number, _ID) else None
        return note if category is None else {**note, "category": category}

    def _damaged(self, what: str) -> DatasetError:
        hint = "this is no COCO file, or not a whole one: look at its origin"
        return DatasetError(what, hint=hint, where=named(self._path), code="WDS233")

    def files(self) -> Sequence[str]:
        return (self._path,)

    def close(self) -> None:
        self._file.close()


def _chosen(path: str) -> str | None:
    """The file of annotations: the path, or the only one in a folder's `annotations`."""
    if os.path.isfile(path):
        return path if path.lower().endswith(".json") else None
    folder = os.path.join(path, "annotations")
    try:
        found = [name for name in os.listdir(folder) if name.endswith(".json")]
    except OSError:
        return None
    return os.path.join(folder, found[0]) if len(found) == 1 else None


def _beside(file: str) -> list[str]:
    """Where the images may be, from the folder of the annotations: instances_train2017.json has them in train2017."""
    split = os.path.splitext(os.path.basename(file))[0].rpartition("_")[2]
    return [f"{up}{name}" for up in ("", "../") for name in (f"images/{split}", split, "images", "")]
