"""Boxes of objects in images: their formats, and the conversion between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.samples.types import BOX_FORMATS
from wdsctl.core.text import short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_boxes(boxes: Any) -> NDArray[np.float32]:
    """Boxes of JSON as a float32 array (boxes, 4). Raises DatasetError WDS163 for anything but rows of four numbers."""
    try:
        array = np.asarray(boxes, np.float32)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros((0, 0), np.float32)
    if isinstance(boxes, list) and not boxes:
        return np.zeros((0, 4), np.float32)
    if array.ndim != 2 or array.shape[1] != 4 or not np.isfinite(array).all():
        odd = next((box for box in boxes if not _is_box(box)), boxes) if isinstance(boxes, list) else boxes
        raise DatasetError(
            f"boxes: expected a list of boxes of four numbers, found {short_repr(odd)}",
            hint="correct the sample, or the field map: `boxes: json[annotations][*][bbox]`",
            code="WDS163",
        )
    return array


def _is_box(box: Any) -> bool:
    is_row = isinstance(box, list) and len(box) == 4
    return is_row and all(isinstance(each, int | float) and not isinstance(each, bool) for each in box)


def check_box_format(name: str) -> None:
    """Raises UsageError for a name that is not a box format."""
    if name not in BOX_FORMATS:
        raise UsageError(f"{short_repr(name)} is not a box format", hint=f"use one of {', '.join(BOX_FORMATS)}")


def convert_boxes(boxes: Any, box_format: str, to: str, *, width: float = 0, height: float = 0) -> NDArray[np.float32]:
    """Convert boxes to another format: a float32 array (boxes, 4). `width` and `height` of the image, in pixels, are
    needed between pixels and normalized formats.

    Boxes that reach outside of the image stay as they are; `wdsctl validate --level schema` finds them. Raises
    UsageError for an unknown format or a missing size, DatasetError WDS163 for boxes that are not rows of four numbers.
    """
    check_box_format(box_format)
    check_box_format(to)
    array = read_boxes(boxes)
    of_pixels, to_pixels = not box_format.startswith("normalized_"), not to.startswith("normalized_")
    corners = format_to_corners(array.astype(np.float64), box_format.removeprefix("normalized_"))
    if of_pixels != to_pixels:
        if width <= 0 or height <= 0:
            raise UsageError(
                f"{box_format} to {to} needs the size of the image, found {width:g} x {height:g}",
                hint="pass width= and height= in pixels",
            )
        size = np.asarray([width, height, width, height], np.float64)
        corners = corners / size if of_pixels else corners * size
    return corners_to_format(corners, to.removeprefix("normalized_")).astype(np.float32)


def format_to_corners(boxes: NDArray[np.float64], layout: str) -> NDArray[np.float64]:
    """Boxes (boxes, 4) of the layout xywh, xyxy or cxcywh as xyxy."""
    if layout == "xyxy":
        return boxes
    point, size = boxes[:, :2], boxes[:, 2:]
    first = point - size / 2 if layout == "cxcywh" else point
    return np.concatenate([first, first + size], axis=1)


def corners_to_format(corners: NDArray[np.float64], layout: str) -> NDArray[np.float64]:
    """Boxes (boxes, 4) as xyxy in the layout xywh, xyxy or cxcywh."""
    if layout == "xyxy":
        return corners
    first, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    return np.concatenate([first + size / 2 if layout == "cxcywh" else first, size], axis=1)
