"""Change the labels of a sample along with its pictures: JSON with boxes, polygons and keypoints, and masks.

Runs in workers, per sample, and only where re-encoding has turned or resized a picture.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from lzma import LZMAError
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
from wdsctl.core.yaml_files.document import parse_yaml

AnyPart = Part | FilePart

#: Changes of pictures: name of the part -> its form before and after.
PictureForms = Mapping[str, tuple[PictureForm, PictureForm]]

_CODE = "WDS348"
_YOLO_ROW = re.compile(rb"\d+(?:[ \t]+(?:0?\.\d+|[01](?:\.\d+)?(?:e-\d+)?)){4,}")
_NUMBER = rb"[-+]?\d+(?:\.\d*)?"
#: Rows of KITTI: a class and 14 or 15 numbers.
_KITTI_ROW = re.compile(rb"\S+(?:[ \t]+%(n)s){14,15}[ \t]*\r?" % {b"n": _NUMBER})
#: Rows of MOT: frame, id, box, confidence; then class and visibility, or a point in space that is not known.
_MOT_ROW = re.compile(
    rb"\d+,-?\d+(?:,%(n)s){4},(?:[01],\d+,(?:[01]|0?\.\d+)|%(n)s,-1,-1,-1)[ \t]*\r?" % {b"n": _NUMBER}
)
#: Rows of ICDAR and DOTA: 4 corners, then a text or class, which may be digits in some rows.
_CORNERS_ROW = re.compile(rb"(?:%(n)s[ \t]*[, \t][ \t]*){7}%(n)s[, \t](.*)" % {b"n": _NUMBER})
_WORD = re.compile(rb"[^\d\s.,;+-]")
_BOX_COLUMNS = re.compile(rb"(?:\s*\w+\s*[,\t])*\s*(?:xmin|x_min|x1|xtl|bbox)(?:\s*[,\t]\s*\w+)*\s*", re.IGNORECASE)
_GEOMETRY_FILES = (".geojson", ".hocr", ".pts")
_NPY_SHAPE = re.compile(rb"'shape': \((\d{1,9}(?:, ?\d{1,9})+)\)")
_NPY_HEADER_BYTES = 256
_MAX_ARRAYS = 1000  # of a file whose headers are read
#: Of damaged or encrypted zips, which `validate` reports.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, LZMAError, struct.error),
    *(EOFError, NotImplementedError, RuntimeError, OSError, ValueError),
)
#: Words in names of images that have a value per pixel of another picture.
_MAP_WORDS = MASK_WORDS | {"depth", "disparity", "normal", "normals", "matte", "alpha", "trimap", "flow", "saliency"}
_IS_MAP = "it has the size of its picture, as a map with a value per pixel"
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
    request: ConvertRequest,
    spec: SourceSpec,
    parts: Sequence[AnyPart],
    changed_sizes: Callable[[], Collection[tuple[int, int]]],
) -> None:
    """Check the labels of a primary, whose pictures are in the media dataset and may be shared.

    `changed_sizes`: returns (width, height) of its pictures that are turned or resized; called only if a part may have
    geometry. Raises LabelsCannotFollow if one has.
    """
    rules = _label_rules(spec.field_map, request.parts)
    reason = "its pictures are in the media dataset, where samples may share them"
    for part in parts:
        try:
            _follow_part(part, None, rules)
        except CannotFollow as why:
            if changed_sizes():
                raise _cannot_follow_error(request, part.name, reason) from why
            return
        if part_kind(part.name) in ("image", "npy", "npz") and _has_value_per_pixel(part, changed_sizes()):
            raise _cannot_follow_error(request, part.name, _IS_MAP)


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
    if change is not None and _has_value_per_pixel(part, (change.before,)):
        raise CannotFollow(_IS_MAP)
    is_file_of_geometry = f".{part.name.lower()}".endswith(_GEOMETRY_FILES)
    has_name = kind not in ("image", "video", "audio", "text", "npy", "npz") and is_geometry_name(part.name)
    if part.name in rules.keys or is_file_of_geometry or has_name:
        raise CannotFollow("only JSON and masks can")
    if kind == "lines":
        _check_no_geometry_in_lines(part, rules.keys)
    elif kind in ("npy", "npz"):
        _check_no_geometry_in_arrays(part, rules.keys)
    elif part.name.lower().endswith(("yaml", "yml")):
        _check_no_geometry_in_yaml(part, rules.keys)
    elif kind == "text":
        _check_no_geometry_in_text(part, is_turned=change is None or change.turn != 1)
    return part


def _check_no_geometry_in_text(part: AnyPart, *, is_turned: bool) -> None:
    data = part.data
    if _XML_GEOMETRY.search(data) or has_text_geometry(data.decode("utf-8", "replace")):
        raise CannotFollow("it has boxes or points in a text")
    rows = data.split(b"\n")
    filled = [row for row in rows if row.strip()]
    if is_turned and filled and all(map(_YOLO_ROW.match, filled)):
        raise CannotFollow("it has rows of YOLO")
    if _BOX_COLUMNS.fullmatch(rows[0]) and len(rows) > 1:
        raise CannotFollow("it is a table with columns of boxes")
    if filled and _are_rows_of_boxes(filled):
        raise CannotFollow("it has rows of boxes")


def _are_rows_of_boxes(rows: Sequence[bytes]) -> bool:
    if all(map(_KITTI_ROW.fullmatch, rows)) or all(map(_MOT_ROW.fullmatch, rows)):
        return True
    corners = [_CORNERS_ROW.fullmatch(row) for row in rows]
    return all(corners) and any(found and _WORD.search(found[1]) for found in corners)


def _has_value_per_pixel(part: AnyPart, sizes: Collection[tuple[int, int]]) -> bool:
    """Whether a part is an array, or an image that is no picture itself, of one of these sizes (width, height) of its
    pictures, such as a depth map. Colors under a name that says nothing, such as `edited.png`, are another picture.
    """
    name = part.name.lower()
    if name.endswith(("npy", "npz")):
        shapes = [shape for _, shape in _array_shapes(part.data)]
        return any((height, width) in (shape[:2], shape[-2:]) for width, height in sizes for shape in shapes)
    if part_kind(name) != "image":
        return False
    is_named = not _MAP_WORDS.isdisjoint(re.split(r"[^a-z]+", name))
    if name.endswith("png"):
        data = part.data
        has_no_colors = data[25:26] in (b"\0", b"\3", b"\4")  # gray values or a palette
        size = struct.unpack(">II", data[16:24]) if data[12:16] == b"IHDR" and len(data) > 25 else None
        return size in sizes and (is_named or has_no_colors)
    return is_named and _image_size(part.data) in sizes


def _image_size(data: bytes) -> tuple[int, int] | None:
    from wdsctl.core.convert.transcode import IMAGE_ERRORS, picture_form

    with suppress(*IMAGE_ERRORS):  # `validate` reports damaged images
        return picture_form(data)[:2]
    return None


def _array_shapes(data: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """(name, shape) of the arrays of a file of NumPy; the name is empty for npy. Reads headers only."""
    if data[:2] != b"PK":
        return [("", _npy_shape(data[:_NPY_HEADER_BYTES]))]
    with suppress(*_ZIP_ERRORS), zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist()[:_MAX_ARRAYS] if name.endswith(".npy")]
        return [(name.removesuffix(".npy"), _npy_shape(archive.open(name).read(_NPY_HEADER_BYTES))) for name in names]
    return []


def _npy_shape(header: bytes) -> tuple[int, ...]:
    found = _NPY_SHAPE.search(header)
    return tuple(map(int, found[1].split(b","))) if found else ()


def _check_no_geometry_in_arrays(part: AnyPart, keys: Mapping[str, GeometryKind]) -> None:
    """Rows of three numbers are points in space, such as those of a laser scanner, unless they are keypoints."""
    for name, shape in _array_shapes(part.data):
        named = name or part.name
        is_in_space = shape[-1:] == (3,) and not re.search(r"key|kpt|landmark", named.lower())
        if named in keys or (is_geometry_name(named) and not is_in_space):
            raise CannotFollow("it has an array of boxes or points, and only those in JSON can")


def _check_no_geometry_in_yaml(part: AnyPart, keys: Mapping[str, GeometryKind]) -> None:
    with suppress(DatasetError, UnicodeDecodeError):  # nothing reads it
        value = parse_yaml(part.data.decode(), part.name).data
        try:
            follow_json(read_json(json.dumps(value, default=str, skipkeys=True)), None, keys, name=part.name)
        except CannotFollow as why:
            raise CannotFollow("it has boxes or points, and only those in JSON can") from why


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
