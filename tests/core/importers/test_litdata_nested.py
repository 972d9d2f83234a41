"""parse_packed_json: LitData's packed lists and dicts."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.samples.packed_json import parse_packed_json


def encode_text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b"\0" + encode_text("[1]"), [1]),
        (b"\1" + struct.pack("<I", 2) + encode_text("a") + encode_text("é"), ["a", "é"]),
        (b"\2" + struct.pack("<Iqq", 2, -1, 7), [-1, 7]),
        (b"\3" + struct.pack("<Id", 1, 0.5), [0.5]),
        (b"\4" + struct.pack("<I??", 2, True, False), [True, False]),
        (b"\5" + struct.pack("<I", 1) + encode_text("k") + b"\x0b", {"k": None}),
        (
            b"\6" + struct.pack("<II", 2, 1) + encode_text("k") + b"\x10" + b"\x12" + struct.pack("<q", 3),
            [{"k": None}, {"k": 3}],
        ),
        (b"\7" + encode_text("x"), "x"),
        (b"\x08" + struct.pack("<q", 5), 5),
        (b"\x09" + struct.pack("<d", 5.5), 5.5),
        (b"\x0a\1", True),
    ],
)
def test_parse_packed_json_decodes_every_tag(data: bytes, value: Any) -> None:
    assert parse_packed_json(data) == value


@given(st.integers(0, 32).flatmap(lambda tag: st.binary(max_size=60).map(lambda rest: bytes([tag]) + rest)))
def test_parse_packed_json_raises_only_value_error_for_random_data(data: bytes) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        parse_packed_json(data)
