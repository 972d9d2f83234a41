from __future__ import annotations

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.loader.samples import CrudeSample, Sample, SourceInfo, edataclass
from wdsctl.loader.samples.types import CaptioningSample, ImageSample, TextSample


def a_source(shard: str) -> SourceInfo:
    return SourceInfo(dataset_path="cats", index=1, shard_name=shard, file_names=("1.jpg",))


def a_caption(**fields: object) -> CaptioningSample:
    values = {"__key__": "1", "__restore_key__": ("cats", 1), "__subflavors__": {"lang": "en"}, "image": b"i", **fields}
    return CaptioningSample(**{"caption": "a cat", **values})  # type: ignore[arg-type]


def test_derive_from_keeps_base_fields() -> None:
    base = a_caption(__sources__=(a_source("a.tar"),))

    derived = TextSample.derive_from(base, text="words")

    assert derived == TextSample(
        __key__="1",
        __restore_key__=("cats", 1),
        __subflavors__={"lang": "en"},
        __sources__=(a_source("a.tar"),),
        text="words",
    )


def test_derive_from_overrides_base_fields() -> None:
    assert TextSample.derive_from(a_caption(), __key__="2", text="").__key__ == "2"


def test_derive_from_accepts_crude_sample() -> None:
    crude = CrudeSample({"__key__": "7", "__restore_key__": ("cats", 7), "jpg": b"i"})

    assert ImageSample.derive_from(crude, image=b"i") == ImageSample(
        __key__="7", __restore_key__=("cats", 7), image=b"i"
    )


@edataclass
class TokenisedCaption(CaptioningSample):
    tokens: list[int]


def test_extend_keeps_all_fields_of_sample() -> None:
    extended = TokenisedCaption.extend(a_caption(), tokens=[1, 2])

    assert (extended.caption, extended.__key__, extended.tokens) == ("a cat", "1", [1, 2])


def test_extend_rejects_sample_of_unrelated_type() -> None:
    with pytest.raises(UsageError, match="TextSample does not extend CaptioningSample") as raised:
        TextSample.extend(a_caption(), text="")

    assert "derive_from" in raised.value.hint


@edataclass
class Pair(Sample):
    image: bytes
    caption: str
    text: str


def test_from_joined_merges_keys_sources_and_fields() -> None:
    first = a_caption(__sources__=(a_source("a.tar"),))
    other = a_caption(__key__="x", __sources__=(a_source("b.tar"),), caption="another cat")
    words = TextSample(__key__="y", __sources__=(a_source("c.tar"),), text="words")

    joined = Pair.from_joined(first, other, words)

    assert (joined.__key__, joined.__subflavors__) == ("1", {"lang": "en"})
    assert [source.shard_name for source in joined.__sources__ or ()] == ["a.tar", "b.tar", "c.tar"]
    assert (joined.image, joined.caption, joined.text) == (b"i", "another cat", "words")


def test_from_joined_ignores_missing_sample() -> None:
    assert CaptioningSample.from_joined(a_caption(), None).caption == "a cat"


def test_from_joined_uses_parts_of_crude_sample_as_fields() -> None:
    crude = CrudeSample({"__key__": "1", "__sources__": (a_source("c.tar"),), "caption": "a crude cat"})

    joined = CaptioningSample.from_joined(a_caption(__sources__=(a_source("a.tar"),)), crude)

    assert (joined.caption, joined.image) == ("a crude cat", b"i")
    assert [source.shard_name for source in joined.__sources__ or ()] == ["a.tar", "c.tar"]


@pytest.mark.parametrize("samples", [(), (None, a_caption())])
def test_from_joined_rejects_missing_primary_sample(samples: tuple[Sample | None, ...]) -> None:
    with pytest.raises(UsageError, match="the first sample is the primary"):
        CaptioningSample.from_joined(*samples)


def test_from_joined_rejects_samples_by_name() -> None:
    with pytest.raises(UsageError) as raised:
        CaptioningSample.from_joined(a_caption(), other=a_caption())

    assert "override from_joined" in raised.value.hint
