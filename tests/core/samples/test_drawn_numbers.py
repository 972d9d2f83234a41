"""Rows of numbers that look drawn on their pictures, and such that do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wdsctl.core.samples.drawn_numbers import (
    NumberRow,
    SampleCounts,
    find_drawn_row,
    find_drawn_samples,
    is_other_key,
    rows_of_text,
)

SIZE = (200, 120)


def found(*rows: Sequence[float], are_texts: bool = False) -> tuple[float, ...]:
    """The numbers of the row that looks drawn; empty for none. Each row is of another sample."""
    row = find_drawn_row([NumberRow(tuple(each), SIZE, str(at)) for at, each in enumerate(rows)], are_texts=are_texts)
    return row.numbers if row else ()


@pytest.mark.parametrize(
    "row",
    [
        [40, 30],
        [40, 30, 0.9],
        [61.5, 38.25, 99.75],
        [40, 30, 100, 70],
        [40, 30, 60, 40],
        [170, 100, 60, 40],  # cxcywh
        [40, 30, 100, 70, 0.99],
        [1, 0.9, 40, 30, 100, 70],
        [40, 30, 100, 30, 100, 70],
        [40, 30, 100, 30, 100, 70, 40, 70],
        [-10, 30, 100, 125],  # partly outside
    ],
)
def test_points_boxes_and_polygons_are_found(row: list[float]) -> None:
    assert found(row) == tuple(row)
    assert found(row, row) == tuple(row)


@pytest.mark.parametrize(
    "row",
    [
        [1, 2, 3, 4],
        [25, 0, 0, 25],  # RGBA
        [255, 0, 0],
        [2024, 5, 6],
        [0.1, -0.2, 0.3, 0.4],
        [0.1, 0.2, 0.3, 0.4],
        [200, 120],  # the size of the picture
        [0, 1, 1, 0],
        list(range(30)),
        [137, 111, 133, 44, 131, 104, 137, 54],  # a hash
        [-7.5, 11.5, 75.25],
        [10, 20, 40, 80, 160],
    ],
)
def test_other_numbers_are_not(row: list[float]) -> None:
    assert found(row) == ()


def test_rows_of_several_samples_tell_more_than_one() -> None:
    assert found([40, 30, 100, 70], [90, 80, 20, 10]) == (40, 30, 100, 70)  # as xywh
    assert found([40, 30, 100, 70], [190, 110, 20, 60]) == ()
    assert found([40, 30], [50], [60, 70, 80]) == ()  # labels, of which a sample has any number
    assert found([40, 30, 100, 30, 100, 70], [1, 2, 90, 4, 50, 60, 70, 80]) == (40, 30, 100, 30, 100, 70)
    many = [[each, 2 * each] for each in range(9, 30)]
    assert found(*many) == ()  # a corner of the picture, in many samples
    assert found(*many, [90, 30]) == (90, 30)
    assert found([0, 0, 0, 0], [40, 30, 100, 70], [-1, -1, -1, -1]) == (40, 30, 100, 70)  # as for no box


def test_texts_need_rows_in_some_samples_only() -> None:
    assert found([40, 30], (), (), (), are_texts=True) == (40, 30)
    assert found([40, 30], (), (), (), (), are_texts=True) == ()
    assert found([4], [40, 30], [40, 30, 100, 70], are_texts=True) == (40, 30)
    assert find_drawn_row([]) is None


def found_among(*rows: Sequence[float], before: tuple[int, int] = (0, 100), reverse: bool = False) -> tuple[float, ...]:
    """As `found`, for samples that are neighbours in their source, and come from there in this or the other order."""
    rows_in_order = [NumberRow(tuple(each), SIZE, str(at), (0, at)) for at, each in enumerate(rows)]
    row, _ = find_drawn_samples(rows_in_order[::-1] if reverse else rows_in_order, SampleCounts(*before))
    return row.numbers if row else ()


DRAWN = [[40, 30, 100, 70], [50, 20, 90, 95], [60, 35, 70, 60], [20, 15, 130, 90], [45, 10, 80, 55], [30, 5, 99, 77]]
OTHERS = [[900 + each, 30, 100, 70] for each in range(60)]


def test_neighbours_among_other_samples_are_found() -> None:
    assert found_among(*DRAWN, before=(0, 9)) == ()  # of as few samples, many may look drawn by chance
    assert found_among(*DRAWN) == (20, 15, 130, 90)
    assert found_among(*OTHERS, *DRAWN, *OTHERS, before=(0, 0)) == (20, 15, 130, 90)
    assert found_among(*OTHERS, *DRAWN, reverse=True) == (20, 15, 130, 90)
    assert found_among(*OTHERS, *[[0, 0, 0, 0], *DRAWN[:3], [-1, -1, -1, -1], *DRAWN[3:]]) == (20, 15, 130, 90)
    assert found_among(*DRAWN, before=(50, 100)) == ()
    assert found_among(*DRAWN[:2], *OTHERS) == ()


def test_neighbours_that_repeat_or_count_are_not() -> None:
    assert found_among(*OTHERS, *DRAWN[:1] * 20) == ()
    assert found_among(*([10 * each, 10 * each + 9] for each in range(100))) == ()
    assert found_among(*([10 * each, 10 * each + 9] for each in range(100)), reverse=True) == ()


def test_corners_are_found_however_they_are_mixed_with_others() -> None:
    mixed = [each for at in range(16) for each in ([*DRAWN[at % 6][:3], 100 + at], [900, 30, 100, 70], [1, 2, 3])]
    assert found_among(*mixed, before=(50, 100)) == (20, 15, 130, 103)
    assert found_among(*mixed[:-3], before=(50, 100)) == ()
    assert found_among(*(sorted(each) for each in mixed), before=(50, 100)) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[40,30][100,70]", ([(40, 30, 100, 70)], True)),
        ("1 0.9 40 30 100 70\n\n2 0.8 4 3 10 7\n", ([(1, 0.9, 40, 30, 100, 70), (2, 0.8, 4, 3, 10, 7)], True)),
        ("pyautogui.click(x=40, y=30)", ([(40, 30)], False)),
        ("POLYGON ((40 30, 100 30, 100 70))", ([(40, 30, 100, 30, 100, 70)], False)),
        ("12 cats at 10 20 30 40 Main Street, (2012), [1]", ([], False)),
        ("M 40,30 l60-5 c 1 2 3 4 5 6z", ([(40, 30, 60, -5, 1, 2, 3, 4, 5, 6)], True)),
        ("2024-05-06 12:30", ([], False)),
        ("Monday 5", ([], False)),
        (f"M{'1' * 9000}!", ([], False)),  # in no time
        ("class,a,b,c,d\ndog,40,30,100,70\n", ([(40, 30, 100, 70)], True)),
        ("traffic light 0.9 40 30 100 70 x\n1 2 3 4\n", ([(0.9, 40, 30, 100, 70), (1, 2, 3, 4)], True)),
        ("", ([], False)),
    ],
)
def test_rows_of_texts(text: str, expected: tuple[list[tuple[float, ...]], bool]) -> None:
    assert rows_of_text(text) == expected


def test_keys_that_name_something_else() -> None:
    assert all(map(is_other_key, ("time", "image_size", "targetSize", "colors", "box_ids")))
    assert not any(map(is_other_key, ("left_eye", "labels", "sized", "timeline")))
