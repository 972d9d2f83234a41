"""A JSON file of labels for each picture, as LabelMe and SA-1B have them: which files these are, and their pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from wdsctl.core.file_limits import MAX_DOCUMENT_BYTES
from wdsctl.core.importers.annotations.annotated import AnnotatedSample
from wdsctl.core.importers.annotations.labelled import PictureIndex, label_error
from wdsctl.core.importers.common.folder_files import FolderFiles, probe_folders, split_of_path
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.json_text import read_json, read_json_or_none
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.text import path_for_message

_PROBED_FILES = 5
_MAX_DEPTH = 4
_HEAD_BYTES = 1 << 16


def find_picture_json(path: str, what: str, keys: Sequence[bytes], is_one: Callable[[Any], bool]) -> str:
    """Why a folder has files of labels: one of its first JSON files has `keys`, and `is_one` says so. Else empty."""
    for name in _first_json_files(path):
        full_path = os.path.join(path, name)
        head = read_head(full_path, _HEAD_BYTES)
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            continue
        # The picture that LabelMe puts into the file is longer than the head, and `imagePath` may follow it.
        whole = head if len(head) < _HEAD_BYTES else read_head(full_path, MAX_DOCUMENT_BYTES)
        if all(key in whole for key in keys) and is_one(read_json_or_none(whole)):
            return f"{path_for_message(name)} has {what}"
    return ""


def _first_json_files(path: str) -> list[str]:
    """The first JSON files of a folder, of each folder in it at most one."""
    first: list[str] = []
    for prefix, names in probe_folders(path, depth=_MAX_DEPTH):
        found = [f"{prefix}{name}" for name in names.files if name.endswith(".json")]
        first += found[: 1 if prefix else _PROBED_FILES]
        if len(first) >= _PROBED_FILES:
            break
    return first


def read_picture_json(
    files: FolderFiles, reference_of: Callable[[dict[str, Any]], str], is_one: Callable[[Any], bool]
) -> tuple[list[AnnotatedSample], list[str]]:
    """(the pictures, the JSON files with labels). A file beside a picture of its name belongs to that picture; only
    other files are read for the name.
    """
    index = PictureIndex(files)
    pictures: list[AnnotatedSample] = []
    labels: list[str] = []
    by_stem = {strip_extension(path): path for path in index.rest(())}
    for path in files.paths:
        if not path.endswith(".json"):
            continue
        where = path_for_message(os.path.join(files.root, path))
        picture, reference = by_stem.get(strip_extension(path), ""), ""
        if not picture:
            value = load_labels(files, path, where)
            if not is_one(value):
                continue
            reference = reference_of(value)
            picture = index.find(reference, path[: path.rfind("/") + 1])
        labels.append(path)
        pictures.append(AnnotatedSample(picture, path, where, reference, split_of_path(picture or path)))
    pictures += [AnnotatedSample(path, None, split=split_of_path(path)) for path in index.rest(pictures)]
    return sorted(pictures, key=lambda each: (each.path, each.where)), labels


def load_labels(files: FolderFiles, path: str, where: str) -> Any:
    """The content of a JSON file. Raises DatasetError WDS232."""
    try:
        return read_json(files.read(path, MAX_DOCUMENT_BYTES))
    except ValueError as error:
        raise label_error(f"the JSON cannot be read: {error}", where) from error
