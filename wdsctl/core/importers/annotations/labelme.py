"""LabelMe: a JSON file of shapes for each picture.

`json` has `boxes` (xyxy), `label_names`, `masks` (polygons), and the file itself as `annotation`, without the picture
that it may hold.

Source: https://github.com/wkentaro/labelme (the fields of a file).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

from wdsctl.core.importers.annotations.labelled import Labels, bounds, label_format, refuse_labels
from wdsctl.core.importers.annotations.picture_json import find_picture_json, load_labels, read_picture_json
from wdsctl.core.importers.common.folder_files import FolderFiles
from wdsctl.core.importers.protocol import FieldUse
from wdsctl.core.text import path_for_message

_AREAS = frozenset({"rectangle", "polygon", "circle", "mask"})  # shapes that have an inside


def _is_labelme(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("shapes"), list) and isinstance(value.get("imagePath"), str)


def _read_labelme(files: FolderFiles, _: str) -> Labels:
    pictures, labels = read_picture_json(files, lambda value: str(value["imagePath"]), _is_labelme)

    def parse(path: str | None) -> dict[str, Any]:
        where = path_for_message(os.path.join(files.root, path or ""))
        content = load_labels(files, path, where) if path else {"shapes": []}
        if not isinstance(content, dict) or not isinstance(content.get("shapes"), list):
            refuse_labels("the file has no list of shapes", where)
        content.pop("imageData", None)
        boxes, names, masks = list[list[float]](), list[str](), list[Any]()
        for shape in content["shapes"]:
            for box, mask in _areas_of(shape, where):
                boxes.append(box)
                names.append(str(shape.get("label", "")))
                masks.append(mask)
        facts: dict[str, Any] = {"boxes": boxes, "box_format": "xyxy", "label_names": names}
        facts |= {"masks": masks} if any(masks) else {}
        sizes = ("width", content.get("imageWidth")), ("height", content.get("imageHeight"))
        facts |= {name: value for name, value in sizes if value is not None}
        return {**facts, "objects": len(content["shapes"]), **({"annotation": content} if path else {})}

    uses = (
        FieldUse("shapes", "json[boxes], json[label_names], json[masks], json[annotation]", "boxes are xyxy in pixels"),
        FieldUse("imageData", "", "the picture is a part of the sample"),
    )
    return Labels(pictures, parse, labels, uses)


def _areas_of(shape: Any, where: str) -> Iterator[tuple[list[float], list[list[float]] | None]]:
    """(box, polygons) of a shape that has an area; nothing for points and lines."""
    if not isinstance(shape, dict) or shape.get("shape_type", "polygon") not in _AREAS:
        return
    points = shape.get("points")
    if not isinstance(points, list) or not points or not all(map(_is_point, points)):
        refuse_labels(f"the points of {shape.get('label', 'a shape')!r} are not pairs of numbers", where)
    if shape.get("shape_type") == "circle" and len(points) == 2:
        (x, y), edge = points
        radius = math.dist((x, y), edge)
        yield [x - radius, y - radius, x + radius, y + radius], None
    elif shape.get("shape_type", "polygon") == "polygon":
        yield bounds(points), [[each for point in points for each in point]]
    else:
        yield bounds(points), None


def _is_point(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(each, int | float) and math.isfinite(each) for each in value)
    )


IMPORTER = label_format(
    "labelme",
    "LabelMe: a JSON file of shapes for each picture",
    lambda path: find_picture_json(path, "shapes of a picture", (b'"shapes"', b'"imagePath"'), _is_labelme),
    _read_labelme,
    "JSON files with shapes",
)
