from __future__ import annotations

import dataclasses

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.loader.samples import CrudeSample, Sample, edataclass, make_builder
from wdsctl.loader.samples.types import ImageClassificationSample, TextSample

BASE = ("a/1", ("cats", 1), {"lang": "en"}, None)


def test_builder_result_equals_constructor_result() -> None:
    build = make_builder(ImageClassificationSample, ("label", "image"))

    built = build(*BASE, 3, b"pixels")

    assert type(built) is ImageClassificationSample
    assert built == ImageClassificationSample(
        __key__="a/1", __restore_key__=("cats", 1), __subflavors__={"lang": "en"}, image=b"pixels", label=3
    )


@edataclass
class Tagged(Sample):
    text: str
    tags: list[str] = dataclasses.field(default_factory=list)


def test_builder_calls_default_factory_for_each_sample() -> None:
    build = make_builder(Tagged, ("text",))

    first, second = build(*BASE, "one"), build(*BASE, "two")
    first.tags.append("x")

    assert second == Tagged(__key__="a/1", __restore_key__=("cats", 1), __subflavors__={"lang": "en"}, text="two")


@edataclass
class Checked(TextSample):
    def __post_init__(self) -> None:
        self.text = self.text.strip()


@edataclass
class Shouting(Sample):
    text: str

    def __init__(self, *, text: str, **base: object) -> None:
        self.text = text.upper()
        self.__key__ = str(base["__key__"])


class Inherited(Checked):
    pass


@pytest.mark.parametrize(
    ("kind", "text"), [(Checked, "cat"), (Inherited, "cat"), (Shouting, " CAT "), (Tagged, " cat ")]
)
def test_builder_calls_custom_constructor(kind: type[Sample], text: str) -> None:
    assert make_builder(kind, ("text",))(*BASE, " cat ").text == text


def test_builder_of_crude_sample_stores_parts_by_name() -> None:
    build = make_builder(CrudeSample, ("jpg", "seg.png", "it's"))

    sample = build(*BASE, b"j", b"s", b"i")

    assert type(sample) is CrudeSample
    assert sample == {
        "__key__": "a/1",
        "__restore_key__": ("cats", 1),
        "__subflavors__": {"lang": "en"},
        "__sources__": None,
        "jpg": b"j",
        "seg.png": b"s",
        "it's": b"i",
    }


def test_make_builder_rejects_unknown_field() -> None:
    with pytest.raises(UsageError, match="TextSample has no field 'image'") as raised:
        make_builder(TextSample, ("text", "image"))

    assert raised.value.code == "WDS220"
    assert "text" in raised.value.hint


def test_make_builder_rejects_missing_required_field() -> None:
    with pytest.raises(UsageError, match="TextSample needs a value for 'text'"):
        make_builder(TextSample, ())


def test_make_builder_rejects_other_types() -> None:
    with pytest.raises(UsageError, match="int is not a sample type"):
        make_builder(int, ())
