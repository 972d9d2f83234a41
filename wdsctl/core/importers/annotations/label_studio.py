"""Label Studio's JSON export: a list of tasks, each with a picture and annotations.

`json` has `boxes` (xyxy, in pixels), `label_names`, `masks` (polygons), `choices` (classes of the whole picture) and
the task as `annotation`. If no task has regions, the first choice is the class of the picture. Of several annotations
of a task, the first that was not cancelled counts. Tasks about texts, sound and video are not pictures: their exports
are lists of objects, which the format `json` reads.

Source: https://labelstud.io/guide/export.html (the fields; positions are percentages of the picture).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers.annotations.annotated import AnnotatedSample
from wdsctl.core.importers.annotations.labelled import (
    Facts,
    Labels,
    PictureIndex,
    Shape,
    bounds,
    find_label_files,
    label_format,
    polygon_shape,
    refuse_labels,
    shape_facts,
)
from wdsctl.core.importers.common.folder_files import FolderFiles, media_type_of
from wdsctl.core.importers.common.text import JsonFile
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.importers.protocol import FieldUse
from wdsctl.core.text import path_for_message

_KEYS = (b'"annotations"', b'"result"', b'"data"')
#: What Label Studio puts before the name of an uploaded file.
_UPLOAD_PREFIX = re.compile(r"[0-9a-f]{8}-")


def _is_export(path: str) -> bool:
    """Whether a file is a list of tasks with annotations, and the first names a picture."""
    head = read_head(path, 1 << 18)
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") or not all(key in head for key in _KEYS):
        return False
    file = JsonFile(path)
    try:
        first = next(file.elements(file.value_start()), None)
        return first is not None and bool(_picture_of(file.parse(*first)))
    except WdsctlError:
        return False
    finally:
        file.close()


def _picture_of(task: Any) -> str:
    """The reference of the picture of a task; empty if it has none."""
    data = task.get("data") if isinstance(task, dict) and isinstance(task.get("annotations"), list) else None
    values = [value for value in data.values() if isinstance(value, str)] if isinstance(data, dict) else []
    return next((name for name in map(_path_of, values) if media_type_of(name) == "image"), "")


def _path_of(reference: str) -> str:
    """The path of a file in a URL: `/data/local-files/?d=a/1.jpg`, `/data/upload/1/1.jpg`, `s3://bucket/a/1.jpg`."""
    try:
        parts = urlsplit(reference)
    except ValueError:
        return ""
    local = parse_qs(parts.query).get("d", [""])[0]
    return local or unquote(parts.path).removeprefix("/data/").lstrip("/")


def _find(path: str) -> str:
    names = find_label_files(path, ".json", _is_export)
    return f"{path_for_message(names[0])} has tasks of Label Studio about pictures" if names else ""


def _read(files: FolderFiles, name: str) -> Labels:
    index = PictureIndex(files)
    labels = [name] if name else find_label_files(files.root, ".json", _is_export)
    opened = [JsonFile(os.path.join(files.root, path)) for path in labels]
    pictures: list[AnnotatedSample] = []
    classes: set[str] = set()
    has_regions = False
    for number, file in enumerate(opened):
        where = path_for_message(os.path.join(files.root, labels[number]))
        for at, span in enumerate(file.elements(file.value_start())):
            task = file.parse(*span)
            values = list(_values_of(task))
            has_regions = has_regions or any(map(_label_of, values))
            classes.update(name for value in values for name in _choices_of(value)[:1])
            reference = _picture_of(task)
            base = reference.rpartition("/")[2]
            # A folder of pictures often has the names from before the upload.
            picture = index.find(reference) or index.find(_UPLOAD_PREFIX.sub("", base, count=1))
            pictures.append(AnnotatedSample(picture, (number, *span), f"{where}, item {at:,}", reference))

    classes = set() if has_regions else classes

    def parse(label: tuple[int, int, int]) -> dict[str, Any]:
        number, start, stop = label
        where = f"{path_for_message(labels[number])} (byte {start:,})"
        facts = _facts_of(opened[number].parse(start, stop), where)
        if classes:
            name = next(iter(facts.get("choices", ())), "")
            return {**({"label_name": name} if name else {}), "annotation": facts["annotation"]}
        return facts

    def close() -> None:
        for file in opened:
            file.close()

    uses = (
        FieldUse("result", "json[boxes], json[label_names], json[masks]", "boxes are xyxy in pixels"),
        FieldUse("task", "json[annotation]", "with all annotations and predictions"),
    )
    return Labels(pictures, parse, labels, uses[1:] if classes else uses, classes=sorted(classes), close=close)


def _values_of(task: Any) -> Iterator[dict[str, Any]]:
    """The results of the annotation of a task that counts, each with the size of its picture."""
    found = task.get("annotations") if isinstance(task, dict) else None
    annotations = found if isinstance(found, list) else []
    done = [each for each in annotations if isinstance(each, dict) and not each.get("was_cancelled")]
    results = done[0].get("result") if done else None
    for result in results if isinstance(results, list) else ():
        value = result.get("value") if isinstance(result, dict) else None
        if isinstance(value, dict):
            yield {**value, "size": (result.get("original_width"), result.get("original_height"))}


def _choices_of(value: dict[str, Any]) -> list[str]:
    found = value.get("choices")
    return [str(each) for each in found] if isinstance(found, list) else []


def _label_of(value: dict[str, Any]) -> list[Any]:
    """The labels of a region; empty for other results."""
    return next((value[key] for key in value if key.endswith("labels") and isinstance(value[key], list)), [])


def _facts_of(task: Any, where: str) -> Facts:
    regions = [(str(label[0]), value) for value in _values_of(task) if (label := _label_of(value))]
    shapes = [shape for name, value in regions for shape in _shapes_of(name, value, where)]
    choices = [name for value in _values_of(task) for name in _choices_of(value)]
    size = regions[-1][1]["size"] if regions else (None, None)
    facts = shape_facts(shapes) | ({"choices": choices} if choices else {})
    facts |= {name: each for name, each in zip(("width", "height"), size, strict=True) if each is not None}
    return {**facts, "objects": len(regions), "annotation": task}


def _shapes_of(name: str, value: dict[str, Any], where: str) -> Iterator[Shape]:
    """The shape of a region; nothing for a brush and for points. A turned box is a polygon, too."""
    size = value["size"]
    if not all(isinstance(each, int | float) and each > 0 for each in size):
        refuse_labels("a region lacks original_width and original_height", where)
    scale = size[0] / 100, size[1] / 100
    try:
        if "points" in value:
            yield polygon_shape(name, [[x * scale[0], y * scale[1]] for x, y in value["points"]])
        elif "radiusX" in value:
            x, y, rx, ry = (value[key] for key in ("x", "y", "radiusX", "radiusY"))
            corners = [[(x - rx) * scale[0], (y - ry) * scale[1]], [(x + rx) * scale[0], (y + ry) * scale[1]]]
            yield Shape(name, bounds(corners))
        elif "height" in value and "x" in value:
            yield _turned_box(name, value, scale)
    except (KeyError, TypeError, ValueError):
        refuse_labels("a region lacks a number", where)


def _turned_box(name: str, value: dict[str, Any], scale: tuple[float, float]) -> Shape:
    """The box of a rectangle; it turns around its first corner, clockwise by degrees."""
    left, top = value["x"] * scale[0], value["y"] * scale[1]
    width, height = value["width"] * scale[0], value["height"] * scale[1]
    angle = math.radians(value.get("rotation") or 0)
    if not angle:
        return Shape(name, [left, top, left + width, top + height])
    cosine, sine = math.cos(angle), math.sin(angle)
    corners = [(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)]
    return polygon_shape(name, [[left + x * cosine - y * sine, top + x * sine + y * cosine] for x, y in corners])


IMPORTER = label_format(
    "labelstudio",
    "Label Studio's JSON export of tasks about pictures",
    _find,
    _read,
    "JSON file of Label Studio with tasks about pictures",
)
