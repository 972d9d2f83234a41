from __future__ import annotations

import json
import pickle
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.samples.field_map import (
    format_field_map_text,
    merge_field_maps,
    parse_field_map,
    parse_field_map_text,
    validate_field_map,
)
from wdsctl.core.samples.field_path import parse_field_path
from wdsctl.core.samples.fields import FieldMissing, extract_field, find_parts
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES, FieldKind

SAMPLE: dict[str, Any] = {
    "jpg": b"\xff\xd8",
    "txt": "a dog",
    "json": b'{"caption": "a cat", "answers": [{"text": "yes"}, "no"], "7": "seven", "none": null}',
    "meta": {"width": 3},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("jpg", b"\xff\xd8"),
        ("png,jpg", b"\xff\xd8"),
        ("txt,json[caption]", "a dog"),
        ("json[caption]", "a cat"),
        ("json[text],json[caption]", "a cat"),
        ("json[text],txt", "a dog"),
        ("json[answers][0][text]", "yes"),
        ("json[answers][-1]", "no"),
        ("json[answers][5],json[answers][1]", "no"),
        ("json[7]", "seven"),
        ("json[none],txt", None),
        ("meta[width]", 3),
        ("json", SAMPLE["json"]),
    ],
)
def test_extract_field_uses_first_available_alternative(path: str, value: object) -> None:
    assert extract_field(parse_field_path(path), SAMPLE) == value


def test_extract_field_accepts_memoryview_parts() -> None:
    assert extract_field(parse_field_path("json[caption]"), {"json": memoryview(SAMPLE["json"])}) == "a cat"


def test_json_part_is_parsed_once_per_sample() -> None:
    decoded: dict[str, Any] = {}

    first = extract_field(parse_field_path("json[answers]"), SAMPLE, decoded)
    second = extract_field(parse_field_path("json[answers]"), SAMPLE, decoded)

    assert first is second
    assert list(decoded) == ["json"]
    assert extract_field(parse_field_path("json"), SAMPLE, decoded) is SAMPLE["json"]


def test_missing_optional_field_has_default() -> None:
    assert extract_field(parse_field_path("cls"), SAMPLE, default=None) is None
    assert extract_field(parse_field_path("json[label]"), SAMPLE, default=-1) == -1


@pytest.mark.parametrize(
    ("path", "facts"),
    [
        ("png", ["no part png (there are jpg, txt, json, meta)"]),
        ("png,webp", ["no part png", "no part webp"]),
        ("json[captoin]", ["no [captoin] in json (it has the keys caption, answers, 7, none)"]),
        ("json[answers][2]", ["no [2] in json[answers] (it has 2 items)"]),
        ("json[answers][x]", ["no [x] in json[answers] (it has 2 items)"]),
        ("json[caption][0]", ["no [0] in json[caption] (there is a str)"]),
    ],
)
def test_missing_field_error_lists_available_parts_and_keys(path: str, facts: list[str]) -> None:
    with pytest.raises(FieldMissing) as caught:
        extract_field(parse_field_path(path), SAMPLE)

    assert caught.value.code == "WDS220"
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, DatasetError)
    for fact in facts:
        assert fact in str(caught.value)


def test_field_missing_error_is_picklable() -> None:
    error = FieldMissing("the sample has no png", hint="add it", where="a/1")

    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert (type(copy), copy.message, copy.where, copy.code) == (FieldMissing, error.message, "a/1", "WDS220")


@pytest.mark.parametrize("broken", [b'{"a": ', b"\xff\xd8\xff", "plain text", 17])
def test_key_of_part_that_is_not_json_is_refused(broken: object) -> None:
    with pytest.raises(DatasetError, match="part json is not JSON") as caught:
        extract_field(parse_field_path("json[a],txt"), {"json": broken, "txt": "x"})

    assert caught.value.code == "WDS220"


@given(st.dictionaries(st.text(), st.integers() | st.lists(st.text(), min_size=1), min_size=1), st.data())
def test_every_json_key_is_reachable_by_quoted_path(value: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    path = parse_field_path(f"json[{json.dumps(key)}]")

    assert extract_field(path, {"json": json.dumps(value)}) == value[key]


def test_field_map_parse_error_names_field() -> None:
    with pytest.raises(DatasetError) as caught:
        parse_field_map({"image": "jpg", "caption": "json[caption"}, where="dataset.yaml")

    assert caught.value.where == "dataset.yaml: caption"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("image=jpg,caption=txt", {"image": "jpg", "caption": "txt"}),
        ("image=jpg,png,caption=json[a=b,c]", {"image": "jpg,png", "caption": "json[a=b,c]"}),
        (' image = jpg , caption = json["x,y=z"] ', {"image": "jpg", "caption": 'json["x,y=z"]'}),
        ('{"image": "jpg,png", "caption": "json[caption]"}', {"image": "jpg,png", "caption": "json[caption]"}),
        ("", {}),
    ],
)
def test_parse_field_map_text_reads_option(text: str, expected: dict[str, str]) -> None:
    assert parse_field_map_text(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("jpg", "is not of the form FIELD=PART"),
        ("image=jpg,image=png", "is repeated"),
        ("image=", "expected a part"),
        ("image=jpg[,caption=txt", "column"),
        ('{"image": 1}', "every field needs text"),
        ('{"image": ', "not JSON"),
    ],
)
def test_invalid_field_map_option_is_usage_error(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        parse_field_map_text(text)

    assert caught.value.code == "WDS220"


@pytest.mark.parametrize("sample_type", SAMPLE_TYPES)
def test_every_sample_type_accepts_all_its_fields(sample_type: str) -> None:
    paths = {"images": "*", "videos": "*.mp4", "audios": "wav,*.wav"}
    field_map = {field.name: paths.get(field.kind, "json[x]") for field in SAMPLE_TYPES[sample_type]}
    names = ["json", "0.jpg", "1.mp4", "wav"]

    assert list(validate_field_map(sample_type, field_map, names)) == list(field_map)


def test_optional_field_may_be_omitted() -> None:
    assert validate_field_map("ImageClassificationSample", {"image": "jpg", "label": "cls"}, ["jpg", "cls"])


def test_crude_sample_needs_no_field_map() -> None:
    assert validate_field_map(CRUDE, {}, ["jpg"]) == {}


@pytest.mark.parametrize(
    ("sample_type", "field_map", "message", "hint"),
    [
        ("CaptionSample", {"image": "jpg"}, "unknown sample type 'CaptionSample'", "did you mean CaptioningSample?"),
        ("Zebra", {}, "unknown sample type 'Zebra'", "use one of CaptioningSample"),
        ("CaptioningSample", {"image": "jpg", "captoin": "txt"}, "no field 'captoin'", "did you mean caption?"),
        ("CaptioningSample", {"image": "jpg", "text": "txt"}, "no field 'text'", "did you mean caption?"),
        ("CaptioningSample", {"image": "jpg"}, "needs caption", "use one of its fields image, caption"),
        ("TextSample", {}, "needs text", "use one of its fields text"),
        ("ImageSample", {"image": "jgp"}, "image: no sample has a part jgp", "did you mean jpg?"),
        ("ImageSample", {"image": "webp,bmp"}, "no sample has a part webp or bmp", "samples have jpg, txt"),
        ("ImageSample", {"image": "jpg["}, "expected a key", "write a part"),
        (CRUDE, {"image": "jgp"}, "image: no sample has a part jgp", "did you mean jpg?"),
    ],
)
def test_invalid_field_map_is_refused_with_hint(
    sample_type: str, field_map: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(DatasetError) as caught:
        validate_field_map(sample_type, field_map, ["jpg", "txt"], where="dataset.yaml")

    assert caught.value.code == "WDS220"
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.where.startswith("dataset.yaml")


def test_field_map_needs_only_one_existing_alternative() -> None:
    assert validate_field_map("ImageSample", {"image": "jpg,png,webp"}, ["png"])


def test_parts_are_not_checked_without_part_names() -> None:
    assert validate_field_map("ImageSample", {"image": "jpg"})


COCO: dict[str, Any] = {
    "json": json.dumps(
        {
            "annotations": [{"bbox": [0, 0, 1, 1], "area": 1}, {"bbox": [2, 2, 3, 3]}],
            "none": [],
            "deep": [{"b": [{"c": 1}, {"c": 2}]}, {"b": []}],
        }
    ).encode()
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("json[annotations][*][bbox]", [[0, 0, 1, 1], [2, 2, 3, 3]]),
        ("json[annotations][*][bbox][0]", [0, 2]),
        ("json[annotations][*]", [{"bbox": [0, 0, 1, 1], "area": 1}, {"bbox": [2, 2, 3, 3]}]),
        ("json[none][*][bbox]", []),
        ("json[deep][*][b][*][c]", [[1, 2], []]),
        ("json[annotations][*][area],json[none]", []),
    ],
)
def test_star_step_collects_values_of_all_items(path: str, value: object) -> None:
    assert extract_field(parse_field_path(path), COCO) == value


def test_star_step_with_missing_key_gives_none_if_optional_else_error() -> None:
    path = parse_field_path("json[annotations][*][area]")

    assert extract_field(path, COCO, default=None) == [1, None]
    assert extract_field(parse_field_path("json[annotations][*][mask]"), COCO, default=None) is None
    with pytest.raises(FieldMissing) as caught:
        extract_field(path, COCO)
    assert "no [area] in json[annotations][1] (it has the keys bbox)" in caught.value.message


def test_star_step_on_object_is_refused_with_its_keys() -> None:
    with pytest.raises(FieldMissing) as caught:
        extract_field(parse_field_path("json[*]"), COCO)
    assert "no [*] in json (it has the keys annotations, none, deep)" in caught.value.message


IMAGES = dict.fromkeys(["10.jpg", "2.png", "jpg", "1.jpg", "3.mp4", "json", "a.2.jpg", "a.10.jpg", "heic"])


@pytest.mark.parametrize(
    ("path", "kind", "names"),
    [
        ("*.jpg", "images", ["1.jpg", "10.jpg", "a.2.jpg", "a.10.jpg"]),
        ("*.jpg,*.png,jpg", "images", ["jpg", "1.jpg", "2.png", "10.jpg", "a.2.jpg", "a.10.jpg"]),
        ("*", "images", ["heic", "jpg", "1.jpg", "2.png", "10.jpg", "a.2.jpg", "a.10.jpg"]),
        ("*", "videos", ["3.mp4"]),
        ("*.wav", "audios", []),
        ("1*", "images", ["1.jpg", "10.jpg"]),
        ("*1*jpg", "images", ["1.jpg", "10.jpg", "a.10.jpg"]),
        ("a.*.jpg", "images", ["a.2.jpg", "a.10.jpg"]),
        ("1.jpg*.jpg", "images", []),
        ("10.jpg,2.png", "images", ["2.png", "10.jpg"]),
        ("10.jpg,2.png", "any", ["10.jpg", "2.png"]),
        ("*.mp4", "any", ["3.mp4"]),
    ],
)
def test_find_parts_returns_matching_media_in_natural_order(path: str, kind: FieldKind, names: list[str]) -> None:
    assert find_parts(parse_field_path(path), IMAGES, kind) == tuple(names)


def test_extract_field_of_media_list_returns_parts() -> None:
    parts = {"1.jpg": "one", "0.jpg": "zero", "txt": "text"}

    assert extract_field(parse_field_path("*.jpg"), parts, kind="images") == ["zero", "one"]
    assert extract_field(parse_field_path("jpg,0.jpg"), parts, kind="images") == ["zero"]
    assert extract_field(parse_field_path("*.png"), parts, kind="images", default=None) is None
    with pytest.raises(FieldMissing, match=r"no part \*.png"):
        extract_field(parse_field_path("*.png"), parts, kind="images")


@pytest.mark.parametrize(
    ("sample_type", "field_map", "message"),
    [
        (
            "ImageSample",
            {"image": "*.jpg"},
            "image: the pattern *.jpg may match several parts, but image needs one part",
        ),
        ("ConversationSample", {"messages": "*.json"}, "messages: the pattern *.json may match several parts"),
        ("ConversationSample", {"messages": "json", "images": "json[images]"}, "images is a list of parts"),
        ("mine:Type", {"clips": "*.mp4,json[x]"}, "clips is a list of parts, and json[x] is a value inside a part"),
        ("ConversationSample", {"messages": "json", "images": "*.png"}, "images: no sample has a part *.png"),
    ],
)
def test_patterns_are_allowed_only_for_media_lists(sample_type: str, field_map: dict[str, str], message: str) -> None:
    with pytest.raises(DatasetError) as caught:
        validate_field_map(sample_type, field_map, ["json", "0.jpg", "3.mp4"])
    assert message in caught.value.message
    assert caught.value.hint


def test_custom_type_accepts_pattern() -> None:
    assert validate_field_map("mine:Type", {"clips": "*.mp4"}, ["0.mp4"])


@given(st.text("ab*.", max_size=12), st.text("ab.", max_size=12))
def test_part_pattern_matches_like_fnmatch(pattern: str, name: str) -> None:
    path = parse_field_path(f"*{pattern}")

    assert bool(find_parts(path, [name])) == fnmatchcase(name, f"*{pattern}")


@pytest.mark.parametrize("text", ["images=jpg,*.jpg,messages=json", "boxes=json[annotations][*][bbox],image=jpg"])
def test_field_map_text_round_trips_patterns_and_stars(text: str) -> None:
    assert format_field_map_text(parse_field_map_text(text)) == text


@pytest.mark.parametrize(
    ("value", "number"),
    [("7", 7), ("-1", -1), (" 003\n", 3), (7, 7), ("7.5", "7.5"), ("²", "²"), ("9" * 20, "9" * 20)],
)
def test_integer_field_converts_integers_as_text(value: object, number: object) -> None:
    sample = {"json": json.dumps({"label": value}).encode()}

    assert extract_field(parse_field_path("json[label]"), sample, kind="integer") == number
    assert extract_field(parse_field_path("json[label]"), sample, kind="text") == value


def test_integer_field_treats_empty_text_as_missing() -> None:
    sample = {"json": b'{"label": "", "class": "2"}'}

    assert extract_field(parse_field_path("json[label],json[class]"), sample, kind="integer") == 2
    assert extract_field(parse_field_path("json[label]"), sample, kind="integer", default=None) is None
    with pytest.raises(FieldMissing):
        extract_field(parse_field_path("json[label]"), sample, kind="integer")


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (("txt", ["jpg", "txt"]), ("json[c]", ["jpg", "json"]), "txt,json[c]"),
        # A sample with both parts keeps the value that its own field map takes.
        (("json[c]", ["jpg", "json", "txt"]), ("txt", ["jpg", "txt"]), "json[c],txt"),
        (("txt", ["jpg", "txt"]), ("json[c]", ["jpg", "json", "txt"]), "json[c],txt"),
        (("txt", ["jpg", "txt", "json"]), ("json[c]", ["jpg", "json", "txt"]), None),
        (("json[c]", ["jpg", "json"]), ("json[d]", ["jpg", "json"]), None),
    ],
)
def test_merge_field_maps_keeps_fields_of_every_source(
    first: tuple[str, list[str]], second: tuple[str, list[str]], merged: str | None
) -> None:
    sources = [({"image": "jpg", "caption": path}, parts) for path, parts in (first, second)]
    expected = None if merged is None else {"image": "jpg", "caption": merged}
    assert merge_field_maps("CaptioningSample", sources) == expected


def test_merge_field_maps_refuses_other_fields_and_lists_of_media() -> None:
    sources = [({"image": "jpg"}, ["jpg"]), ({"image": "jpg", "caption": "txt"}, ["jpg", "txt"])]
    assert merge_field_maps("CaptioningSample", sources) is None
    lists = [({"messages": "json", "images": path}, ["jpg", "json"]) for path in ("*", "*.jpg")]
    assert merge_field_maps("ConversationSample", lists) is None
    assert merge_field_maps("ConversationSample", lists[:1] * 2) == lists[0][0]
