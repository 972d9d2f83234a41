from __future__ import annotations

import json

import pytest

from wdsctl.core.columns.spec import CharCounter, ColumnSpec, JsonNumberReader, check_spec_part, parse_column_spec
from wdsctl.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("size:seg.png", ColumnSpec("size:seg.png", "size", "seg.png")),
        ("chars:txt", ColumnSpec("chars:txt", "chars", "txt")),
        ("json:meta.json:a.0.b", ColumnSpec("json:meta.json:a.0.b", "json", "meta.json", ("a", "0", "b"))),
        ("int:json:w", ColumnSpec("int:json:w", "int", "json", ("w",))),
        ("media:seg.png:width", ColumnSpec("media:seg.png:width", "media", "seg.png", ("width",))),
        ("media:width", ColumnSpec("media:width", "python", "media", ("width",))),
        (
            "my.lengths:Counter.tokens",
            ColumnSpec("my.lengths:Counter.tokens", "python", "my.lengths", ("Counter", "tokens")),
        ),
    ],
)
def test_parse_column_spec_accepts_built_in_and_module_functions(text: str, spec: ColumnSpec) -> None:
    assert parse_column_spec(text) == spec
    assert (spec.is_built_in, spec.reads_shards) == (spec.kind != "python", spec.kind not in ("size", "media"))


@pytest.mark.parametrize("text", ["", "tokens", "size:", "json:txt", "json::a", "json:txt:a..b", "a b:c", "mod:", ":f"])
def test_invalid_column_spec_is_refused_with_valid_forms(text: str) -> None:
    with pytest.raises(UsageError, match="MODULE:FUNCTION") as caught:
        parse_column_spec(text)
    assert caught.value.code == "WDS312"


@pytest.mark.parametrize("text", ["media:jpg:depth", "media::width", "media:jpg:", "media:jpg,:width"])
def test_unknown_media_fact_is_refused_with_known_ones(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_column_spec(text)
    assert (caught.value.code, "width, height, pixels" in caught.value.hint) == ("WDS312", True)


def test_unknown_part_is_refused_with_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean json"):
        check_spec_part(parse_column_spec("size:jsn"), ["jpg", "json"])
    check_spec_part(parse_column_spec("lengths:tokens"), [])


def test_char_counter_counts_characters_not_bytes() -> None:
    assert CharCounter("txt")({"txt": "a cät".encode()}) == 5
    assert CharCounter("txt")({"txt": "\ufeffa cät".encode()}) == 5  # without the byte order mark
    assert CharCounter("txt")({}) == 0


@pytest.mark.parametrize(
    ("path", "number"), [("n", 7), ("f", 3), ("words", 2), ("name", 4), ("turns.1.text", 3), ("0", 9)]
)
def test_json_reader_returns_number_or_length(path: str, number: int) -> None:
    value: dict[str, object] = {
        "n": 7,
        "f": 3.0,
        "words": ["a", "b"],
        "name": "käse",
        "turns": [{}, {"text": "abc"}],
        "0": 9,
    }
    assert JsonNumberReader("json", tuple(path.split(".")))({"json": json.dumps(value).encode()}) == number


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("gone", "'gone' does not exist"),
        ("half", "0.5"),
        ("yes", "true"),
        ("none", "null"),
        ("in", "an object"),
        ("l.3", "'l.3' does not exist"),
    ],
)
def test_json_reader_reports_reason_if_value_is_no_number(path: str, reason: str) -> None:
    value: dict[str, object] = {"half": 0.5, "yes": True, "none": None, "in": {}, "l": [1]}
    with pytest.raises(ValueError, match=reason):
        JsonNumberReader("json", tuple(path.split(".")))({"json": json.dumps(value).encode()})


def test_json_reader_refuses_sample_without_part() -> None:
    with pytest.raises(ValueError, match="no part 'json'"):
        JsonNumberReader("json", ("n",))({})


@pytest.mark.parametrize("value", [640, 640.0, "640", " 640 "])
def test_int_reader_accepts_numbers_as_text(value: object) -> None:
    assert JsonNumberReader("json", ("w",), is_int=True)({"json": json.dumps({"w": value}).encode()}) == 640


@pytest.mark.parametrize("value", ["", "wide", "6.5", "-1", [1], {}, True, None, "1" * 19])
def test_int_reader_refuses_values_that_are_no_whole_number(value: object) -> None:
    with pytest.raises(ValueError, match=r"not a whole number$"):
        JsonNumberReader("json", ("w",), is_int=True)({"json": json.dumps({"w": value}).encode()})
