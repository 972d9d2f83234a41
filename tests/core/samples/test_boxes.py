from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.samples.boxes import BOX_FORMATS, convert_boxes, read_boxes

#: One box of an image of 100 x 50 in all formats.
BOX = {
    "xywh": [10, 20, 40, 10],
    "xyxy": [10, 20, 50, 30],
    "cxcywh": [30, 25, 40, 10],
    "normalized_xywh": [0.1, 0.4, 0.4, 0.2],
    "normalized_xyxy": [0.1, 0.4, 0.5, 0.6],
    "normalized_cxcywh": [0.3, 0.5, 0.4, 0.2],
}


@pytest.mark.parametrize("source", BOX_FORMATS)
@pytest.mark.parametrize("target", BOX_FORMATS)
def test_a_box_is_the_same_in_every_format(source: str, target: str) -> None:
    converted = convert_boxes([BOX[source]], source, target, width=100, height=50)

    assert converted.dtype == np.float32
    np.testing.assert_allclose(converted, np.array([BOX[target]], np.float32), rtol=1e-6)


def test_boxes_outside_of_the_image_are_not_cut() -> None:
    assert convert_boxes([[-5, 0, 200, 10]], "xywh", "xyxy").tolist() == [[-5, 0, 195, 10]]


def test_no_boxes_are_an_array_too() -> None:
    assert convert_boxes([], "xywh", "xyxy").shape == (0, 4)


def test_pixels_to_shares_need_the_size_of_the_image() -> None:
    with pytest.raises(UsageError, match="needs the size of the image"):
        convert_boxes([[0, 0, 1, 1]], "xywh", "normalized_xywh")


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        convert_boxes([], "xywh", "yxyx")
    assert "normalized_cxcywh" in caught.value.hint


@pytest.mark.parametrize(
    "boxes", [[[1, 2, 3]], [1, 2, 3, 4], "x", None, [[1, 2, 3, None]], [[1, 2, 3, 1e400]], [[]], {}, 3]
)
def test_anything_but_rows_of_four_numbers_is_refused(boxes: Any) -> None:
    with pytest.raises(DatasetError) as caught:
        read_boxes(boxes)
    assert caught.value.code == "WDS163"
