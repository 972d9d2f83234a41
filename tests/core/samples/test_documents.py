"""Documents in all forms become one list of texts and images."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wdsctl.core.errors import WdsctlError
from wdsctl.core.samples.documents import ImagePlace, is_document, name_images, normalize_document, read_document

OBELICS = {"images": [None, "a.jpg", None, "b.jpg"], "texts": ["one", None, None, None], "metadata": "{}"}
MMC4 = {
    "text_list": ["one", "two", "three"],
    "image_info": [
        {"image_name": "c.jpg", "matched_text_index": 2, "matched_sim": 0.3},
        {"image_name": "a.jpg", "matched_text_index": 0, "matched_sim": 0.2},
        {"image_name": "d.jpg", "matched_text_index": 2, "matched_sim": 0.1},
        {"image_name": None, "matched_text_index": 1},
    ],
    "similarity_matrix": [[0.1]],
}
ITEMS = [
    "one",
    {"type": "image", "image": "a.jpg"},
    None,
    {"type": "text", "text": "two"},
    {"type": "image_url", "image_url": {"url": "b.jpg"}},
]
COLUMNS = [  # a list of structs has nulls where JSON has no key
    {"type": "image", "text": None, "image": {"bytes": b"A", "path": None}},
    {"type": "text", "text": "one", "image": None},
    {"type": "image", "text": None, "image": None},
    {"type": None, "text": None, "image": {"bytes": None, "path": None}},
]
PLACES = [{"type": "image"}, {"type": "text", "text": "one"}, {"type": "image"}]


@pytest.mark.parametrize(
    ("raw", "expected", "count"),
    [
        (OBELICS, ["one", 0, 1], 2),
        (MMC4, [0, "one", "two", 1, 2, "three"], 3),
        ({"sequence": ITEMS}, ["one", 0, "two", 1], 2),
        ({"interleaved": ITEMS}, ["one", 0, "two", 1], 2),
        ({"content": COLUMNS}, [0, "one"], 1),
        ({"document": PLACES, "images": ["x.jpg", "y.jpg"]}, [0, "one", 1], 2),
        ({"document": PLACES}, [0, "one", 1], 2),
        ({"content": "a page", "images": [None], "texts": ["one"]}, ["one"], 0),
        ({"images": ["", "a.jpg"], "texts": ["one", ""]}, ["one", 0], 1),
        (ITEMS, ["one", 0, "two", 1], 2),
        (json.dumps(OBELICS), ["one", 0, 1], 2),
        (memoryview(json.dumps(OBELICS).encode()), ["one", 0, 1], 2),
    ],
)
def test_normalize_document_puts_images_into_their_places(raw: Any, expected: list[Any], count: int) -> None:
    assert normalize_document(raw, range(count)) == expected


@pytest.mark.parametrize("raw", [OBELICS, MMC4, {"sequence": ITEMS}, {"content": COLUMNS}])
def test_named_images_are_in_the_same_places(raw: dict[str, Any]) -> None:
    before = json.dumps(raw, default=str)
    expected = [isinstance(item, ImagePlace) or item for item in read_document(raw)]
    names = [f"{i}.png" for i in range(expected.count(True))]

    named = name_images(raw, names)

    assert [item.value for item in read_document(named) if isinstance(item, ImagePlace)] == names
    assert [isinstance(item, ImagePlace) or item for item in read_document(named)] == expected
    assert list(named) == list(raw)
    assert json.dumps(raw, default=str) == before


def test_separate_images_move_into_their_places() -> None:
    named = name_images({"content": PLACES, "images": ["x.jpg", "y.jpg"], "url": "u"}, ["0.jpg", "1.jpg"])

    assert named == {
        "content": [
            {"type": "image", "image": "0.jpg"},
            {"type": "text", "text": "one"},
            {"type": "image", "image": "1.jpg"},
        ],
        "url": "u",
    }


@pytest.mark.parametrize(
    ("raw", "images", "words"),
    [
        ({"images": ["a.jpg"], "texts": [None, "one"]}, 1, "1 entry in `images`, but 2 in `texts`"),
        ({"images": ["a.jpg"], "texts": ["one"]}, 1, "place 0 has both an image and a text"),
        ({"images": [None, None], "texts": [None, None]}, 0, "no text and no image"),
        ({"images": [], "texts": []}, 0, "no text and no image"),
        ({"content": []}, 0, "no text and no image"),
        ({"content": [None, {"type": "image", "image": None}]}, 0, "no text and no image"),
        ({"images": [None], "texts": [3]}, 0, "texts[0] is 3"),
        ({"text_list": ["a"], "image_info": [{"image_name": "a.jpg", "matched_text_index": 1}]}, 1, "from 0 to 0"),
        ({"text_list": ["a"], "image_info": [{"image_name": "a.jpg", "matched_text_index": -1}]}, 1, "from 0 to 0"),
        ({"text_list": ["a"], "image_info": [{"image_name": "a.jpg"}]}, 1, "no `matched_text_index`"),
        ({"text_list": ["a"], "image_info": ["a.jpg"]}, 1, "no `matched_text_index`"),
        ({"content": [{"type": "video", "video": "a.mp4"}]}, 0, "item 0 of the type 'video'"),
        ({"content": [{"type": "image", "image": "a.jpg", "text": "b"}]}, 1, "both an image and a text"),
        ({"content": [{"image": "a.jpg", "text": "b"}]}, 1, "both an image and a text"),
        ({"content": [3]}, 0, "item 0 is 3"),
        (OBELICS, 1, "2 places for images, but the sample has 1 image"),
        (OBELICS, 3, "2 places for images, but the sample has 3 images"),
        ({"images": ["1.jpg", None, "0.jpg"], "texts": [None, "a", None]}, 2, "another order"),
        ({"title": "a"}, 0, "found title"),
        ({}, 0, "found nothing"),
        (7, 0, "found 7"),
        ("{", 0, "not JSON"),
    ],
)
def test_normalize_document_refuses_what_it_cannot_place(raw: Any, images: int, words: str) -> None:
    with pytest.raises(WdsctlError) as caught:
        normalize_document(raw, range(images))

    assert caught.value.code == "WDS174"
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (OBELICS, True),
        (MMC4, True),
        ({"sequence": ITEMS}, True),
        ({"content": COLUMNS}, True),
        ({"images": ["a.jpg", "b.jpg"], "texts": ["pairs", "are none"]}, False),
        ({"images": ["a.jpg"], "texts": [{"user": "a", "assistant": "b"}]}, False),
        ({"images": [], "texts": []}, False),
        ({"sequence": ["a", "1.jpg"]}, False),
        ({"content": [{"path": "a.jpg", "label": "cat"}]}, False),
        ({"content": [{"type": "video", "video": "a.mp4"}]}, False),
        ({"content": "text"}, False),
        ([], False),
    ],
)
def test_is_document_needs_places_for_images(raw: Any, expected: bool) -> None:
    assert is_document(raw) == expected
