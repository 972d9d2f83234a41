from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.build import an_image
from wdsctl.core.samples.evidence import JsonKeyFacts, PartEvidence, examine_part, percent


def some_json(*objects: object) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in objects)


@pytest.mark.parametrize(
    ("name", "heads", "label"),
    [
        ("jpg", [an_image("JPEG")] * 4, "image/jpeg"),
        ("img", [an_image("JPEG"), an_image("PNG"), an_image("PNG")], "image/png"),
        ("txt", [b"a dog", b"17", b'{"a": 1}'], "text"),
        ("cls", [b"1", b"22\n"], "integer"),
        ("cls", [b"1"] * 30 + [b"cat"], "text"),
        ("score", [b"1", b"0.5"], "number"),
        ("json", [b'{"a": 1}'] * 20 + [b'{"a": '], "json/object"),
        ("json", [b"[1]"], "json/array"),
        ("json", [b'"a"'], "json/string"),
        ("txt", [b'"a dog"', b'"a cat"'], "text"),
        ("bin", [an_image("JPEG"), b"a dog"], "mixed"),
        ("jpg", [an_image("JPEG")] * 19 + [b"404 not found"], "image/jpeg"),
        ("jpg", [an_image("JPEG")] * 5 + [b"404 not found"], "image/jpeg"),
        ("img", [an_image("JPEG")] * 5 + [b"404 not found"], "mixed"),
        ("txt", ["Zoë".encode("latin-1")] * 2 + [b"Zo"], "text"),
        ("txt", ["Zoë".encode("latin-1") + b"\0"] * 2 + [b"Zo"], "mixed"),
        ("json", ['{"a": "Zoë"}'.encode("latin-1"), b'{"a": "Zo"}'], "json/object"),
        ("bin", ["Zoë".encode("latin-1")], "binary"),
        ("txt", [b"", b"a dog"], "text"),
        ("txt", [b""], "empty"),
        ("txt", [], "unknown"),
    ],
)
def test_part_label_is_kind_of_most_contents(name: str, heads: list[bytes], label: str) -> None:
    assert examine_part(PartEvidence(name, 9, tuple(heads)), 9).label == label


def test_truncated_head_is_recognised_by_full_size() -> None:
    whole = '{"caption": "ein Hündchen"}'.encode()
    part = PartEvidence("json", 2, (whole[:18], whole), (len(whole), len(whole)))

    facts = examine_part(part, 2)

    assert facts.label == "json/object"
    assert facts.keys == (JsonKeyFacts(("caption",), 1.0, "text", found=1, examined=1),)


def test_json_keys_are_counted_down_to_second_level() -> None:
    heads = some_json(
        {"caption": "a dog", "width": 3, "meta": {"url": "x", "deep": {"er": 1}}},
        {"caption": None, "width": 3.5, "tags": ["a"], "meta": {"url": "y"}},
    )

    keys = examine_part(PartEvidence("json", 8, heads), 10).keys

    assert {".".join(map(str, key.path)): (key.share, key.kind) for key in keys} == {
        "caption": (0.4, "text"),
        "width": (0.8, "number"),
        "meta": (0.8, "object"),
        "meta.url": (0.8, "text"),
        "meta.deep": (0.4, "object"),
        "tags": (0.4, "list of text"),
    }


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b"], "text"),
        ([1, 2], "integer"),
        ([True], "boolean"),
        ([True, 1], "mixed"),
        ([["a"], ["b", "c"]], "list of text"),
        ([[1], [0.5]], "list of numbers"),
        ([["a"], []], "list"),
        ([["a"], [1]], "list"),
        ([[[1, 2]]], "list of lists"),
        ([[{"a": 1}]], "list of objects"),
        ([[{"from": "human", "value": "hi"}]], "conversation"),
        ([[{"role": "user", "content": "<image> hi"}], [{"role": "user", "content": "hi"}]], "conversation with media"),
        ([[{"role": "user", "content": "hi"}], []], "conversation"),
        ([{"a": 1}], "object"),
    ],
)
def test_json_key_has_kind_of_its_values(values: list[object], kind: str) -> None:
    facts = examine_part(PartEvidence("json", 1, some_json(*({"x": value} for value in values))), 1)

    assert facts.keys[0].kind == kind


@pytest.mark.parametrize(
    ("name", "head", "content_name"),
    [
        ("jpg", an_image("PNG"), "PNG"),
        ("seg.png", an_image("JPEG"), "JPEG"),
        ("txt", b'{"a": 1}', "a JSON object"),
        ("json", b"a dog", "text"),
        ("cls", b"cat", "text"),
        ("mp4", b"<html></html>", "text"),
    ],
)
def test_wrong_extension_is_reported(name: str, head: bytes, content_name: str) -> None:
    anomalies = examine_part(PartEvidence(name, 2, (head, head)), 2).anomalies

    assert anomalies == (f"{name}: the extension does not match the content, which is {content_name} (2 of 2)",)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("jpg", an_image("JPEG")),
        ("txt", b"17"),
        ("json", b"17"),
        ("json", b"[]"),
        ("anything", b"at all"),
        ("txt", b"x"),
    ],
)
def test_matching_or_unknown_extension_is_not_reported(name: str, head: bytes) -> None:
    assert examine_part(PartEvidence(name, 1, (head,)), 1).anomalies == ()


def test_examine_part_names_format_that_loader_does_not_decode() -> None:
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"

    assert examine_part(PartEvidence("heic", 2, (heic, heic)), 2).anomalies == (
        "heic: the loader does not decode HEIC: convert the files, or pass a decoder of your own (pillow-heif)",
    )


def test_examine_part_recognizes_jpeg_xl_without_container() -> None:
    [anomaly] = examine_part(PartEvidence("jxl", 1, (b"\xff\x0a\x98\xc0",)), 1).anomalies

    assert anomaly.startswith("jxl: the loader does not decode JXL")
    assert anomaly.endswith("(pillow-jxl-plugin)")


def test_text_in_another_encoding_is_counted() -> None:
    facts = examine_part(PartEvidence("txt", 3, ("Zoë".encode("latin-1"), "Zoë".encode(), b"\x00\xff")), 3)

    assert (facts.read, facts.not_utf8) == (3, 1)
    assert facts.anomalies[0] == "txt: 1 of 3 read are not UTF-8"


def test_empty_and_mixed_contents_are_reported() -> None:
    facts = examine_part(PartEvidence("x", 3, (b"", b"text", an_image("PNG"))), 3)

    assert facts.anomalies == (
        "x: the content is not of one kind: empty (1), text (1), PNG (1) of 3 read",
        "x: 1 of 3 are empty",
    )


@pytest.mark.parametrize(
    ("share", "text"),
    [(1, "100 %"), (0.99999, "99.9 %"), (0.996, "99.6 %"), (0.95, "95 %"), (0.001, "<1 %"), (0, "0 %")],
)
def test_percent_rounds_to_0_or_100_only_if_exact(share: float, text: str) -> None:
    assert percent(share) == text


@given(st.lists(st.binary(max_size=40)), st.text(min_size=1))
def test_examine_part_accepts_any_content(heads: list[bytes], name: str) -> None:
    assert examine_part(PartEvidence(name, 1, tuple(heads)), 2).share == 0.5


@pytest.mark.parametrize(
    ("dtype", "is_decoded"),
    [("uint8", True), ("uint16", True), ("int32", False), ("float32", False), ("uint32", False)],
)
def test_tiff_whose_range_is_unknown_is_an_anomaly(dtype: str, *, is_decoded: bool) -> None:
    data = io.BytesIO()
    Image.fromarray(np.ones((4, 4), dtype)).save(data, "TIFF")

    facts = examine_part(PartEvidence("tif", 1, (data.getvalue(),)), 1)

    assert bool(facts.anomalies) is not is_decoded
    assert all(each.startswith("tif: the loader does not decode TIFF of floats") for each in facts.anomalies)
