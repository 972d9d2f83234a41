from __future__ import annotations

import dataclasses

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.loader.samples import CrudeSample, Sample, edataclass, make_builder
from wdsctl.loader.samples.types import ImageClassificationSample, TextSample

BASE = ("a/1", ("cats", 1), {"lang": "en"}, None)


def test_a_built_sample_is_what_the_constructor_makes() -> None:
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


def test_every_sample_gets_a_default_of_its_own() -> None:
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
def test_a_constructor_that_does_more_than_set_fields_is_called(kind: type[Sample], text: str) -> None:
    assert make_builder(kind, ("text",))(*BASE, " cat ").text == text


def test_a_crude_sample_holds_its_parts_by_name() -> None:
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


def test_a_field_that_the_type_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="TextSample has no field 'image'") as raised:
        make_builder(TextSample, ("text", "image"))

    assert raised.value.code == "WDS220"
    assert "text" in raised.value.hint


def test_a_field_that_the_type_needs_must_be_given() -> None:
    with pytest.raises(UsageError, match="TextSample needs a value for 'text'"):
        make_builder(TextSample, ())


def test_only_sample_types_are_built() -> None:
    with pytest.raises(UsageError, match="int is not a sample type"):
        make_builder(int, ())
