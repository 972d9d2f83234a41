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

from wdsctl.core.importers.annotations.labelled import (
    Labels,
    Shape,
    bounds,
    label_format,
    polygon_shape,
    refuse_labels,
    shape_facts,
)
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
        facts = shape_facts([each for shape in content["shapes"] for each in _shapes_of(shape, where)])
        sizes = ("width", content.get("imageWidth")), ("height", content.get("imageHeight"))
        facts |= {name: value for name, value in sizes if value is not None}
        return {**facts, "objects": len(content["shapes"]), **({"annotation": content} if path else {})}

    uses = (
        FieldUse("shapes", "json[boxes], json[label_names], json[masks], json[annotation]", "boxes are xyxy in pixels"),
        FieldUse("imageData", "", "the picture is a part of the sample"),
    )
    return Labels(pictures, parse, labels, uses)


def _shapes_of(shape: Any, where: str) -> Iterator[Shape]:
    """The shape, if it has an area; nothing for points and lines."""
    if not isinstance(shape, dict) or shape.get("shape_type", "polygon") not in _AREAS:
        return
    name, kind, points = str(shape.get("label", "")), shape.get("shape_type", "polygon"), shape.get("points")
    if not isinstance(points, list) or not points or not all(map(_is_point, points)):
        refuse_labels(f"the points of {shape.get('label', 'a shape')!r} are not pairs of numbers", where)
    if kind == "circle" and len(points) == 2:
        (x, y), edge = points
        radius = math.dist((x, y), edge)
        yield Shape(name, [x - radius, y - radius, x + radius, y + radius])
    elif kind == "polygon":
        yield polygon_shape(name, points)
    else:
        yield Shape(name, bounds(points))


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
