from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.samples.boxes import convert_boxes, read_boxes
from wdsctl.core.samples.types import BOX_FORMATS

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
def test_convert_boxes_converts_between_all_formats(source: str, target: str) -> None:
    converted = convert_boxes([BOX[source]], source, target, width=100, height=50)

    assert converted.dtype == np.float32
    np.testing.assert_allclose(converted, np.array([BOX[target]], np.float32), rtol=1e-6)


def test_convert_boxes_does_not_clip_to_image() -> None:
    assert convert_boxes([[-5, 0, 200, 10]], "xywh", "xyxy").tolist() == [[-5, 0, 195, 10]]


def test_convert_boxes_of_empty_list_has_shape_0_4() -> None:
    assert convert_boxes([], "xywh", "xyxy").shape == (0, 4)


def test_normalized_formats_need_image_size() -> None:
    with pytest.raises(UsageError, match="needs the size of the image"):
        convert_boxes([[0, 0, 1, 1]], "xywh", "normalized_xywh")


def test_unknown_box_format_error_lists_known_formats() -> None:
    with pytest.raises(UsageError) as caught:
        convert_boxes([], "xywh", "yxyx")
    assert "normalized_cxcywh" in caught.value.hint


@pytest.mark.parametrize(
    "boxes", [[[1, 2, 3]], [1, 2, 3, 4], "x", None, [[1, 2, 3, None]], [[1, 2, 3, 1e400]], [[]], {}, 3]
)
def test_read_boxes_refuses_anything_but_rows_of_four_numbers(boxes: Any) -> None:
    with pytest.raises(DatasetError) as caught:
        read_boxes(boxes)
    assert caught.value.code == "WDS163"
