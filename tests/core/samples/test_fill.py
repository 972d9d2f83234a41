from __future__ import annotations

import time

import pytest

from wdsctl.core.samples.evidence import JsonKeyFacts, PartFacts
from wdsctl.core.samples.fill import FilledField, UnfilledField, fill_field
from wdsctl.core.samples.types import CLIP_FIELD, SampleField

IMAGE = SampleField("image", "image")
CAPTION = SampleField("caption", "text", json_names=("caption", "text"))


def a_part(name: str, kind: str = "image", share: float = 1.0, *keys: JsonKeyFacts) -> PartFacts:
    return PartFacts(name, share, kind, "object" if keys else "", "content is as it is", (), keys)


def a_key(*path: str, kind: str = "text", share: float = 1.0) -> JsonKeyFacts:
    return JsonKeyFacts(path, share, kind, 10, 10)


def fill_source(field: SampleField, *parts: PartFacts, taken: tuple[str, ...] = (), lone_text: bool = True) -> str:
    """The path that fills the field, or the reason why none does."""
    found = fill_field(field, parts, taken, lone_text=lone_text)
    return found.reason if isinstance(found, UnfilledField) else str(found.path)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([a_part("jpg"), a_part("png")], "jpg"),
        ([a_part("zzz"), a_part("seg.png")], "zzz"),
        ([a_part("depth.png"), a_part("rgb.image.png")], "rgb.image.png"),
        ([a_part("png", share=0.3), a_part("jpg", share=0.7)], "jpg,png"),
        ([a_part("jpg", share=0.97), a_part("png", share=0.03), a_part("seg.png", share=0.03)], "jpg,png"),
        ([a_part("view.jpg", share=0.5), a_part("view.png", share=0.5)], "view.jpg,view.png"),
        ([a_part("jpg", share=0.5)], "no image in every sample: jpg is in 50 % only"),
        ([a_part("a"), a_part("b")], "2 image parts, and only one can be the field: a, b"),
        ([a_part("mp4", "video")], "no image part"),
        ([a_part("png", "empty", 0.2)], "no image part: png is in 20 % of samples, content is as it is"),
    ],
)
def test_image_field_is_filled_by_unambiguous_part(parts: list[PartFacts], expected: str) -> None:
    assert fill_source(IMAGE, *parts) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([a_part("txt", "text"), a_part("caption.txt", "text")], "caption.txt"),
        ([a_part("txt", "text"), a_part("json", "json", 1.0, a_key("caption"))], "txt"),
        ([a_part("url", "text"), a_part("json", "json", 1.0, a_key("caption"))], "json[caption]"),
        ([a_part("json", "json", 1.0, a_key("text"), a_key("Caption"))], "json[Caption]"),
        ([a_part("json", "json", 1.0, a_key("meta", "caption"), a_key("text"))], "json[text]"),
        ([a_part("json", "json", 1.0, a_key("caption", kind="list of text"))], "json[caption][0]"),
        ([a_part("json", "json", 1.0, a_key("caption", share=0.5), a_key("text"))], "json[text]"),
        ([a_part("note", "text")], "note"),
    ],
)
def test_text_field_is_filled_by_name_or_only_text(parts: list[PartFacts], expected: str) -> None:
    assert fill_source(CAPTION, *parts) == expected


def test_fill_field_skips_taken_paths() -> None:
    parts = [a_part("json", "json", 1.0, a_key("caption"), a_key("text"))]

    assert fill_source(CAPTION, *parts, taken=("json[caption]",)) == "json[text]"


def test_text_of_other_name_needs_lone_text() -> None:
    assert fill_source(CAPTION, a_part("note", "text"), lone_text=False) == "no caption: note may be any text"


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        (SampleField("x", "integer", json_names=("x",)), "integer"),
        (SampleField("x", "number", json_names=("x",)), "integer"),
        (SampleField("x", "number", json_names=("x",)), "number"),
        (SampleField("x", "list", json_names=("x",)), "list"),
        (SampleField("x", "list", json_names=("x",)), "list of numbers"),
        (SampleField("x", "object", json_names=("x",)), "object"),
        (SampleField("x", "any", json_names=("x",)), "boolean"),
    ],
)
def test_json_key_fills_field_of_its_kind(field: SampleField, kind: str) -> None:
    parts = [a_part("json", "json", 1.0, a_key("x", kind=kind))]

    assert fill_source(field, *parts, lone_text=False) == "json[x]"


def test_json_key_of_other_kind_does_not_fill_field() -> None:
    parts = [a_part("json", "json", 1.0, a_key("x", kind="text"))]

    assert fill_source(SampleField("x", "integer", json_names=("x",)), *parts, lone_text=False) == "no x: json has x"


def test_likelier_key_name_has_higher_quality() -> None:
    first = fill_field(CAPTION, [a_part("json", "json", 1.0, a_key("caption"))], (), lone_text=True)
    second = fill_field(CAPTION, [a_part("json", "json", 1.0, a_key("text"))], (), lone_text=True)

    assert isinstance(first, FilledField)
    assert isinstance(second, FilledField)
    assert first.quality > second.quality


def test_field_is_filled_in_linear_time() -> None:
    part = a_part("json", "json", 1.0, *(a_key(f"column {i}", kind="integer") for i in range(20_000)))
    start = time.process_time()

    assert fill_source(CLIP_FIELD, part).startswith("no clip")
    assert time.process_time() - start < 2
