"""Change the labels of a sample along with its pictures: JSON with boxes, polygons and keypoints, and masks.

Runs in workers, per sample, and only where re-encoding has turned or resized a picture. Numbers that no name calls
geometry are judged together (`check_seen_numbers`): over some samples before anything is written, and over each unit.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.convert.parts import Pairs, PartRules, is_selected_part, renamed_part_name
from wdsctl.core.convert.plan_file import PlannedSample
from wdsctl.core.convert.request import ConvertRequest, SeenKey, SourceSpec
from wdsctl.core.convert.unchanged import UnchangedNumbers
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.importers.common.values import encode_json
from wdsctl.core.importers.protocol import FilePart, Part
from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import MEDIA_EXTENSIONS, part_kind
from wdsctl.core.samples.drawn_numbers import (
    NumberRow,
    SampleCounts,
    find_drawn_row,
    find_drawn_samples,
    holds_numbers,
    rows_of_text,
)
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.geometry import (
    BoxFormatUnknown,
    KeptNumbers,
    follow_json,
    geometry_keys,
    has_text_geometry,
    is_geometry_name,
)
from wdsctl.core.samples.naming import MASK_WORDS
from wdsctl.core.samples.picture_change import CannotFollow, PictureChange, PictureForm, find_change
from wdsctl.core.samples.types import BOX_FORMATS, BoxFormat, GeometryKind
from wdsctl.core.yaml_files.document import parse_yaml
from wdsctl.core.zip_errors import HELD_ZIP_ERRORS

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
_HEADER_ROW = re.compile(rb"[A-Za-z_]+:\S*\s*")  # in DOTA: imagesource and gsd
_WORD = re.compile(rb"[^\d\s.,;+-]")
_BOX_COLUMN = rb"(?:x_?min|x[01]|xtl|bbox|left|p?x[\s,]+p?y(?![\s,]+p?z))"
_BOX_COLUMNS = re.compile(rb"(?:\s*\w+\s*[,\t])*\s*%b(?:\s*[,\t]\s*\w+)*\s*" % _BOX_COLUMN, re.IGNORECASE)
_GEOMETRY_FILES = (".geojson", ".hocr", ".pts")
_NPY_SHAPE = re.compile(rb"'shape': \((\d{1,9}(?:, ?\d{1,9})+)\)")
_NPY_NO_NUMBERS = re.compile(rb"'descr': '[<>|=]?[bSUMm]")
_NPY_HEADER_BYTES = 256
_SMALL_ARRAY_BYTES = 1 << 16  # arrays up to this size may hold points or boxes
_MAX_NUMBERS = 10_000  # of a key that are judged together
_MAX_ARRAYS = 1000  # of a file whose headers are read
#: Words in names of images that have a value per pixel of another picture.
_MAP_WORDS = MASK_WORDS | {"depth", "disparity", "normal", "normals", "matte", "alpha", "trimap", "flow", "saliency"}
_IS_MAP = "it has the size of its picture, as a map with a value per pixel"
_XML_GEOMETRY = re.compile(rb"<(?:bndbox|xmin|polygon|points|box|bbox|Coords)\b|\bHPOS=|\bbbox \d")


class SeenNumbers:
    """Numbers of some samples that no name calls geometry. `judged`: counts of samples in which they are no labels.

    `unchanged`: the paths of all such numbers.
    """

    def __init__(self, judged: Iterable[tuple[SeenKey, SampleCounts]] = ()) -> None:
        self.rows: defaultdict[SeenKey, list[NumberRow]] = defaultdict(list)
        self.numbers: Counter[SeenKey] = Counter()
        self.unchanged = UnchangedNumbers()
        self.judged = dict(judged)


class LabelsCannotFollow(UsageError):  # noqa: N818 - the noun is the error
    """A conversion would turn or resize pictures, and their labels would not fit them any more."""

    code = _CODE


class _LabelRules(NamedTuple):
    """`keys`: keys of JSON and names of parts with geometry. `masks`: the names of parts that are masks. `box_format`:
    of boxes that do not say.
    """

    keys: Mapping[str, GeometryKind]
    masks: frozenset[str]
    box_format: BoxFormat | None


def _label_rules(request: ConvertRequest, field_map: Pairs) -> _LabelRules:
    return _parsed_rules(field_map, request.parts, request.image.box_format if request.image else None)


@lru_cache(maxsize=64)
def _parsed_rules(field_map: Pairs, rules: PartRules, box_format: BoxFormat | None) -> _LabelRules:
    paths = parse_field_map(dict(field_map))
    keys = {renamed_part_name(rules, key) or key: kind for key, kind in geometry_keys(paths).items()}
    masks = (renamed_part_name(rules, each.part) for each in (paths["mask"].alternatives if "mask" in paths else ()))
    return _LabelRules(keys, frozenset(filter(None, masks)), box_format)


def follow_pictures(
    request: ConvertRequest,
    spec: SourceSpec,
    forms: PictureForms,
    parts: Sequence[AnyPart],
    *,
    sample: PlannedSample,
    seen: SeenNumbers | None,
) -> list[AnyPart]:
    """The parts of a sample after its pictures have changed by `forms`, with the labels changed alike.

    `seen`: gets the numbers that stay, for `check_seen_numbers`.
    Raises LabelsCannotFollow if a part has geometry that cannot follow. Cost: reads JSON and text, and decodes masks.
    """
    changes = {find_change(*each, spec.drawn_on) for each in forms.values()}
    if all(change is not None and change.is_none for change in changes):
        return list(parts)
    change = next(iter(changes)) if len(changes) == 1 else None
    rules = _label_rules(request, spec.field_map)
    size = next(iter(forms.values()))[0][:2] if change is None else change.before
    followed: list[AnyPart] = []
    for part in parts:
        try:
            kept = None if seen is None else _note_numbers(seen, part.name, lambda: size, sample)
            followed.append(part if part.name in forms else _follow_part(part, change, rules, kept))
            _note_paths(seen, part.name, kept, lambda: size)
        except CannotFollow as why:
            is_unknown = None in changes
            reason = "the pictures of the sample change differently" if len(changes) > 1 else str(why)
            if is_unknown:
                reason = "dataset.yaml does not say if labels are drawn on pictures as shown (by EXIF) or as stored"
            is_box = isinstance(why, BoxFormatUnknown)
            raise _cannot_follow_error(request, part.name, reason, is_unknown=is_unknown, is_box=is_box) from why
    return followed


def _note_numbers(
    seen: SeenNumbers, part: str, find_size: Callable[[], tuple[int, int] | None], sample: PlannedSample
) -> KeptNumbers:
    """`find_size`: returns (width, height) of the picture, or None if no picture changes; called for numbers only."""

    def note(key: str, value: Sequence[float] | str) -> None:
        rows, is_all = rows_of_text(value) if isinstance(value, str) else ([tuple(value)], True)
        size = find_size() if rows else (0, 0)
        if size is not None:
            place = (sample.source_index, sample.sample_index)
            seen.rows[part, key, not is_all].extend(NumberRow(row, size, sample.key, place) for row in rows or [()])
            seen.numbers[part, key, not is_all] += sum(map(len, rows)) + 1

    return KeptNumbers(note, set())


def _note_paths(
    seen: SeenNumbers | None,
    part: str,
    kept: KeptNumbers | None,
    find_size: Callable[[], tuple[int, int] | None],
) -> None:
    """`find_size`: as for `_note_numbers`; called for numbers under new paths only."""
    if seen is None or kept is None or not kept.paths:
        return
    new = {(part, *path) for path in kept.paths} - seen.unchanged.paths
    if new and find_size() is not None:
        seen.unchanged.add(new)


def check_seen_numbers(request: ConvertRequest, seen: SeenNumbers, *, least_samples: int = 0) -> None:
    """Judge the numbers of all keys that are in `least_samples` samples, and count them as judged.

    Raises LabelsCannotFollow if the numbers of a key look like points or boxes on pictures.
    """
    for key, rows in sorted(seen.rows.items()):
        if len({row.sample for row in rows}) >= least_samples:
            _judge_numbers(request, seen, key, rows)


def check_many_numbers(request: ConvertRequest, seen: SeenNumbers) -> None:
    """As `check_seen_numbers`, for keys whose numbers would take much memory."""
    for key in [key for key, count in seen.numbers.items() if count > _MAX_NUMBERS]:
        _judge_numbers(request, seen, key, seen.rows[key])


def _judge_numbers(request: ConvertRequest, seen: SeenNumbers, key: SeenKey, rows: list[NumberRow]) -> None:
    """A key that is in no other samples is judged by all rows together, and each by neighbouring samples."""
    part, name, are_texts = key
    before = seen.judged.get(key, SampleCounts())
    found = None if before.samples else find_drawn_row(rows, are_texts=are_texts)
    if found is None:
        found, seen.judged[key] = find_drawn_samples(rows, before, are_texts=are_texts)
    if found is not None:
        numbers = ", ".join(f"{number:g}" for number in found.numbers[:8])
        width, height = found.size
        look = "look" if " and " in name else "looks"
        reason = f"{name} {look} like points or boxes, such as [{numbers}] on a picture of {width} x {height}"
        raise _cannot_follow_error(request, part, reason, where=f"sample {found.sample}")
    seen.rows.pop(key)
    seen.numbers.pop(key)


def check_labels_apart(
    request: ConvertRequest,
    spec: SourceSpec,
    parts: Sequence[AnyPart],
    changed_sizes: Callable[[], Collection[tuple[int, int]]],
    *,
    sample: PlannedSample,
    seen: SeenNumbers | None,
) -> None:
    """Check the labels of a primary, whose pictures are in the media dataset and may be shared.

    `changed_sizes`: returns (width, height) of its pictures that are turned or resized; called only if a part may have
    geometry. `seen`: as for `follow_pictures`. Raises LabelsCannotFollow if a part has geometry.
    """
    rules = _label_rules(request, spec.field_map)
    reason = "its pictures are in the media dataset, where samples may share them"

    def find_size() -> tuple[int, int] | None:
        return min(changed_sizes(), default=None)

    for part in parts:
        kept = None if seen is None else _note_numbers(seen, part.name, find_size, sample)
        try:
            _follow_part(part, None, rules, kept)
        except CannotFollow as why:
            if changed_sizes():
                raise _cannot_follow_error(request, part.name, reason) from why
            return
        if part_kind(part.name) in ("image", "npy", "npz") and _has_value_per_pixel(part, changed_sizes()):
            raise _cannot_follow_error(request, part.name, _IS_MAP)
        _note_paths(seen, part.name, kept, find_size)


def check_masks_not_selected(request: ConvertRequest, specs: Sequence[SourceSpec]) -> None:
    """Raises UsageError if `--image-parts` selects a mask of dataset.yaml, whose ids cannot be interpolated."""
    image = request.image
    if image is None or image.labels == "keep":
        return
    for spec in specs:
        for name in sorted(_label_rules(request, spec.field_map).masks):
            if is_selected_part(name, image):
                raise UsageError(
                    f"--image-parts selects {name}, a mask, whose ids cannot be interpolated",
                    where=spec.path,
                    hint="name the pictures only, such as `--image-parts jpg`: their masks follow by themselves",
                )


def _cannot_follow_error(
    request: ConvertRequest, part: str, reason: str, *, where: str = "", is_unknown: bool = False, is_box: bool = False
) -> LabelsCannotFollow:
    ways = ["prepare the source with `--drawn-on shown` or `--drawn-on stored`"] if is_unknown else []
    if is_box:
        formats = ", ".join(BOX_FORMATS)
        ways.append(f"pass `--box-format` with what the numbers are, one of {formats}: the boxes then follow")
    if request.image is not None and not request.image.max_side:
        ways.append("pass `--orientation keep` to turn no picture")
    ways.append("pass `--labels keep` if no label has pixels of the picture: all labels stay as they are")
    return LabelsCannotFollow(
        f"the pictures are turned or resized, and {part} cannot follow: {reason}", where=where, hint="; or ".join(ways)
    )


def _follow_part(
    part: AnyPart, change: PictureChange | None, rules: _LabelRules, kept: KeptNumbers | None = None
) -> AnyPart:
    kind, words = part_kind(part.name), set(re.split(r"[^a-z]+", part.name.lower()))
    extension = part.name.rpartition(".")[2].lower()
    if change is not None and not change.moves_labels and kind != "json":
        return part
    if part.name in rules.masks or (kind == "image" and words & MASK_WORDS):
        return _follow_mask(part, change)
    if kind == "json":
        return _follow_json_part(part, change, rules, kept)
    if change is not None and _has_value_per_pixel(part, (change.before,)):
        raise CannotFollow(_IS_MAP)
    is_file_of_geometry = f".{part.name.lower()}".endswith(_GEOMETRY_FILES)
    has_name = kind not in ("image", "video", "audio", "text", "npy", "npz") and is_geometry_name(part.name)
    if part.name in rules.keys or is_file_of_geometry or has_name:
        raise CannotFollow("only JSON and masks can")
    if kind in ("npy", "npz"):
        _check_no_geometry_in_arrays(part, rules.keys, kept)
    elif kind == "lines":
        _check_no_geometry_in_lines(part, rules.keys, kept)
    elif extension in ("yaml", "yml"):
        _check_no_geometry_in_yaml(part, rules.keys, kept)
    elif kind in ("text", "integer", "torch", "other") and extension not in MEDIA_EXTENSIONS:
        if kind not in ("text", "integer") and _is_binary(part.data):
            raise CannotFollow("wdsctl cannot read it, so it may have a map, points or boxes")
        _check_no_geometry_in_text(part, is_turned=change is None or change.turn != 1)
        if kept is not None:
            kept.pass_on(part.name, part.data.decode("utf-8", "replace"))
            _note_text(part, kept)
    return part


def _note_text(part: AnyPart, kept: KeptNumbers | None) -> None:
    if kept is not None and holds_numbers(part.data.decode("utf-8", "replace")):
        kept.paths.add(())


def _is_binary(data: bytes) -> bool:
    try:
        return "\0" in data.decode()
    except UnicodeDecodeError:
        return True


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
    boxes = [row for row in filled if not _HEADER_ROW.fullmatch(row)]
    if boxes and _are_rows_of_boxes(boxes):
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
    from wdsctl.core.convert.transcode import IMAGE_ERRORS, image_mode, picture_form

    is_named = not _MAP_WORDS.isdisjoint(re.split(r"[^a-z]+", name))
    is_lossy = name.endswith(("jpg", "jpeg"))  # gray photos
    with suppress(*IMAGE_ERRORS):  # `validate` reports damaged images
        has_no_colors = not is_lossy and image_mode(part.data).startswith(("1", "L", "P", "I", "F"))
        return (is_named or has_no_colors) and picture_form(part.data)[:2] in sizes
    return False


def _array_shapes(data: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """(name, shape) of the arrays of a file of NumPy; the name is empty for npy."""
    found = [(name, _NPY_SHAPE.search(header)) for name, header in _array_headers(data)]
    return [(name, tuple(map(int, shape[1].split(b","))) if shape else ()) for name, shape in found]


def _array_headers(data: bytes) -> list[tuple[str, bytes]]:
    """(name, first bytes) of the arrays of a file of NumPy; the name is empty for npy."""
    if data[:2] != b"PK":
        return [("", data[:_NPY_HEADER_BYTES])]
    with suppress(*HELD_ZIP_ERRORS), zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist()[:_MAX_ARRAYS] if name.endswith(".npy")]
        return [(name.removesuffix(".npy"), archive.open(name).read(_NPY_HEADER_BYTES)) for name in names]
    return []


def _check_no_geometry_in_arrays(part: AnyPart, keys: Mapping[str, GeometryKind], kept: KeptNumbers | None) -> None:
    """Rows of three numbers are points in space, such as those of a laser scanner, unless they are keypoints."""
    for name, shape in _array_shapes(part.data):
        named = name or part.name
        is_in_space = shape[-1:] == (3,) and not re.search(r"key|kpt|landmark", named.lower())
        if named in keys or (is_geometry_name(named) and not is_in_space):
            raise CannotFollow("it has an array of boxes or points, and only those in JSON can")
    if kept is None:
        return
    for name, array in _small_arrays(part.data):
        is_color = array.dtype == np.uint8 and array.shape[-1:] in ((3,), (4,))
        if not is_color and not is_geometry_name(name or part.name):
            follow_json(array.tolist(), None, name=name or part.name, kept=kept._replace(paths=set()))
    kept.paths.update((name,) if name else () for name, header in _array_headers(part.data) if _has_numbers(header))


def _has_numbers(header: bytes) -> bool:
    """Whether an array is of other values than bool, texts and dates. Objects may hold numbers."""
    return header.startswith(b"\x93NUMPY") and not _NPY_NO_NUMBERS.search(header)


def _small_arrays(data: bytes) -> Iterator[tuple[str, Any]]:
    """(name, array) of the arrays of numbers of a file of NumPy that are small enough to be points or boxes."""
    for name, file in _array_files(data):
        with suppress(*HELD_ZIP_ERRORS):  # objects, or damaged: nothing reads it as points
            array = np.lib.format.read_array(io.BytesIO(file), allow_pickle=False)
            if array.dtype.kind in "iuf" and np.isfinite(array).all():
                yield name, array


def _array_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each small .npy in an .npz, or of `data` itself, without a name."""
    if data[:2] != b"PK":
        if len(data) <= _SMALL_ARRAY_BYTES:
            yield "", data
        return
    with suppress(*HELD_ZIP_ERRORS), zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist()[:_MAX_ARRAYS]:
            with suppress(*HELD_ZIP_ERRORS):
                if entry.file_size <= _SMALL_ARRAY_BYTES:
                    yield entry.filename.removesuffix(".npy"), archive.read(entry)


def _check_no_geometry_in_yaml(part: AnyPart, keys: Mapping[str, GeometryKind], kept: KeptNumbers | None) -> None:
    try:
        value = parse_yaml(part.data.decode(), part.name).data
    except (DatasetError, UnicodeDecodeError):  # nothing reads it
        _note_text(part, kept)
        return
    try:
        value = read_json(json.dumps(value, default=str, skipkeys=True))
        follow_json(value, None, keys, name=part.name, kept=kept)
    except CannotFollow as why:
        raise CannotFollow("it has boxes or points, and only those in JSON can") from why


def _check_no_geometry_in_lines(part: AnyPart, keys: Mapping[str, GeometryKind], kept: KeptNumbers | None) -> None:
    for line in part.data.splitlines():
        try:
            value = read_json(line)
        except ValueError:  # nothing reads it
            _note_text(Part(part.name, line), kept)
            continue
        follow_json(value, None, keys, name=part.name, kept=kept)


def _follow_json_part(
    part: AnyPart, change: PictureChange | None, rules: _LabelRules, kept: KeptNumbers | None
) -> AnyPart:
    data = part.data
    try:
        value = read_json(data)
    except ValueError:  # nothing reads it
        _note_text(part, kept)
        return part
    followed = follow_json(value, change, rules.keys, name=part.name, box_format=rules.box_format, kept=kept)
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
