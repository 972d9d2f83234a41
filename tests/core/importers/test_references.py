from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.protocol import Part
from wdsctl.core.importers.references import encode_line, make_references_part, parts_of_line

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda some: st.one_of(st.lists(some, max_size=3), st.dictionaries(st.text(), some, max_size=3)),
    max_leaves=8,
)


@st.composite
def json_bytes(draw: st.DrawFn) -> bytes:
    """JSON in the spellings that people and programs use."""
    text = json.dumps(
        draw(json_values),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1, 2, 4])),
        separators=draw(st.sampled_from([None, (",", ":"), (", ", ": "), (" ,", " : ")])),
    )
    return (text + draw(st.sampled_from(["", "\n", " ", "\r\n"]))).encode("utf-8", "surrogatepass")


@given(st.dictionaries(st.sampled_from(["json", "a.json", "txt", "cls", "npy"]), st.one_of(st.binary(), json_bytes())))
def test_encode_line_round_trips_every_part(parts: dict[str, bytes]) -> None:
    given_parts = [Part(name, data) for name, data in sorted(parts.items())]

    line = encode_line("k/1", given_parts, {"mp4": "k/1.mp4", "left.jpg": "k/0.left.jpg"})

    assert b"\n" not in line
    record: dict[str, Any] = json.loads(line)
    assert parts_of_line(record) == given_parts
    assert (record["key"], record["media"]) == ("k/1", {"left.jpg": "k/0.left.jpg", "mp4": "k/1.mp4"})


@pytest.mark.parametrize(
    "data", [b"NaN", b"[Infinity]", b'{"a": 1, "a": 2}', b"[" * 100_000, b"1e400", b'"\\ud800"', b"\xff"]
)
def test_encode_line_keeps_json_that_does_not_round_trip(data: bytes) -> None:
    assert parts_of_line(json.loads(encode_line("k", [Part("json", data)], {}))) == [Part("json", data)]


def test_encode_line_embeds_plain_json() -> None:
    line = json.loads(encode_line("k", [Part("json", b'{"q": [1, 2]}')], {}))
    assert line["parts"] == {"json": {"q": [1, 2]}}


@pytest.mark.parametrize("line", [{}, {"parts": 3}, {"parts": {"a": 3}}, {"parts": {"a": "x"}, "as": {"a": "morse"}}])
def test_parts_of_line_refuses_invalid_lines(line: dict[str, Any]) -> None:
    with pytest.raises(DatasetError) as caught:
        parts_of_line(line)
    assert caught.value.code == "WDS343"


def test_make_references_part_lists_media_entries() -> None:
    assert make_references_part({"b": "ü/1.b", "a": "ü/1.a"}) == Part("refs.json", '{"a":"ü/1.a","b":"ü/1.b"}'.encode())
