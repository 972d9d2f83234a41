"""CVAT for images: one XML file of pictures and their shapes, beside the pictures.

`json` has `boxes` (xyxy, in pixels), `label_names`, `masks` (polygons), and the element of the picture as `annotation`,
as CVAT wrote it: attributes of shapes, tags, points and lines are only there.

Source: https://docs.cvat.ai/docs/manual/advanced/formats/format-cvat/ (version 1.1).
"""

from __future__ import annotations

import os
from typing import Any

from wdsctl.core.file_limits import MAX_INDEX_BYTES
from wdsctl.core.importers.annotations.annotated import AnnotatedSample
from wdsctl.core.importers.annotations.labelled import (
    Facts,
    Labels,
    PictureIndex,
    Shape,
    find_label_files,
    label_format,
    polygon_shape,
    refuse_labels,
    shape_facts,
)
from wdsctl.core.importers.annotations.xml_text import parse_xml
from wdsctl.core.importers.common.folder_files import FolderFiles, split_of_folder
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.importers.protocol import FieldUse, damaged_file_error
from wdsctl.core.text import path_for_message

_CORNERS = ("@xtl", "@ytl", "@xbr", "@ybr")
_AREAS = ("box", "polygon", "ellipse", "mask")
_OTHERS = ("polyline", "points", "cuboid", "skeleton")


def _is_cvat(path: str) -> bool:
    head = read_head(path, 1 << 16)
    return b"<annotations>" in head and b"<version>" in head and b"<meta>" in head


def _find(path: str) -> str:
    names = find_label_files(path, ".xml", _is_cvat)
    return f"{path_for_message(names[0])} has pictures and shapes of CVAT" if names else ""


def _read(files: FolderFiles, name: str) -> Labels:
    """Raises DatasetError WDS233 for a file that has tracks of a video instead of pictures."""
    index = PictureIndex(files)
    labels = [name] if name else find_label_files(files.root, ".xml", _is_cvat)
    pictures: list[AnnotatedSample] = []
    for path in labels:
        where = path_for_message(os.path.join(files.root, path))
        content = parse_xml(files.read(path, MAX_INDEX_BYTES), where)
        found = _list_of(content.get("image") if isinstance(content, dict) else None)
        if not found:
            error = damaged_file_error("the file has no pictures, as exports of videos have not", where)
            error.hint = "export the task from CVAT again, in the format `CVAT for images 1.1` with the pictures"
            raise error
        for image in found:
            if not isinstance(image, dict):
                refuse_labels("an image has neither a name nor shapes", where)
            reference = str(image.get("@name", ""))
            picture = index.find(reference) or index.find(f"images/{reference}")
            split = split_of_folder(str(image.get("@subset", "")))
            pictures.append(
                AnnotatedSample(picture, image, f"{where}, {path_for_message(reference)}", reference, split)
            )

    uses = (
        FieldUse(
            "box, polygon, ellipse, mask", "json[boxes], json[label_names], json[masks]", "boxes are xyxy in pixels"
        ),
        FieldUse("image", "json[annotation]", "with attributes, tags, points and lines"),
        FieldUse("meta", "", "about the task, not about one sample"),
    )
    names = {_tag_of(each.label) for each in pictures}
    has_shapes = any(kind in each.label for each in pictures for kind in (*_AREAS, *_OTHERS))
    if has_shapes or names == {""}:
        return Labels(pictures, _parse, labels, uses)
    return Labels(pictures, _parse_tag, labels, uses[1:], classes=sorted(names - {""}))


def _tag_of(image: dict[str, Any]) -> str:
    """The first tag of a picture, which is a class of all of it."""
    first = next(iter(_list_of(image.get("tag"))), None)
    return str(first.get("@label", "")) if isinstance(first, dict) else ""


def _parse_tag(image: dict[str, Any]) -> dict[str, Any]:
    name = _tag_of(image)
    return {**({"label_name": name} if name else {}), "annotation": image}


def _parse(image: dict[str, Any]) -> Facts:
    where = str(image.get("@name", ""))
    shapes = [_read_shape(kind, shape, where) for kind in _AREAS for shape in _list_of(image.get(kind))]
    sizes = {name: image.get(f"@{name}", "") for name in ("width", "height")}
    facts = shape_facts(shapes) | {name: int(value) for name, value in sizes.items() if value.isdecimal()}
    others = sum(len(_list_of(image.get(kind))) for kind in _OTHERS)
    return {**facts, "objects": len(shapes) + others, "annotation": image}


def _read_shape(kind: str, shape: dict[str, Any], where: str) -> Shape:
    """Raises DatasetError WDS232."""
    try:
        name = str(shape.get("@label", ""))
        if kind == "box":
            return Shape(name, [float(shape[name]) for name in _CORNERS])
        if kind == "ellipse":
            x, y, rx, ry = (float(shape[name]) for name in ("@cx", "@cy", "@rx", "@ry"))
            return Shape(name, [x - rx, y - ry, x + rx, y + ry])
        if kind == "mask":
            left, top, width, height = (float(shape[f"@{name}"]) for name in ("left", "top", "width", "height"))
            return Shape(name, [left, top, left + width, top + height])
        points = [[float(each) for each in pair.split(",")] for pair in shape["@points"].split(";")]
        if not all(len(point) == 2 for point in points):
            raise ValueError(points)
        return polygon_shape(name, points)
    except (KeyError, TypeError, ValueError):
        refuse_labels(f"a {kind} lacks a number", where)


def _list_of(value: Any) -> list[Any]:
    """The elements of a name: `parse_xml` makes a list only of several."""
    return value if isinstance(value, list) else [] if value is None else [value]


IMPORTER = label_format(
    "cvat",
    "CVAT for images: one XML file of pictures and shapes",
    _find,
    _read,
    "XML file of CVAT",
)
