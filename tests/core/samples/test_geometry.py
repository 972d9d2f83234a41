"""Geometry in JSON after its picture was turned and resized."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from wdsctl.core.media.image import TRANSPOSE_OF_ORIENTATION
from wdsctl.core.samples.geometry import BoxFormatUnknown, KeptNumbers, follow_json, has_text_geometry
from wdsctl.core.samples.picture_change import CannotFollow, PictureChange, PictureForm, change_mask, find_change

HALF = PictureChange((40, 20), 1, (20, 10))


@pytest.mark.parametrize("turn", range(1, 9))
def test_box_follows_what_is_drawn_in_it(turn: int) -> None:
    picture = np.zeros((20, 40), np.uint8)
    picture[4:8, 10:22] = 255
    drawn = Image.fromarray(picture)
    drawn = drawn.transpose(TRANSPOSE_OF_ORIENTATION[turn]) if turn > 1 else drawn
    left, top, right, bottom = drawn.getbbox() or (0, 0, 0, 0)
    change = PictureChange((40, 20), turn, (drawn.width // 2, drawn.height // 2))
    value = {
        "box_format": "xywh",
        "bbox": [10, 4, 12, 4],
        "segmentation": [[10, 4, 22, 4, 22, 8]],
        "area": 48,
        "width": 40,
        "height": 20,
    }

    changed = follow_json(value, change)

    assert changed["bbox"] == [left / 2, top / 2, (right - left) / 2, (bottom - top) / 2]
    assert (changed["area"], (changed["width"], changed["height"])) == (12, change.after)
    xs, ys = changed["segmentation"][0][::2], changed["segmentation"][0][1::2]
    assert (min(xs), max(xs), min(ys), max(ys)) == (left / 2, right / 2, top / 2, bottom / 2)
    assert np.array_equal(change_mask(picture, change), np.asarray(drawn)[1::2, 1::2])


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("layout", ["xyxy", "xywh", "cxcywh"])
def test_shares_turn_and_do_not_shrink(turn: int, layout: str) -> None:
    box = {"xyxy": [0.25, 0.2, 0.55, 0.4], "xywh": [0.25, 0.2, 0.3, 0.2], "cxcywh": [0.4, 0.3, 0.3, 0.2]}[layout]
    pixels = [each * side for each, side in zip(box, (40, 20, 40, 20), strict=True)]
    after = (20, 10) if turn < 5 else (10, 20)
    change = PictureChange((40, 20), turn, after)

    shares = follow_json({"box_format": f"normalized_{layout}", "boxes": [box]}, change)["boxes"][0]
    other = follow_json({"box_format": layout, "boxes": [pixels]}, change)["boxes"][0]

    assert [each * side for each, side in zip(shares, after * 2, strict=True)] == pytest.approx(other)


CASES: list[tuple[Any, Any]] = [
    ({"object": [{"bndbox": {"xmin": "10", "ymin": "4", "xmax": "20", "ymax": "8"}, "name": "a"}]},
     {"object": [{"bndbox": {"xmin": "5", "ymin": "2", "xmax": "10", "ymax": "4"}, "name": "a"}]}),
    ({"size": {"width": "40", "height": "20", "depth": "3"}}, {"size": {"width": "20", "height": "10", "depth": "3"}}),
    ({"keypoints": [10, 4, 2, 0, 0, 0]}, {"keypoints": [5, 2, 2, 0, 0, 0]}),
    ({"keypoints": [[[10, 4, 2], [0, 0, 0]], None]}, {"keypoints": [[[5, 2, 2], [0, 0, 0]], None]}),
    ({"shapes": [{"points": [[3, 4], [10.5, 6]]}], "imageWidth": 40, "imageHeight": 20},
     {"shapes": [{"points": [[1.5, 2], [5.25, 3]]}], "imageWidth": 20, "imageHeight": 10}),
    ({"segments_info": [{"id": 7, "bbox": [2, 4, 6, 8], "area": 40}]},
     {"segments_info": [{"id": 7, "bbox": [1, 2, 3, 4], "area": 10}]}),
    ({"box_format": "xyxy", "boxes": [["2", "4", "6", "8"]]}, {"box_format": "xyxy", "boxes": [["1", "2", "3", "4"]]}),
    ({"box_format": "xyxy", "box": ["2469.1357", "4.5", "6", "8"]},
     {"box_format": "xyxy", "box": ["1234.56785", "2.25", "3", "4"]}),
    ({"polygon": [0.1, 0.1, 0.5, 0.1, 0.5, 0.5]}, {"polygon": [0.1, 0.1, 0.5, 0.1, 0.5, 0.5]}),
    ({"points": {"exterior": [[2, 4], [6, 8]], "interior": []}},
     {"points": {"exterior": [[1, 2], [3, 4]], "interior": []}}),
    ({"words": [{"box_format": "xyxy", "box": [[2, 4], [6, 4], [6, 8], [2, 8]]}]},
     {"words": [{"box_format": "xyxy", "box": [[1, 2], [3, 2], [3, 4], [1, 4]]}]}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), CASES)
def test_known_forms_follow(value: Any, expected: Any) -> None:
    assert follow_json(value, HALF) == expected


@pytest.mark.parametrize(
    "value",
    [
        {"shape_type": "circle", "points": [[10, 10]], "radius": 5},
        {"exterior": [[10, 10]], "Diameter": 5.5},
        {"bbox": [1, 2, 3, 4]},  # nothing says what the numbers are
        {"bbox": [1, 2, 3]},
        {"box_format": "xywh", "bbox": "1 2 3 4"},
        {"value": {"x": 1, "y": 2, "width": 3, "height": 4}},
        {"faceLandmarks": [1, 2, 3, 4]},
        {"K": [[50, 0, 20], [0, 50, 10], [0, 0, 1]]},
        {"keypoints": [1, 2, 3, 4, 5, 6, 7]},
        {"segmentation": {"counts": [3, 2], "size": [5, 1]}},  # of another picture
        {"segmentation": [[1, 2, 3, 4, 5]]},
        {"text": 'at "bbox_2d": [1, 2, 3, 4]'},
        {"messages": [{"content": "<box>(1,2),(3,4)</box>"}]},
        {"landmarks": {"nose": [12, 6], "chin": [12, 9]}},
        {"crop": [2, 4, 6, 8]},
        {"crop_offsets": [[2, 4, 6, 8], [2, 4, 6, 9]]},
        {"gaze": [12, 6]},
        {"intrinsics": [[50, 0, 20], [0, 50, 10], [0, 0, 1]]},
        {"mask": "0 10 20 10"},
        {"conversations": [{"from": "gpt", "value": "It is at [2, 4, 12, 8]."}]},
        {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "(2,4),(12,8)"}]}]},
    ],
)
def test_other_geometry_cannot_follow(value: Any) -> None:
    with pytest.raises(CannotFollow):
        follow_json(value, HALF)
    with pytest.raises(CannotFollow):
        follow_json(value, None)


def test_shares_of_x_and_y_cannot_turn() -> None:
    value = {"nose_x": 0.3, "nose_y": 0.25, "xs": [1, 0.5], "ys": [0, 0.125]}
    assert follow_json(value, HALF) is value

    for change in (PictureChange((40, 20), 6, (10, 20)), None):
        with pytest.raises(CannotFollow, match="nose_x and nose_y"):
            follow_json(value, change)


def test_boxes_without_a_format_get_the_usual_one() -> None:
    with pytest.raises(BoxFormatUnknown):
        follow_json({"boxes": [[2, 4, 6, 8]]}, HALF)

    assert follow_json({"annotations": [{"bbox": [2, 4, 6, 8], "area": 48}], "area": 300}, HALF, box_format="xywh") == {
        "annotations": [{"bbox": [1, 2, 3, 4], "area": 12}],
        "area": 300,
    }
    assert follow_json({"box_format": "xyxy", "boxes": [[0, 0, 9, 8]]}, HALF, box_format="normalized_xywh") == {
        "box_format": "xyxy",
        "boxes": [[0, 0, 4.5, 4]],
    }


def test_shares_in_a_format_of_pixels_are_refused() -> None:
    with pytest.raises(CannotFollow, match="shares of the picture"):
        follow_json({"box_format": "xyxy", "boxes": [[0.1, 0.2, 0.5, 0.6]]}, HALF)

    assert follow_json({"box_format": "xyxy", "boxes": [[0, 0, 1, 1]]}, HALF)["boxes"] == [[0, 0, 0.5, 0.5]]


def test_numbers_that_stay_are_passed_on() -> None:
    seen: list[tuple[str, Any]] = []
    value = {
        "left_eye": [4, 9], "time": [3, 4], "Roi.X1": 5, "Roi.Y1": 6, "u": 7, "v": 8, "spans": [[0, 3], [4, 9]],
        "place": {"lat": 48, "position": [48, 11]}, "anns": [["cat", 1, 2, 9, 8]], "note": "at (3, 4)",
        "xs": [4, 5], "ys": [6, 7], "rectangle_x": 4, "rectangle_y": 8, "tip_x": 1, "tip_y": 2, "tip_z": 3,
    }  # fmt: skip

    follow_json(value, HALF, kept=KeptNumbers(lambda key, numbers: seen.append((key, numbers)), set()))

    assert seen == [
        ("Roi.X1 and Roi.Y1", [5, 6]), ("u and v", [7, 8]), ("xs and ys", [4, 6]), ("xs and ys", [5, 7]),
        ("rectangle_x and rectangle_y", [4, 8]), ("left_eye", [4, 9]), ("anns", [1, 2, 9, 8]),
        ("anns", "cat"), ("note", "at (3, 4)"), ("xs", [4, 5]), ("ys", [6, 7]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        {"caption": "a box, 2 x 3", "points": 12, "boxes": 3, "area": 70, "tokens": [5, 6, 7, 8]},
        {"embedding": [[0.1, -0.2, 0.3, 0.4]], "spans": [[0, 4], [5, 9], [10, 12]]},
        {"width": 640, "height": 480},  # of another picture
        {"counts": {"cat": 2}, "size": 12}, {"Counts": [1, 2], "Size": [3, 4]},
        {"pose": {"x": 1, "y": 2, "z": 3}, "score": [1, 0, 0, 1], "bbox": [], "boxes": None},
        {"points": {"home": 3, "away": 1}, "point_labels": [1, 0], "box_scores": [2, 1]},
        {"scale_x": 2, "scale_y": 3, "attention_mask": [1, 1, 0], "caption": "sizes [8, 9, 30, 31]"},
        {"vel_x": 2, "vel_y": 3, "gps_x": 50.1, "gps_y": 8.2, "steering_angle_x": 2, "steering_angle_y": 3},
        {"crop": [0, 12], "crop_coords_top_left": [12, 0], "crops_coords_top_left": [2, 4], "original_size": [9, 7]},
        {"conversations": [{"from": "gpt", "value": "as sources [3, 4, 5, 6] say"}]},
        [], "text", None, 3,
    ],
)  # fmt: skip
def test_values_without_geometry_are_the_same_objects(value: Any) -> None:
    assert follow_json(value, HALF) is value
    assert follow_json(value, None) is value


def test_keys_of_a_field_map_are_geometry() -> None:
    value = {"fmt": "x", "items": [{"rect": [2, 4, 6, 8], "extent": [2, 4, 6, 8]}]}
    with pytest.raises(CannotFollow, match="extent"):
        follow_json({**value, "items": [{"extent": [2, 4, 6, 8]}]}, HALF, {"extent": "boxes"})

    assert follow_json({"box_format": "xyxy", "extent": [2, 4, 6, 8]}, HALF, {"extent": "boxes"}) == {
        "box_format": "xyxy",
        "extent": [1, 2, 3, 4],
    }
    assert follow_json([[2, 4], [6, 8], [6, 4]], HALF, {"outline.json": "polygons"}, name="outline.json") == [
        [1, 2],
        [3, 4],
        [3, 2],
    ]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_run_lengths_follow_as_their_mask(*, is_compressed: bool) -> None:
    mask = np.zeros((20, 40), np.uint8)
    mask[2:12, 4:9] = mask[0:3, 0:2] = mask[18:20, 39] = 1
    # The text is what pycocotools writes for this mask.
    counts: Any = _counts(mask)
    change = PictureChange((40, 20), 6, (10, 20))
    from wdsctl.core.samples import geometry

    text = geometry._encode_counts(counts)
    value = {"segmentation": {"counts": text if is_compressed else counts, "size": [20, 40]}}

    found = follow_json(value, change)["segmentation"]

    runs = geometry._decode_counts(found["counts"]) if is_compressed else found["counts"]
    assert (found["size"], runs) == ([20, 10], _counts(change_mask(mask, change)))


def test_compressed_run_lengths_are_those_of_coco() -> None:
    from wdsctl.core.samples import geometry

    counts = [6, 1, 40, 4, 5, 4, 5, 4, 21]
    assert geometry._encode_counts(counts) == "61X13mN000`0"
    assert geometry._decode_counts("61X13mN000`0") == counts


def _counts(mask: np.ndarray[Any, Any]) -> list[int]:
    flat = mask.T.reshape(-1)
    ends = np.flatnonzero(np.diff(flat, prepend=0)).tolist()
    return [int(each) for each in np.diff([0, *ends, len(flat)])]


def test_mask_of_another_size_than_its_picture_cannot_follow() -> None:
    with pytest.raises(CannotFollow, match="40 x 21 pixels, but its picture 40 x 20"):
        change_mask(np.zeros((21, 40), np.uint8), HALF)


def test_what_labels_are_drawn_on_decides_how_they_follow() -> None:
    lying, upright = PictureForm(40, 20, 6), PictureForm(10, 20)

    assert find_change(lying, upright, "shown") == PictureChange((20, 40), 1, (10, 20), ((40, 20), (10, 20)))
    assert find_change(lying, upright, "stored") == PictureChange((40, 20), 6, (10, 20), ((20, 40), (10, 20)))
    assert find_change(lying, upright, "") is None
    half = PictureForm(20, 10, 6)
    assert find_change(lying, half, "shown") == PictureChange((20, 40), 1, (10, 20), ((40, 20), (20, 10)))
    assert find_change(lying, half, "stored") == (*HALF[:3], ((20, 40), (10, 20)))
    assert find_change(PictureForm(40, 20), PictureForm(20, 10), "") == HALF
    assert find_change(lying, lying, "") == PictureChange((40, 20), 1, (40, 20))


@pytest.mark.parametrize("drawn_on", ["shown", "stored"])
@pytest.mark.parametrize("stated", [(40, 20), (20, 40)])
def test_stated_size_becomes_that_of_the_new_picture(drawn_on: Any, stated: tuple[int, int]) -> None:
    change = find_change(PictureForm(40, 20, 6), PictureForm(20, 40), drawn_on)

    assert change is not None
    assert not change.is_none
    size = follow_json({"width": stated[0], "height": stated[1]}, change)
    assert size == {"width": 20, "height": 40}
    if drawn_on == "shown":  # the labels fit already, whatever they are
        assert follow_json({"bbox": [1, 2, 3, 4]}, change) == {"bbox": [1, 2, 3, 4]}


def test_deep_values_cannot_follow_instead_of_failing() -> None:
    value: Any = [1, 2]
    for _ in range(5000):
        value = {"a": value}
    with pytest.raises(CannotFollow, match="too deep"):
        follow_json(value, HALF)


@pytest.mark.parametrize("text", ["<loc0001><loc0002>", '{"bbox_2d": [1]}', "<|box_start|>", "<bbox>"])
def test_boxes_in_texts_are_found(text: str) -> None:
    assert has_text_geometry(text)
    assert not has_text_geometry("a box at the location (1, 2)")
