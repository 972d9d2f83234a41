from __future__ import annotations

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.loader.samples import CrudeSample, Sample, SourceInfo, edataclass
from wdsctl.loader.samples.types import CaptioningSample, ImageSample, TextSample


def a_source(shard: str) -> SourceInfo:
    return SourceInfo(dataset_path="cats", index=1, shard_name=shard, file_names=("1.jpg",))


def a_caption(**fields: object) -> CaptioningSample:
    given = {"__key__": "1", "__restore_key__": ("cats", 1), "__subflavors__": {"lang": "en"}, "image": b"i", **fields}
    return CaptioningSample(**{"caption": "a cat", **given})  # type: ignore[arg-type]


def test_a_derived_sample_keeps_the_base_fields() -> None:
    base = a_caption(__sources__=(a_source("a.tar"),))

    derived = TextSample.derive_from(base, text="words")

    assert derived == TextSample(
        __key__="1",
        __restore_key__=("cats", 1),
        __subflavors__={"lang": "en"},
        __sources__=(a_source("a.tar"),),
        text="words",
    )


def test_a_base_field_can_be_given_anew() -> None:
    assert TextSample.derive_from(a_caption(), __key__="2", text="").__key__ == "2"


def test_a_sample_can_be_derived_from_a_crude_one() -> None:
    crude = CrudeSample({"__key__": "7", "__restore_key__": ("cats", 7), "jpg": b"i"})

    assert ImageSample.derive_from(crude, image=b"i") == ImageSample(
        __key__="7", __restore_key__=("cats", 7), image=b"i"
    )


@edataclass
class TokenisedCaption(CaptioningSample):
    tokens: list[int]


def test_an_extended_sample_has_all_fields_of_its_source() -> None:
    extended = TokenisedCaption.extend(a_caption(), tokens=[1, 2])

    assert (extended.caption, extended.__key__, extended.tokens) == ("a cat", "1", [1, 2])


def test_a_type_extends_its_own_bases_only() -> None:
    with pytest.raises(UsageError, match="TextSample does not extend CaptioningSample") as raised:
        TextSample.extend(a_caption(), text="")

    assert "derive_from" in raised.value.hint


@edataclass
class Pair(Sample):
    image: bytes
    caption: str
    text: str


def test_a_joined_sample_has_the_key_of_the_first_the_sources_of_all_and_the_last_value_of_a_field() -> None:
    first = a_caption(__sources__=(a_source("a.tar"),))
    other = a_caption(__key__="x", __sources__=(a_source("b.tar"),), caption="another cat")
    words = TextSample(__key__="y", __sources__=(a_source("c.tar"),), text="words")

    joined = Pair.from_joined(first, other, words)

    assert (joined.__key__, joined.__subflavors__) == ("1", {"lang": "en"})
    assert [source.shard_name for source in joined.__sources__ or ()] == ["a.tar", "b.tar", "c.tar"]
    assert (joined.image, joined.caption, joined.text) == (b"i", "another cat", "words")


def test_a_partner_that_was_not_found_is_passed_over() -> None:
    assert CaptioningSample.from_joined(a_caption(), None).caption == "a cat"


def test_the_parts_of_a_crude_sample_are_fields_of_a_joined_one() -> None:
    crude = CrudeSample({"__key__": "1", "__sources__": (a_source("c.tar"),), "caption": "a crude cat"})

    joined = CaptioningSample.from_joined(a_caption(__sources__=(a_source("a.tar"),)), crude)

    assert (joined.caption, joined.image) == ("a crude cat", b"i")
    assert [source.shard_name for source in joined.__sources__ or ()] == ["a.tar", "c.tar"]


@pytest.mark.parametrize("samples", [(), (None, a_caption())])
def test_a_join_without_a_primary_sample_is_refused(samples: tuple[Sample | None, ...]) -> None:
    with pytest.raises(UsageError, match="the first sample is the primary"):
        CaptioningSample.from_joined(*samples)


def test_a_join_by_name_is_left_to_the_sample_type() -> None:
    with pytest.raises(UsageError) as raised:
        CaptioningSample.from_joined(a_caption(), other=a_caption())

    assert "override from_joined" in raised.value.hint
