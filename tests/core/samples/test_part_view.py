from __future__ import annotations

import io
import json

import numpy as np
import pytest

from tests.build import an_image
from tests.core.media_files import a_media_file
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import ImageFacts, VideoFacts
from wdsctl.core.samples.array_facts import ArrayFacts, array_facts
from wdsctl.core.samples.preview import (
    MAX_PREVIEW_JSON_DEPTH,
    PART_HEAD_BYTES,
    InspectedPart,
    inspect_part,
)


def inspect_data(data: bytes) -> InspectedPart:
    source = ByteRangeFile(lambda at, length: data[at : at + length], len(data), head=data[:PART_HEAD_BYTES])
    return inspect_part("p", 0, source)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_inspect_part_recognises_each_kind() -> None:
    assert inspect_data("grün\n".encode()).text == "grün\n"
    assert inspect_data(b"\xff\xfea\x00").text == "a"
    assert inspect_data(b"").kind == "empty"
    assert inspect_data(bytes(range(200))).head_hex == bytes(range(64)).hex()
    assert isinstance(inspect_data(an_image("PNG")).facts, ImageFacts)
    assert isinstance(inspect_data(a_media_file("mp4", video="libx264")).facts, VideoFacts)
    value = inspect_data(b'{"a": [1, null]}')
    assert (value.value, value.has_value) == ({"a": [1, None]}, True)


def test_long_json_is_read_whole_and_long_text_is_truncated() -> None:
    long = {"words": "x" * PART_HEAD_BYTES, "last": 1}
    assert inspect_data(json.dumps(long).encode()).value == long
    truncated = inspect_data("ä".encode() * PART_HEAD_BYTES)
    assert (truncated.text, truncated.is_cut) == ("ä" * (PART_HEAD_BYTES // 2), True)


@pytest.mark.parametrize(
    "text",
    [b"[" * 3000 + b"]" * 3000, b"[" * (MAX_PREVIEW_JSON_DEPTH + 2) + b"1" + b"]" * (MAX_PREVIEW_JSON_DEPTH + 2)],
)
def test_too_deep_json_is_shown_as_text(text: bytes) -> None:
    view = inspect_data(text)
    assert (view.has_value, view.text) == (False, text.decode())


def test_numbers_invalid_in_json_become_text() -> None:
    value = inspect_data(b'{"a": NaN, "b": 1e999, "c": 1e3}').value
    assert value == {"a": "NaN", "b": "1e999", "c": 1000.0}
    json.dumps(value, allow_nan=False)


def test_array_facts_have_dtype_shape_and_range() -> None:
    facts = inspect_data(npy(np.array([[1.0, -2.5], [np.nan, np.inf]], "f4"))).array
    assert facts == ArrayFacts(dtype="float32", shape=(2, 2), min=-2.5, max=1.0, mean=-0.75, odd=2)
    assert inspect_data(npy(np.array(7, "i8"))).array == ArrayFacts(dtype="int64", shape=(), min=7, max=7, mean=7)
    assert inspect_data(npy(np.zeros((0, 3)))).array == ArrayFacts(dtype="float64", shape=(0, 3))


def test_object_array_is_not_unpickled_and_truncated_one_has_no_range() -> None:
    assert inspect_data(npy(np.array([{"a": 1}], object))).array == ArrayFacts(dtype="object", shape=(1,))
    assert inspect_data(npy(np.arange(100))[:-8]).array == ArrayFacts(dtype="int64", shape=(100,))
    assert array_facts(ByteRangeFile.from_bytes(b"\x93NUMPY\x01\x00\xff\xff{")) is None
    assert inspect_data(b"\x93NUMPY\x01\x00\xff\xff{").head_hex is not None
    assert inspect_data(b"\x93NUMPY\x01\x00\x76\x00" + b"{" * 118).array is None
