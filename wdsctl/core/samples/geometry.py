"""Geometry on pictures in JSON, which follows a picture that was turned or resized: boxes, polygons, keypoints, run
lengths. docs/convert.md and docs/formats.md have the rules.

Boxes are `boxes`, `bbox` and similar keys, whose format the key `box_format` above them gives. Polygons and points are
pairs of x and y, keypoints pairs or COCO's triples with a visibility, areas count pixels. Numbers up to 1 are shares of
the picture, others pixels, unless the format of the boxes says so. Whatever else looks like geometry cannot follow: by
its key, or by its numbers (`drawn_numbers`).

Source: https://cocodataset.org/#format-data (boxes, polygons, run lengths and keypoints; in `segments_info`, boxes are
xywh).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wdsctl.core.json_text import read_json
from wdsctl.core.samples.boxes import corners_to_format, format_to_corners
from wdsctl.core.samples.drawn_numbers import holds_numbers, is_other_key
from wdsctl.core.samples.picture_change import CannotFollow, PictureChange, change_mask
from wdsctl.core.samples.types import BOX_FORMATS, GEOMETRY_FIELDS, BoxFormat, GeometryKind

if TYPE_CHECKING:
    from wdsctl.core.samples.field_path import FieldPath

#: Keys of JSON that hold geometry, in lower case.
_KINDS_OF_KEYS: dict[str, GeometryKind] = {
    **dict.fromkeys(("bbox", "bboxes", "box", "boxes"), "boxes"),
    **dict.fromkeys(("segmentation", "segmentations", "masks", "polygon", "polygons", "points"), "polygons"),
    **dict.fromkeys(("exterior", "interior"), "polygons"),
    "keypoints": "keypoints",
    **dict.fromkeys(("area", "areas"), "areas"),
}
_FORMAT_KEYS = ("box_format", "bbox_format")
#: Keys of JSON for the width and the height of a picture.
SIZE_KEYS = (("width", "height"), ("imageWidth", "imageHeight"), ("image_width", "image_height"))
_CORNER_KEYS = ("xmin", "ymin", "xmax", "ymax")

#: Words in other keys with numbers that are geometry.
_GEOMETRY_WORD = re.compile(
    r"(?:^|[^a-z])(?:b?box(?:es)?|poly(?:gons?|lines?)?|quads?|keypoints?|kpts?|landmarks?|segmentation|contours?"
    r"|points?|corners?|rect(?:s|angles?)?|rois?|xyxy|xywh|xy|centers?|centroids?|vertices|crops?|gazes?|clicks?"
    r"|lanes?|rles?|encoded_pixels|intrinsics?|camera_matrix)(?:$|[^a-z])"
)
#: Ends of such keys whose numbers say something about the geometry.
_ABOUT_GEOMETRY = re.compile(r"(?:^|_)(?:ids?|scores?|labels?|class(?:es)?|categor(?:y|ies)|counts?|confidences?)$")
#: Words in keys for x and y that say of something else than the picture.
_NO_POINT_KEY = re.compile(
    r"scale|dpi|ppi|resolution|ratio|tile|grid|index|speed|veloc|vel_|acc_|accel|gyro|mag_|force|wind_|gps|geo_|utm"
    r"|map_|world|robot|stick|delta|(?<!rect)(?<!tri)angle|rot_|rotat|theta|mean|std|var_|sigma|count|lens|fov"
)
_COLUMN = re.compile(r"col(?:umn)?(?![a-z])")
#: Keys for x -> keys for y, and for z if there is one.
_PAIRED_KEYS = {
    "u": [("v", "w")],
    "l": [("t", "")],
    "r": [("b", "g")],
    "left": [("upper", "")],
    "right": [("lower", ""), ("bottom", "")],
    **{f"{end}c": [(f"{end}r", "")] for end in ("min", "max", "min_", "max_")},
}
#: Keys of the two numbers that say where a picture was cut from a larger one, as SDXL takes them.
_CUT_KEY = re.compile(r"crops?(?:_coords?)?(?:_top_left|_offset)?")
#: The marks that vision-language models write and read.
_TEXT_GEOMETRY = re.compile(r"\bbbox_2d\b|\bpoint_2d\b|<box>|<\|box_start\|>|<bbox>|<points? [xy]|<loc\d{4}>")
#: Boxes as models without such marks write them in a conversation: [20, 10, 120, 60] or (20,10),(120,60).
_BOX_IN_TURN = re.compile(r"[\[(](\d[\d.]*), ?(\d[\d.]*)(?:, ?|\), ?\()(\d[\d.]*), ?(\d[\d.]*)[\])]")
_NUMBERS_AS_TEXT = re.compile(r"[\s\[(]*-?\d[\d.]*(?:[\s,;\])\[(]+-?\d[\d.]*)+[\s\])]*")


class BoxFormatUnknown(CannotFollow):
    """Boxes cannot follow since no `box_format` says what their numbers are."""


#: Keys from the outermost object to a number, such as ("objects[*]", "i"); empty for a number or list outside of one.
NumberPath = tuple[str, ...]


class KeptNumbers(NamedTuple):
    """Gets what stays as it is. `pass_on` is called with the key and the numbers, or the text, of a value. `paths` gets
    the paths of all numbers and texts of numbers.
    """

    pass_on: Callable[[str, Sequence[float] | str], None]
    paths: set[NumberPath]


def geometry_keys(paths: Mapping[str, FieldPath]) -> dict[str, GeometryKind]:
    """The keys of JSON that a field map takes geometry from -> its kind; the name of a part for one that is geometry as
    a whole.
    """
    return {
        str(access.steps[-1] if access.steps and access.steps[-1] is not None else access.part): kind
        for field, kind in GEOMETRY_FIELDS.items()
        for access in (paths[field].alternatives if field in paths else ())
    }


class _Context(NamedTuple):
    """`change`: None if it is not known. `keys`: kinds of keys besides the usual ones. `is_turn`: within a turn of a
    conversation. `usual_format`: of boxes without a `box_format`. `kept`: for what stays. `is_judged`: its numbers may
    be geometry. `above`: the key of the object that has the value, empty for the outermost one, and None outside of it.
    `path`: that of this object. `listed`: `[*]` for each list between this object and the value.
    """

    change: PictureChange | None
    keys: Mapping[str, GeometryKind]
    box_format: str = ""
    is_turn: bool = False
    usual_format: BoxFormat | None = None
    kept: KeptNumbers | None = None
    is_judged: bool = True
    above: str | None = None
    path: NumberPath | None = None
    listed: str = ""

    def keep(self, key: str, value: Sequence[float] | str) -> None:
        """Pass on what stays, under its key and that of its object, such as price.value, unless that is an id."""
        if self.kept is not None and self.is_judged:
            self.kept.pass_on(f"{self.above}.{key}" if self.above and not re.search(r"\d", self.above) else key, value)

    def note_path(self, key: str) -> None:
        """Note that a number or numbers of a key stay."""
        if self.kept is not None:
            self.kept.paths.add(() if self.path is None else (*self.path, key))

    def path_of_object(self, key: str) -> NumberPath:
        if self.path is None:
            return (self.listed,) if self.listed else ()
        return (*self.path, key + self.listed)


def follow_json(
    value: Any,
    change: PictureChange | None,
    keys: Mapping[str, GeometryKind] = {},
    *,
    name: str = "json",
    box_format: BoxFormat | None = None,
    kept: KeptNumbers | None = None,
) -> Any:
    """The value with its geometry after the change; the same object if it has none.

    `keys`: kinds of geometry by other keys, from `geometry_keys`. `name`: of the part. `box_format`: of boxes that do
    not say. `kept`: for numbers and texts that stay, of which only several samples tell if they are geometry. Raises
    CannotFollow if geometry cannot follow: its format or the change is unknown.
    """
    try:
        if change is not None and not change.moves_labels:
            return _restate_sizes(value, change)
        kinds = {key.lower(): kind for key, kind in keys.items()}
        return _follow(value, name, _Context(change, kinds, usual_format=box_format, kept=kept))
    except RecursionError as error:
        raise CannotFollow("the values are nested too deeply") from error


def has_text_geometry(text: str) -> bool:
    """Whether a text has boxes or points in the marks that vision-language models use."""
    return _TEXT_GEOMETRY.search(text) is not None


def is_geometry_name(name: str) -> bool:
    """Whether a key or the name of a part says that its numbers are geometry."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return _GEOMETRY_WORD.search(words) is not None and _ABOUT_GEOMETRY.search(words) is None


def _follow(value: Any, key: str, context: _Context) -> Any:
    if isinstance(value, dict):
        return _follow_object(value, key, context)
    kind = context.keys.get(key.lower()) or _KINDS_OF_KEYS.get(key.lower())
    if kind == "areas" and not (isinstance(value, list) and any(isinstance(each, dict) for each in value)):
        if context.box_format:
            return _follow_areas(value, context)
        if _has_numbers(value):
            context.note_path(key)
        return value
    if isinstance(value, str):
        is_named = kind or key.lower() == "mask" or is_geometry_name(key)
        is_geometry = is_named and _NUMBERS_AS_TEXT.fullmatch(value)
        if is_geometry or has_text_geometry(value) or (context.is_turn and _has_box_in_turn(value, context)):
            raise CannotFollow(f"{key} has boxes or points in a text")
        is_json = value.startswith(("{", "[{")) and _check_no_geometry_in_text(value, key, context)
        if context.kept is not None and not is_json and holds_numbers(value):
            context.note_path(key)
        if not is_other_key(key):
            context.keep(key, value)
        return value
    if isinstance(value, list):
        return _follow_list(value, key, kind, context)
    if read_number(value) is not None:
        context.note_path(key)
    return value


def _check_no_geometry_in_text(text: str, key: str, context: _Context) -> bool:
    """Whether a text is JSON. Raises CannotFollow if it has geometry."""
    try:
        value = read_json(text)
    except ValueError:
        return False
    try:
        _follow(value, key, context._replace(change=None, above=None))
    except CannotFollow as why:
        raise CannotFollow(f"{key} has boxes or points in a text") from why
    return True


def _has_box_in_turn(text: str, context: _Context) -> bool:
    for found in _BOX_IN_TURN.findall(text):
        box = [read_number(each) or 0 for each in found]
        is_list = box == [box[0] + at for at in range(4)]  # of sources, for example
        if box[0] < box[2] and box[1] < box[3] and not is_list and not _stay_as_shares(box, context):
            return True
    return False


def _stay_as_shares(numbers: list[Any], context: _Context) -> bool:
    """Whether numbers are shares of the picture, which a resizing does not change."""
    return context.change is not None and context.change.turn == 1 and _are_shares(numbers)


def _follow_list(value: list[Any], key: str, kind: GeometryKind | None, context: _Context) -> Any:
    if _has_numbers(value):
        if _is_row(value, 2) and _CUT_KEY.fullmatch(key.lower()):
            context.note_path(key)
            return value
        if kind is not None:
            _check_known(key, context)
            return _FOLLOW[kind](value, key, context)
        if is_geometry_name(key) or _is_camera_matrix(value):
            raise CannotFollow(f"{key} looks like geometry of an unknown form")
        if is_other_key(key) or _are_ranges(value):
            context = context._replace(is_judged=False)
        numbers = [number for each in value if (number := read_number(each)) is not None]
        if numbers:
            context.note_path(key)
        if len(numbers) > 1 or _is_row(value):
            context.keep(key, numbers)
    context = context._replace(listed=context.listed + "[*]")
    return _keep_same(value, [each if isinstance(each, int | float) else _follow(each, key, context) for each in value])


def _check_known(key: str, context: _Context) -> None:
    if context.change is None:
        raise CannotFollow(f"{key}: it is not known how its picture changes")


def _follow_object(value: dict[str, Any], key: str, context: _Context) -> Any:
    found = next((value[each] for each in _FORMAT_KEYS if each in value), None)
    if found in BOX_FORMATS:
        context = context._replace(box_format=str(found))
    elif key == "segments_info" and not context.box_format:
        context = context._replace(box_format="xywh")
    names = {each.lower(): each for each in value}
    numbers = {each for each in names if read_number(value[names[each]]) is not None}
    own: dict[str, Any] = {}
    if isinstance(value.get("counts"), str | list) and _is_row(value.get("size"), 2):
        own = _follow_run_lengths(value, key, context)
    elif numbers.issuperset(_CORNER_KEYS):
        own = _follow_corners({name: value[names[name]] for name in _CORNER_KEYS}, names, key, context)
    if own:
        others = _follow_object({each: item for each, item in value.items() if each not in own}, key, context)
        return {each: own[each] if each in own else others[each] for each in value}
    if ({"x", "y"} <= numbers and "z" not in names) or {"left", "top"} <= numbers:
        raise CannotFollow(f"{key} is a point or box of an unknown form")
    _check_no_length(value, names, context)
    path = context.path_of_object(key)
    context = context._replace(above="" if context.above is None else key, path=path, listed="")
    if names.keys() & {"lat", "latitude"}:
        context = context._replace(is_judged=False)  # places in the world
    _note_kept_pairs(value, names, context)
    _check_named_object(value, key, context)
    if {"from", "role"} & set(names):
        context = context._replace(is_turn=True)
    has_shape = any(isinstance(value.get(each), list | dict) for each in ("segmentation", "polygon", "points"))
    has_box = any(isinstance(value.get(each), list) for each in ("bbox", "boxes"))
    of_object = (has_box and context.usual_format) or ("xywh" if has_shape else "")
    of_area = context._replace(box_format=context.box_format or of_object)
    sizes = _follow_size(value, context.change)
    changed = {
        each: sizes[each] if each in sizes else _follow(item, each, of_area if each == "area" else context)
        for each, item in value.items()
    }
    return _keep_same(value, changed)


def _check_no_length(value: Mapping[str, Any], names: Mapping[str, str], context: _Context) -> None:
    """Raises CannotFollow for the radius of a circle, beside the points or the box that say where it is."""
    for length in names.keys() & {"radius", "diameter"}:
        number = read_number(value[names[length]])
        has_place = names.keys() & _KINDS_OF_KEYS.keys() or any(map(is_geometry_name, names))
        if number and has_place and not _stay_as_shares([number], context):
            raise CannotFollow(f"{names[length]} is a length on the picture")


def _note_kept_pairs(value: Mapping[str, Any], names: Mapping[str, str], context: _Context) -> None:
    """Pass on the numbers of keys that differ in an x and a y, such as Roi.X1 and Roi.Y1, in column and row, or in u
    and v. Raises CannotFollow for shares of a picture that is turned.
    """
    for name in names:
        others = [[name[:at] + axis + name[at + 1 :] for axis in "yz"] for at, each in enumerate(name) if each == "x"]
        others += [[_COLUMN.sub("row", name), ""]] if _COLUMN.search(name) else []
        for y, z in [*others, *_PAIRED_KEYS.get(name, ())]:
            if y not in names or z in names or _NO_POINT_KEY.search(name):
                continue
            xs, ys = (each if isinstance(each, list) else [each] for each in (value[names[name]], value[names[y]]))
            if len(xs) != len(ys) or not _is_row([*xs, *ys]):
                continue
            if _are_fractions([*xs, *ys]) and not _stay_as_shares([*xs, *ys], context):
                raise CannotFollow(f"{names[name]} and {names[y]} are points or boxes of an unknown form")
            for pair in zip(xs, ys, strict=True):
                context.keep(f"{names[name]} and {names[y]}", [read_number(each) or 0 for each in pair])


def _check_named_object(value: dict[str, Any], key: str, context: _Context) -> None:
    """Raise CannotFollow for numbers in an object whose key is geometry, such as points by the names of landmarks."""
    kinds = {**_KINDS_OF_KEYS, **context.keys}
    is_named = kinds.get(key.lower(), "areas") != "areas" or is_geometry_name(key)
    if not is_named or any(each.lower() in kinds for each in value):
        return
    numbers = [
        item for each, item in value.items() if isinstance(item, list) and not _ABOUT_GEOMETRY.search(each.lower())
    ]
    if any(_has_numbers(each) for each in numbers):
        raise CannotFollow(f"{key} looks like geometry of an unknown form")


def _keep_same(value: Any, changed: Any) -> Any:
    return value if value == changed else changed


def _follow_size(value: Mapping[str, Any], change: PictureChange | None) -> dict[str, Any]:
    """The new width and height, if an object states those of the picture."""
    sizes: dict[tuple[float, float], tuple[int, int]] = {}
    if change is not None and change.other is not None:
        sizes[change.other[0]] = change.other[1]
    if change is not None:
        sizes[change.before] = change.after
    stated: dict[str, Any] = {}
    for names in SIZE_KEYS:
        width, height = (read_number(value.get(name)) for name in names)
        after = sizes.get((width, height)) if width and height else None
        if after is not None:
            stated |= {name: _like(value[name], side) for name, side in zip(names, after, strict=True)}
    return stated


def _restate_sizes(value: Any, change: PictureChange) -> Any:
    """The value with the sizes of the new picture, whose labels stay."""
    if isinstance(value, dict):
        sizes = _follow_size(value, change)
        return _keep_same(value, {key: _restate_sizes(each, change) for key, each in value.items()} | sizes)
    return _keep_same(value, [_restate_sizes(each, change) for each in value]) if isinstance(value, list) else value


def _follow_corners(corners: Mapping[str, Any], names: Mapping[str, str], key: str, context: _Context) -> Any:
    """`xmin`, `ymin`, `xmax` and `ymax` of an object, as of Pascal VOC."""
    _check_known(key, context)
    box = [corners[name] for name in _CORNER_KEYS]
    box_format = "normalized_xyxy" if _are_shares(box) else "xyxy"
    return dict(zip((names[name] for name in _CORNER_KEYS), _follow_box(box, box_format, context.change), strict=True))


def _follow_boxes(value: list[Any], key: str, context: _Context) -> Any:
    if _is_row(value, 4):
        box_format = context.box_format or context.usual_format
        if not box_format:
            raise BoxFormatUnknown(f"{key}: no box_format says what the four numbers of a box are")
        if not box_format.startswith("normalized_") and _are_fractions(value):
            raise CannotFollow(
                f"{key} has {value}, which are shares of the picture, but its format is {box_format}, of pixels"
            )
        return _follow_box(value, box_format, context.change)
    if _is_row(value):
        raise CannotFollow(f"{key} has {len(value)} numbers, and a box has four")
    if all(_is_row(each, 2) for each in value):
        return _follow_polygons(value, key, context)
    return [_follow_boxes(each, key, context) if isinstance(each, list) and each else each for each in value]


def _follow_box(box: list[Any], box_format: str, change: PictureChange | None) -> list[Any]:
    if change is None or (box_format.startswith("normalized_") and change.turn == 1):
        return box
    layout = box_format.removeprefix("normalized_")
    corners = format_to_corners(np.asarray([[read_number(each) for each in box]], np.float64), layout)[0].tolist()
    is_share = layout != box_format
    points = [_change_point(corners[at], corners[at + 1], change, is_share=is_share) for at in (0, 2)]
    if corners[0] <= corners[2] and corners[1] <= corners[3]:
        ends = [min(xs) for xs in zip(*points, strict=True)] + [max(xs) for xs in zip(*points, strict=True)]
    else:
        ends = [*points[0], *points[1]]
    numbers = corners_to_format(np.asarray([ends], np.float64), layout)[0].tolist()
    return [_like(old, new) for old, new in zip(box, numbers, strict=True)]


def _follow_polygons(value: list[Any], key: str, context: _Context) -> Any:
    if _is_row(value):
        if len(value) < 6 or len(value) % 2:
            raise CannotFollow(f"{key} has {len(value)} numbers, which are no pairs of x and y of a polygon")
        flat = _follow_pairs([value[at : at + 2] for at in range(0, len(value), 2)], context)
        return [each for pair in flat for each in pair]
    if all(_is_row(each, 2) for each in value):
        return _follow_pairs(value, context)
    return [
        _follow_polygons(each, key, context)
        if isinstance(each, list) and each
        else _follow(each, key, context)
        if isinstance(each, dict)
        else each
        for each in value
    ]


def _follow_keypoints(value: list[Any], key: str, context: _Context) -> Any:
    """Pairs, or triples with a visibility. A keypoint that is not labelled is at 0, 0, and stays there."""
    if all(_is_row(each, 2) or _is_row(each, 3) for each in value):
        pairs = _follow_pairs([each[:2] for each in value], context, keeps_origin=True)
        return [[*pair, *each[2:]] for pair, each in zip(pairs, value, strict=True)]
    if _is_row(value):
        has_visibility = len(value) % 3 == 0 and all(read_number(each) in (0, 1, 2) for each in value[2::3])
        if not has_visibility and (len(value) % 2 or len(value) % 3 == 0):
            raise CannotFollow(f"{key} has {len(value)} numbers, which are no pairs and no triples of COCO")
        step = 3 if has_visibility else 2
        rows = [value[at : at + step] for at in range(0, len(value), step)]
        return [each for row in _follow_keypoints(rows, key, context) for each in row]
    return [_follow_keypoints(each, key, context) if isinstance(each, list) and each else each for each in value]


def _follow_pairs(pairs: list[list[Any]], context: _Context, *, keeps_origin: bool = False) -> list[list[Any]]:
    change = context.change
    numbers = [each for pair in pairs for each in pair]
    are_shares = context.box_format.startswith("normalized_") or (
        _are_fractions(numbers) if context.box_format else _are_shares(numbers)
    )
    if change is None or (are_shares and change.turn == 1):
        return pairs
    changed = []
    for pair in pairs:
        x, y = (float(read_number(each) or 0) for each in pair)
        is_kept = keeps_origin and x == y == 0
        point = (x, y) if is_kept else _change_point(x, y, change, is_share=are_shares)
        changed.append([_like(old, new) for old, new in zip(pair, point, strict=True)])
    return changed


def _follow_areas(value: Any, context: _Context) -> Any:
    number = read_number(value)
    if number is not None and not context.box_format.startswith("normalized_"):
        if context.change is None:
            raise CannotFollow("area: it is not known how its picture changes")
        return _like(value, number * context.change.area_factor)
    return [_follow_areas(each, context) for each in value] if isinstance(value, list) else value


_FOLLOW: dict[GeometryKind, Callable[[list[Any], str, _Context], Any]] = {
    "boxes": _follow_boxes,
    "polygons": _follow_polygons,
    "keypoints": _follow_keypoints,
    "areas": lambda value, _key, context: _follow_areas(value, context),
}


def _change_point(x: float, y: float, change: PictureChange, *, is_share: bool) -> tuple[float, float]:
    width, height = (1, 1) if is_share else change.before
    if change.turn in (2, 3):
        x = width - x
    if change.turn in (3, 4):
        y = height - y
    if change.turn >= 5:
        # Stored columns become rows, and stored rows columns.
        x = width - x if change.turn in (7, 8) else x
        y = height - y if change.turn in (6, 7) else y
        x, y = y, x
    if is_share:
        return x, y
    turned = change.turned_size
    return x * change.after[0] / turned[0], y * change.after[1] / turned[1]


def _follow_run_lengths(value: dict[str, Any], key: str, context: _Context) -> dict[str, Any]:
    """COCO's run lengths of a mask, by columns: a list of counts, or its compressed text."""
    counts, size, change = value["counts"], value["size"], context.change
    if change is None:
        raise CannotFollow(f"{key}: it is not known how its picture changes")
    width, height = change.before
    if size != [height, width]:
        raise CannotFollow(f"{key} has run lengths of {size}, but its picture has {height} rows of {width} pixels")
    try:
        runs = _decode_counts(counts) if isinstance(counts, str) else [int(each) for each in counts]
        if sum(runs) != width * height:
            raise ValueError
        pixels = np.repeat(np.arange(len(runs)) % 2, runs).reshape(width, height).T
    except (TypeError, ValueError) as error:
        raise CannotFollow(f"{key} has run lengths that do not fill {height} rows of {width} pixels") from error
    changed = change_mask(pixels, change).T.reshape(-1)
    ends = np.flatnonzero(np.diff(changed, prepend=0)).tolist()
    found = np.diff([0, *ends, len(changed)]).tolist()
    encoded = _encode_counts(found) if isinstance(counts, str) else found
    return {"counts": encoded, "size": list(change.after[::-1])}


def _decode_counts(text: str) -> list[int]:
    """Counts from text: 5 bits a character from 48 on, lowest first, with a bit that says if more follow; from the
    third on, differences to the count before the last.
    """
    counts: list[int] = []
    number = shift = 0
    for byte in text.encode("ascii"):
        digit = byte - 48
        number |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            number -= 1 << shift if digit & 16 else 0
            counts.append(number + (counts[-2] if len(counts) > 2 else 0))
            number = shift = 0
    return counts


def _encode_counts(counts: list[int]) -> str:
    digits = []
    for at, count in enumerate(counts):
        number = count - (counts[at - 2] if at > 2 else 0)
        while True:
            digit = number & 31
            number >>= 5
            is_last = number == (-1 if digit & 16 else 0)
            digits.append(chr(48 + digit + (0 if is_last else 32)))
            if is_last:
                break
    return "".join(digits)


def read_number(value: Any) -> float | None:
    """A number, also one that is written as text; None for anything else, and for what is too large for a float."""
    try:
        value = float(value) if isinstance(value, str) else value
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except (ValueError, OverflowError):
        return None
    return value if is_number else None


def _like(old: Any, new: float) -> Any:
    """A number in the form of the old one: text stays text, and whole numbers stay whole where they can."""
    if isinstance(old, str):
        return f"{round(new)}" if old.strip().lstrip("-").isdecimal() else f"{round(new, 6):.12g}"
    rounded = round(float(new), 6)
    return int(rounded) if isinstance(old, int) and rounded.is_integer() else rounded


def _is_row(value: Any, length: int = 0) -> bool:
    is_row = isinstance(value, list) and bool(value) and all(read_number(each) is not None for each in value)
    return is_row and length in (0, len(value))


def _has_numbers(value: Any) -> bool:
    """Whether lists, however deep, hold numbers (or run lengths) as items."""
    if isinstance(value, list):
        return any(_has_numbers(each) for each in value)
    return read_number(value) is not None


def _are_shares(numbers: list[Any]) -> bool:
    return all(-0.01 <= (read_number(each) or 0) <= 1.01 for each in numbers)


def _are_fractions(numbers: list[Any]) -> bool:
    """Whether numbers are shares that cannot be pixels: between 0 and 1, and not all of them whole."""
    return _are_shares(numbers) and any((read_number(each) or 0) % 1 for each in numbers)


def _are_ranges(value: list[Any]) -> bool:
    """Whether pairs are ranges of time or of characters: they ascend from pair to pair."""
    numbers = [read_number(each) or 0 for row in value if _is_row(row, 2) for each in row]
    return len(value) > 1 and len(numbers) == 2 * len(value) and numbers == sorted(numbers)


def _is_camera_matrix(value: list[Any]) -> bool:
    """Whether a list is [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] in pixels."""
    if len(value) != 3 or not all(_is_row(row, 3) for row in value):
        return False
    focal_length, last = read_number(value[0][0]) or 0, [read_number(each) for each in value[2]]
    return last == [0, 0, 1] and focal_length > 2 and not read_number(value[1][0])
