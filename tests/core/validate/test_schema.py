from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.build import an_image, memory_reader
from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.validate.schema import check_sample_schema, schema_rules_of

VQA = {"image": "jpg", "context": "json[q]", "answers": "json[a]", "answer_weights": "json[w]"}


def check_schema(
    sample_type: str,
    field_map: dict[str, str],
    parts: Mapping[str, bytes],
    *,
    reports_unparsable: bool = True,
    optional: tuple[str, ...] = (),
) -> list[tuple[str, str]]:
    rules = schema_rules_of(DatasetConfig(sample_type=sample_type, field_map=field_map, optional=optional))
    assert rules is not None
    found = LocatedFindingCollector("a.tar")
    data, part_checks = b"", {}
    for name, part in parts.items():
        part_checks[name] = PartToCheck(0, "k", name, len(data), len(part))
        data += part
    read = memory_reader(data)

    def read_part(part: PartToCheck, start: int, size: int) -> bytes:
        return read(part.offset + start, size)

    check_sample_schema(read_part, part_checks, rules, found, reports_unparsable=reports_unparsable)
    return [(each.finding.code, each.finding.message) for each in found.to_findings()]


def check_vqa(value: Any, image: bytes = an_image("JPEG")) -> list[tuple[str, str]]:
    parts = {"jpg": image, "json": json.dumps(value).encode()}
    return check_schema("VQASample", VQA, parts, optional=("answers", "answer_weights"))


@pytest.mark.parametrize("answers", [["yes"], [], "yes", ["yes", "no"]])
def test_answers_accept_text_or_list_of_texts(answers: Any) -> None:
    assert check_vqa({"q": "Asleep?", "a": answers}) == []


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        ({"q": "?", "a": ["yes", 3]}, "WDS149", "answers must be a list of texts, but item 1 is a whole number"),
        ({"q": "?", "a": 3}, "WDS149", "answers must be a list, but is a whole number"),
        ({"q": 3, "a": "x"}, "WDS149", "context must be text, but is a whole number"),
        ({"q": None, "a": "x"}, "WDS148", "context is required by the field map: json[q] is null"),
        ({"a": "x"}, "WDS148", "context is required by the field map: json[q] is missing"),
        ({"q": "?", "a": ["x"], "w": [True]}, "WDS149", "item 0 is true or false"),
        ({"q": "?", "a": ["x", "y"], "w": [1]}, "WDS150", "answers has 2 items, but answer_weights 1"),
        ([], "WDS148", "is missing"),
    ],
)
def test_field_of_wrong_type_is_reported_with_actual_type(value: Any, code: str, words: str) -> None:
    ((found, message),) = check_vqa(value)
    assert (found, words in message) == (code, True), message


def test_image_field_without_image_content_is_reported() -> None:
    assert check_vqa({"q": "?"}, b"plain text") == [("WDS149", "image must be an image, but its part is text")]


def test_image_field_accepts_jpeg_xl_without_container() -> None:
    parts = {"jxl": b"\xff\x0a\xfa\x7f" + bytes(range(60)), "cls": b"1"}
    assert check_schema("ImageClassificationSample", {"image": "jxl", "label": "cls"}, parts) == []


@pytest.mark.parametrize(
    ("caption", "source"),
    [(b"", "txt"), (b" \n", "txt"), (b'{"c": ""}', "txt[c]")],
)
def test_empty_text_of_field_is_noted(caption: bytes, source: str) -> None:
    parts = {"jpg": an_image("JPEG"), "txt": caption}
    found = check_schema("CaptioningSample", {"image": "jpg", "caption": source}, parts)
    assert found == [("WDS169", f"caption is empty: {source}")]


def test_optional_fields_may_be_missing_or_null() -> None:
    assert check_vqa({"q": "?"}) == check_vqa({"q": "?", "a": None}) == []


def test_mapped_field_is_required_unless_optional() -> None:
    fields = {"image": "jpg", "label": "json[label]"}
    parts = {"jpg": an_image("JPEG"), "json": b'{"other": 1}'}
    ((code, message),) = check_schema("ImageClassificationSample", fields, parts)
    assert (code, message) == ("WDS148", "label is required by the field map: json[label] is missing")
    ((code, message),) = check_schema("ImageClassificationSample", fields, parts | {"json": b'{"label": null}'})
    assert (code, message) == ("WDS148", "label is required by the field map: json[label] is null")
    assert check_schema("ImageClassificationSample", fields, parts, optional=("label",)) == []


def test_next_alternative_is_used_when_part_lacks_field() -> None:
    fields = {"image": "jpg", "caption": "json[caption],txt"}
    parts = {"jpg": an_image("JPEG"), "json": b'{"other": 1}', "txt": b"a cat"}
    assert check_schema("CaptioningSample", fields, parts) == []


def test_fields_of_custom_type_are_only_checked_for_presence() -> None:
    fields = {"picture": "jpg", "score": "json[score]"}
    parts = {"jpg": an_image("JPEG"), "json": b'{"other": 1}'}
    assert [code for code, _ in check_schema("my.module:Sample", fields, parts)] == ["WDS148"]
    assert check_schema("my.module:Sample", fields, parts | {"json": b'{"score": [1]}'}) == []


def test_non_json_parts_are_not_parsed_as_json() -> None:
    fields = {"images": "json[images]", "texts": "json[texts]", "similarity_matrix": "npy"}
    parts = {"json": b'{"images": [], "texts": []}', "npy": b"\x93NUMPY"}
    assert check_schema("SimilarityInterleavedSample", fields, parts) == []


def test_correct_choice_index_must_be_among_choices() -> None:
    fields = {"image": "jpg", "context": "txt", "choices": "json[c]", "correct_choice_idx": "json[i]"}
    parts = {"jpg": an_image("JPEG"), "txt": b"?", "json": b'{"c": ["x", "y"], "i": 2}'}
    ((code, message),) = check_schema("MultiChoiceVQASample", fields, parts)
    assert (code, message) == ("WDS150", "correct_choice_idx is 2, but there are 2 choices")


@pytest.mark.parametrize(("label", "codes"), [(b" 7\n", []), (b"seven", ["WDS149"]), (b"7.5", ["WDS149"])])
def test_number_in_own_part_is_parsed(label: bytes, codes: list[str]) -> None:
    fields = {"image": "jpg", "label": "cls"}
    found = check_schema("ImageClassificationSample", fields, {"jpg": an_image("JPEG"), "cls": label})
    assert [code for code, _ in found] == codes


def test_unparsable_part_is_reported_unless_other_level_does() -> None:
    parts = {"jpg": an_image("JPEG"), "json": b"{"}
    assert [code for code, _ in check_schema("VQASample", VQA, parts)] == ["WDS144"]
    assert check_schema("VQASample", VQA, parts, reports_unparsable=False) == []
    parts = {"jpg": an_image("JPEG"), "txt": b"\xff"}
    fields = {"image": "jpg", "caption": "txt"}
    assert [code for code, _ in check_schema("CaptioningSample", fields, parts)] == ["WDS145"]


def test_first_available_alternative_is_used() -> None:
    fields = {"image": "png,jpg", "caption": "txt,json[caption]"}
    assert check_schema("CaptioningSample", fields, {"jpg": an_image("JPEG"), "json": b'{"caption": "c"}'}) == []


def test_datasets_without_field_map_have_no_schema_rules() -> None:
    assert schema_rules_of(DatasetConfig()) is None
    assert schema_rules_of(DatasetConfig(sample_type="my.module:Sample", sample_loader="a.py:load")) is None


CHAT = {"messages": "json", "images": "*"}
TURNS = [{"from": "human", "value": "<image> hi"}, {"from": "gpt", "value": "hello"}]


@pytest.mark.parametrize(
    ("turns", "images", "findings"),
    [
        (TURNS, 1, []),
        (TURNS, 2, [("WDS161", "its turns have 1 <image> token, but the sample has 2 images")]),
        (TURNS[1:], 0, [("WDS162", "the first turn is the assistant's")]),
        ([{"from": "human", "value": " "}], 0, [("WDS161", "turn 0 is empty")]),
        ("hi", 0, [("WDS161", "expected a list")]),
    ],
)
def test_conversation_is_checked_with_its_media(turns: Any, images: int, findings: list[tuple[str, str]]) -> None:
    parts = {f"{i}.jpg": an_image("JPEG") for i in range(images)}
    found = check_schema(
        "ConversationSample", CHAT, {"json": json.dumps({"messages": turns}).encode(), **parts}, optional=("images",)
    )

    assert [(code, words in message) for (code, message), (_, words) in zip(found, findings, strict=True)] == [
        (code, True) for code, _ in findings
    ]


def test_every_item_of_media_list_is_checked() -> None:
    parts = {"json": json.dumps(TURNS).encode(), "0.jpg": b"plain text"}

    assert ("WDS149", "an item of images must be an image, but its part is text") in check_schema(
        "ConversationSample", CHAT, parts
    )


BOXED = {
    "image": "jpg",
    "boxes": "json[annotations][*][bbox]",
    "labels": "json[annotations][*][label]",
    "box_format": "json[format]",
}


@pytest.mark.parametrize(
    ("boxes", "box_format", "words"),
    [
        ([[0, 0, 48, 32]], "xywh", ""),
        ([], "xywh", ""),
        ([[0, 0, 48.4, 32]], "xywh", ""),
        ([[0, 0, 1, 1]], "normalized_xywh", ""),
        ([[40, 0, 48, 32]], "xywh", "box 0 reaches outside of the image of 48 x 32 as xywh: [40, 0, 48, 32]"),
        ([[0, 0, 1, 1], [0.5, 0.5, 1, 1]], "normalized_xywh", "box 1 reaches outside"),
        ([[-5, 0, 4, 4]], "xyxy", "box 0 reaches outside"),
        ([[8, 8, 4, 4]], "xyxy", "box 0 has a negative size as xyxy: [8, 8, 4, 4]"),
        ([[0, 0, 4]], "xyxy", "expected a list of boxes of four numbers, found [0, 0, 4]"),
        ([[0, 0, 4, 4]], "yxyx", "box_format 'yxyx' is none of"),
        ([[0, 0, 4000, 4]], None, ""),
    ],
)
def test_boxes_are_checked_with_their_format_and_image(boxes: Any, box_format: str | None, words: str) -> None:
    value = {"annotations": [{"bbox": box, "label": 1} for box in boxes], "format": box_format}
    parts = {"jpg": an_image("JPEG"), "json": json.dumps(value).encode()}

    found = check_schema("DetectionSample", BOXED, parts, optional=("box_format",))

    assert [code for code, _ in found] == (["WDS163"] if words else [])
    assert all(words in message for _, message in found)


def test_missing_box_label_and_unequal_lengths_are_reported() -> None:
    value = {"annotations": [{"bbox": [0, 0, 4, 4], "label": 1}, {"bbox": [0, 0, 4, 4]}], "format": "xywh"}
    parts = {"jpg": an_image("JPEG"), "json": json.dumps(value).encode()}

    ((code, message),) = check_schema("DetectionSample", BOXED, parts)
    assert (code, message) == (
        "WDS148",
        "labels is required by the field map: json[annotations][*][label] is missing",
    )
    assert check_schema("DetectionSample", BOXED, parts, optional=("labels",)) == []
    separate_labels = {**BOXED, "labels": "json[labels]"}
    parts["json"] = json.dumps({**value, "labels": [1]}).encode()
    assert check_schema("DetectionSample", separate_labels, parts) == [("WDS150", "boxes has 2 items, but labels 1")]


def test_invalid_subtitles_and_preferences_are_reported() -> None:
    fields = {"audio": "wav", "text": "vtt", "segments": "vtt"}
    sound = b"RIFF\x24\0\0\0WAVEfmt " + bytes(30)

    assert (
        check_schema("TranscriptionSample", fields, {"wav": sound, "vtt": b"WEBVTT\n\n00:01.000 --> 00:02.000\nhi\n"})
        == []
    )
    ((code, message),) = check_schema("TranscriptionSample", fields, {"wav": sound, "vtt": b"WEBVTT\n\n0x --> 1\nhi\n"})
    assert (code, message) == ("WDS232", "the subtitles cannot be read: line 3 is no timing")

    fields = {"prompt": "json", "chosen": "json[chosen]", "rejected": "json[rejected]"}
    row = {"prompt": "hi", "chosen": "hello", "rejected": "no"}
    assert check_schema("PreferenceSample", fields, {"json": json.dumps(row).encode()}) == []
    ((code, message),) = check_schema("PreferenceSample", fields, {"json": json.dumps({**row, "prompt": ""}).encode()})
    assert (code, message) == ("WDS161", "the conversation cannot be read: it has no prompt")
