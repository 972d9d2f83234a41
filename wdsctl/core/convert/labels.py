"""Change the labels of a sample along with its pictures: JSON with boxes, polygons and keypoints, and masks.

Runs in workers, per sample, and only where re-encoding has turned or resized a picture.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from wdsctl.core.convert.parts import Pairs, PartRules, is_selected_part, renamed_part_name
from wdsctl.core.convert.request import ConvertRequest, SourceSpec
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.importers.common.values import encode_json
from wdsctl.core.importers.protocol import FilePart, Part
from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import part_kind
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.geometry import (
    CannotFollow,
    PictureChange,
    PictureForm,
    find_change,
    follow_json,
    geometry_keys,
    has_text_geometry,
    is_geometry_name,
)
from wdsctl.core.samples.naming import MASK_WORDS
from wdsctl.core.samples.types import GeometryKind

AnyPart = Part | FilePart

#: Changes of pictures: name of the part -> its form before and after.
PictureForms = Mapping[str, tuple[PictureForm, PictureForm]]

_CODE = "WDS348"
_YOLO_ROW = re.compile(rb"\d+(?:[ \t]+(?:0?\.\d+|[01](?:\.\d+)?(?:e-\d+)?)){4,}")
_NUMBER = rb"[-+]?\d+(?:\.\d*)?"
#: Rows of KITTI (a class and 14 or 15 numbers), of ICDAR and DOTA (4 corners, then a text or class), and of a table.
_BOX_ROW = re.compile(
    rb"(?:\S+(?:[ \t]+%(n)s){14,15}|(?:%(n)s[ \t]*[, \t][ \t]*){7}%(n)s[, \t].*\D.*)[ \t]*\r?" % {b"n": _NUMBER}
)
_BOX_COLUMNS = re.compile(rb"(?:\s*\w+\s*[,\t])*\s*(?:xmin|x_min|x1|xtl|bbox)(?:\s*[,\t]\s*\w+)*\s*", re.IGNORECASE)
_GEOMETRY_FILES = (".geojson", ".hocr", ".pts")
_NPY_SHAPE = re.compile(rb"'shape': \((\d{1,9}(?:, ?\d{1,9})+)\)")
_XML_GEOMETRY = re.compile(rb"<(?:bndbox|xmin|polygon|points|box|bbox|Coords)\b|\bHPOS=")


class LabelsCannotFollow(UsageError):  # noqa: N818 - the noun is the error
    """A conversion would turn or resize pictures, and their labels would not fit them any more."""

    code = _CODE


class _LabelRules(NamedTuple):
    """`keys`: keys of JSON and names of parts with geometry. `masks`: the names of parts that are masks."""

    keys: Mapping[str, GeometryKind]
    masks: frozenset[str]


@lru_cache(maxsize=64)
def _label_rules(field_map: Pairs, rules: PartRules) -> _LabelRules:
    paths = parse_field_map(dict(field_map))
    keys = {renamed_part_name(rules, key) or key: kind for key, kind in geometry_keys(paths).items()}
    masks = (renamed_part_name(rules, each.part) for each in (paths["mask"].alternatives if "mask" in paths else ()))
    return _LabelRules(keys, frozenset(filter(None, masks)))


def follow_pictures(
    request: ConvertRequest, spec: SourceSpec, forms: PictureForms, parts: Sequence[AnyPart]
) -> list[AnyPart]:
    """The parts of a sample after its pictures have changed by `forms`, with the labels changed alike.

    Raises LabelsCannotFollow if a part has geometry that cannot follow. Cost: reads JSON and text, and decodes masks.
    """
    changes = {find_change(*each, spec.drawn_on) for each in forms.values()}
    if all(change is not None and change.is_none for change in changes):
        return list(parts)
    change = next(iter(changes)) if len(changes) == 1 else None
    rules = _label_rules(spec.field_map, request.parts)
    followed: list[AnyPart] = []
    for part in parts:
        try:
            followed.append(part if part.name in forms else _follow_part(part, change, rules))
        except CannotFollow as why:
            is_unknown = None in changes
            reason = "the pictures of the sample change differently" if len(changes) > 1 else str(why)
            if is_unknown:
                reason = "dataset.yaml does not say if labels are drawn on pictures as shown (by EXIF) or as stored"
            raise _cannot_follow_error(request, part.name, reason, is_unknown=is_unknown) from why
    return followed


def check_labels_apart(
    request: ConvertRequest, spec: SourceSpec, parts: Sequence[AnyPart], are_turned_or_resized: Callable[[], bool]
) -> None:
    """Check the labels of a primary, whose pictures are in the media dataset and may be shared.

    Raises LabelsCannotFollow if a part has geometry and the pictures change, which is only then computed.
    """
    rules = _label_rules(spec.field_map, request.parts)
    for part in parts:
        try:
            _follow_part(part, None, rules)
        except CannotFollow as why:
            if are_turned_or_resized():
                reason = "its pictures are in the media dataset, where samples may share them"
                raise _cannot_follow_error(request, part.name, reason) from why
            return


def check_masks_not_selected(request: ConvertRequest, specs: Sequence[SourceSpec]) -> None:
    """Raises UsageError if `--image-parts` selects a mask of dataset.yaml, whose ids cannot be interpolated."""
    image = request.image
    if image is None or image.labels == "keep":
        return
    for spec in specs:
        for name in sorted(_label_rules(spec.field_map, request.parts).masks):
            if is_selected_part(name, image):
                raise UsageError(
                    f"--image-parts selects {name}, a mask, whose ids cannot be interpolated",
                    where=spec.path,
                    hint="name the pictures only, such as `--image-parts jpg`: their masks follow by themselves",
                )


def _cannot_follow_error(
    request: ConvertRequest, part: str, reason: str, *, is_unknown: bool = False
) -> LabelsCannotFollow:
    keeps = "pass `--labels keep` if the labels may stay as they are"
    ways = ["prepare the source with `--drawn-on shown` or `--drawn-on stored`"] if is_unknown else []
    if request.image is not None and not request.image.max_side:
        ways.append("pass `--orientation keep` to turn no picture")
    return LabelsCannotFollow(
        f"the pictures are turned or resized, and {part} cannot follow: {reason}", hint="; or ".join([*ways, keeps])
    )


def _follow_part(part: AnyPart, change: PictureChange | None, rules: _LabelRules) -> AnyPart:
    kind, words = part_kind(part.name), set(re.split(r"[^a-z]+", part.name.lower()))
    if change is not None and not change.moves_labels and kind != "json":
        return part
    if part.name in rules.masks or (kind == "image" and words & MASK_WORDS):
        return _follow_mask(part, change)
    if kind == "json":
        return _follow_json_part(part, change, rules.keys)
    if kind == "lines":
        _check_no_geometry_in_lines(part, rules.keys)
    if change is not None and _has_value_per_pixel(part, change):
        raise CannotFollow("it has the size of its picture, as a map with a value per pixel")
    is_file_of_geometry = f".{part.name.lower()}".endswith(_GEOMETRY_FILES)
    if (
        part.name in rules.keys
        or is_file_of_geometry
        or (kind not in ("image", "video", "audio", "text") and is_geometry_name(part.name))
    ):
        raise CannotFollow("only JSON and masks can")
    if kind == "text":
        data = part.data
        if _XML_GEOMETRY.search(data) or has_text_geometry(data.decode("utf-8", "replace")):
            raise CannotFollow("it has boxes or points in a text")
        rows = data.split(b"\n")
        is_turned = change is None or change.turn != 1
        if is_turned and any(map(bytes.strip, rows)) and all(_YOLO_ROW.match(row) for row in rows if row.strip()):
            raise CannotFollow("it has rows of YOLO")
        if _BOX_COLUMNS.fullmatch(rows[0]) and len(rows) > 1:
            raise CannotFollow("it is a table with columns of boxes")
        if any(map(bytes.strip, rows)) and all(_BOX_ROW.fullmatch(row) for row in rows if row.strip()):
            raise CannotFollow("it has rows of boxes")
    return part


def _has_value_per_pixel(part: AnyPart, change: PictureChange) -> bool:
    """Whether a part is an array or a PNG of the size of its picture, such as a depth map."""
    width, height = change.before
    if part.name.lower().endswith("png"):
        data = part.data
        return data[12:16] == b"IHDR" and data[16:24] == struct.pack(">II", width, height)
    found = _NPY_SHAPE.search(part.data[:256]) if part.name.lower().endswith("npy") else None
    shape = tuple(map(int, found[1].split(b","))) if found else ()
    return (height, width) in (shape[:2], shape[-2:])


def _check_no_geometry_in_lines(part: AnyPart, keys: Mapping[str, GeometryKind]) -> None:
    for line in part.data.splitlines():
        try:
            value = read_json(line)
        except ValueError:
            continue  # nothing reads it
        follow_json(value, None, keys, name=part.name)


def _follow_json_part(part: AnyPart, change: PictureChange | None, keys: Mapping[str, GeometryKind]) -> AnyPart:
    data = part.data
    try:
        value = read_json(data)
    except ValueError:
        return part  # nothing reads it
    followed = follow_json(value, change, keys, name=part.name)
    return part if followed is value else Part(part.name, encode_json(followed))


def _follow_mask(part: AnyPart, change: PictureChange | None) -> AnyPart:
    from wdsctl.core.convert.transcode import IMAGE_ERRORS, transcode_mask

    if change is None:
        raise CannotFollow("it is a mask")
    if not part.name.lower().endswith("png"):
        raise CannotFollow("a mask can be written as PNG only")
    try:
        return Part(part.name, transcode_mask(part.data, change))
    except IMAGE_ERRORS as error:
        raise DatasetError(
            f"cannot read the mask {part.name}: {error}",
            hint="run `wdsctl validate SOURCE --level content` to find damaged masks, and correct them",
            code="WDS341",
        ) from error
