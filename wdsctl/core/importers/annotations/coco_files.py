"""The JSON files of COCO: which files are some, what is in each, and where their images and segments are."""

from __future__ import annotations

import os
import re
from typing import Any

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common.folder_files import scan_folder, split_of_folder
from wdsctl.core.importers.common.text import JsonFile
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

FILE_NAME_FIELD = "file_name"
_MAX_FILES = 100  # JSON files that a search looks into
#: Types of ids. An annotation may have a category's id as 1.0 for 1, as exports of tables write it.
ID_TYPES = int | float | str


class AnnotationFile:
    """One JSON file: where its images and annotations are, and its categories."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.json = JsonFile(path)
        self.images: list[tuple[int, int]] = []
        self.annotations: list[tuple[int, int]] = []
        self.categories: dict[Any, str] = {}
        self.other_members: list[str] = []
        self.category_fields: set[str] = set()

    def index(self) -> None:
        """Find images, annotations and categories. Raises DatasetError WDS233 if the JSON is damaged."""
        for name, at in self.json.members():
            if name in ("images", "annotations", "categories") and self.json.first_byte(at) != b"[":
                raise self.damaged_error(f"{name} is not a list")
            if name == "images":
                self.images = list(self.json.elements(at))
            elif name == "annotations":
                self.annotations = list(self.json.elements(at))
            elif name == "categories":
                found = (self.json.parse(*span) for span in self.json.elements(at))
                for each in found:
                    if isinstance(each, dict) and isinstance(each.get("id"), int | str):
                        self.categories[each["id"]] = str(each.get("name"))
                        self.category_fields.update(each.keys() - {"id", "name"})
            else:
                self.other_members.append(name)

    def parse_object(self, start: int, stop: int, field: str) -> dict[str, Any]:
        """Parse an image or annotation. Raises DatasetError WDS233 if it has no id in `field`."""
        value = self.json.parse(start, stop)
        if not isinstance(value, dict) or not isinstance(value.get(field), int | str):
            raise self.damaged_error(f"an entry has no {field}")
        return value

    def category(self, annotation: dict[str, Any]) -> str | None:
        number = annotation.get("category_id")
        return self.categories.get(number) if isinstance(number, ID_TYPES) else None

    def damaged_error(self, what: str) -> DatasetError:
        hint = "check its origin: the file is not COCO, or is truncated"
        return DatasetError(what, hint=hint, where=path_for_message(self.path), code="WDS233")


def find_annotation_files(path: str) -> list[str]:
    """The annotation files: the path itself, or the COCO files in a folder, in its `annotations`, or in its splits."""
    if source_files.is_file(path):
        return [path] if path.lower().endswith(".json") and _looks_like_coco(path) else []
    try:
        inner = [name for name in scan_folder(path, path).folders if name == "annotations" or split_of_folder(name)]
        found = [
            os.path.join(folder, name)
            for folder in (path, *(os.path.join(path, name) for name in inner))
            for name in scan_folder(folder, path).files
            if name.lower().endswith(".json")
        ]
    except OSError:
        return []
    # Image folders may have a JSON file per image: too many to be annotation files.
    return (
        [file for file in found if source_files.is_file(file) and _looks_like_coco(file)]
        if len(found) <= _MAX_FILES
        else []
    )


def _looks_like_coco(file: str) -> bool:
    head = read_head(file, 1 << 18)
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    if b'"images"' in head:
        return b'"annotations"' in head or b'"file_name"' in head or b'"coco_url"' in head
    return b'"annotations"' in head and b'"image_id"' in head


def with_file_name(record: dict[str, Any]) -> dict[str, Any]:
    """The record of an image with its file name: LVIS only has the URL, which ends in the folder and name of COCO."""
    url = record.get("coco_url")
    if record.get(FILE_NAME_FIELD) or not isinstance(url, str):
        return record
    return {**record, FILE_NAME_FIELD: "/".join(url.split("?")[0].split("/")[-2:])}


def name_group(path: str) -> str:
    """What names the images of a file: train2017 of instances_train2017.json, train of train_coco.json and of
    train/_annotations.coco.json.
    """
    stem = os.path.splitext(os.path.basename(path))[0]
    named = next((word for word in reversed(re.split("[_.]", stem)) if split_of_folder(word)), "")
    folder = os.path.basename(os.path.dirname(source_files.absolute(path)))
    return named or (folder if split_of_folder(folder) else stem.rpartition("_")[2])


def list_image_folders(file: str) -> list[str]:
    """Possible image folders, relative to the annotation file: for instances_train2017.json, train2017 and others."""
    group = name_group(file)
    names = dict.fromkeys([f"images/{group}", group, f"images/{split_of_folder(group)}", split_of_folder(group)])
    return [f"{up}{name}" for up in ("", "../") for name in (*filter(None, names), "images", "")]


def find_segments_folder(file: str) -> str:
    """The folder of the PNG files of a panoptic file: of its name, beside it."""
    stem = os.path.splitext(file)[0]
    parent, name = os.path.split(stem)
    candidates = (stem, os.path.join(parent, "..", name), os.path.join(parent, "..", "annotations", name))
    return next((source_files.normalize(folder) for folder in candidates if source_files.is_folder(folder)), stem)
