"""SA-1B: a JSON file of boxes and masks for each picture, like COCO's of a single picture.

`json` is the file, and `box_format` (xywh).

Source: https://ai.meta.com/datasets/segment-anything-downloads/ (the fields; masks are in COCO's run lengths).
"""

from __future__ import annotations

import os
from typing import Any

from wdsctl.core.importers.annotations.coco import is_box
from wdsctl.core.importers.annotations.labelled import Labels, label_format, refuse_labels
from wdsctl.core.importers.annotations.picture_json import find_picture_json, load_labels, read_picture_json
from wdsctl.core.importers.common.folder_files import FolderFiles
from wdsctl.core.importers.protocol import FieldUse
from wdsctl.core.text import path_for_message

_KEYS = (b'"image"', b'"annotations"', b'"file_name"')


def _is_sa1b(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("image"), dict)
        and isinstance(value["image"].get("file_name"), str)
        and isinstance(value.get("annotations"), list)
    )


def _read_sa1b(files: FolderFiles, _: str) -> Labels:
    pictures, labels = read_picture_json(files, lambda value: str(value["image"]["file_name"]), _is_sa1b)

    def parse(path: str | None) -> dict[str, Any]:
        if path is None:
            return {"box_format": "xywh", "annotations": []}
        where = path_for_message(os.path.join(files.root, path))
        content = load_labels(files, path, where)
        if not _is_sa1b(content) or not all(isinstance(each, dict) for each in content["annotations"]):
            refuse_labels("the file has no image and list of annotations", where)
        return {"box_format": "xywh", **content}

    objects = "json[annotations][*]"
    paths = {"boxes": f"{objects}[bbox]", "masks": f"{objects}[segmentation]", "areas": f"{objects}[area]"}
    uses = (
        FieldUse("annotations", "json[annotations]", "boxes are xywh in pixels; masks are COCO's run lengths"),
        FieldUse("image", "json[image]"),
    )
    fields = {"box_format": "json[box_format]", **paths}
    return Labels(pictures, parse, labels, uses, field_map=fields, boxes_of=_boxes_of)


def _boxes_of(facts: dict[str, Any]) -> list[Any]:
    return [each["bbox"] for each in facts["annotations"] if is_box(each.get("bbox"))]


IMPORTER = label_format(
    "sa1b",
    "SA-1B: a JSON file of boxes and masks for each picture",
    lambda path: find_picture_json(path, "an image and its annotations", _KEYS, _is_sa1b),
    _read_sa1b,
    "JSON files with an image and its annotations",
)
