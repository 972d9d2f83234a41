from __future__ import annotations

import copy
import pickle

import pytest
import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batching.batch import Batch, CrudeBatch, batch_type_of
from wdsctl.loader.samples import CrudeSample, SourceInfo, edataclass
from wdsctl.loader.samples.types import CaptioningSample, ImageSample, OCRSample, TextSample


def a_source(i: int) -> SourceInfo:
    return SourceInfo(dataset_path="cats", index=i, shard_name="a.tar", file_names=())


def captions(n: int = 2) -> list[CaptioningSample]:
    return [
        CaptioningSample(
            __key__=f"{i}",
            __restore_key__=("cats", i),
            __subflavors__={"lang": "en"} if i else None,
            __sources__=(a_source(i),),
            image=torch.full((2,), i),
            caption=f"cat {i}",
        )
        for i in range(n)
    ]


def test_batch_fields_are_readable_by_name_and_attribute() -> None:
    batch = batch_type_of(CaptioningSample).from_samples(captions())

    assert batch["caption"] == ["cat 0", "cat 1"]
    assert batch["image"] is getattr(batch, "image")  # noqa: B009 - mypy cannot know it
    assert batch.keys() == [
        "__key__",
        "__restore_key__",
        "__subflavors__",
        "__sources__",
        "image",
        "caption",
        "captions",
    ]
    assert {**batch}.keys() == set(batch.keys())
    assert "image" in batch
    assert "keys" not in batch
    with pytest.raises(KeyError, match="text"):
        batch["text"]


def test_unpacking_batch_as_tuple_is_refused() -> None:
    batch = batch_type_of(CaptioningSample).from_samples(captions())

    with pytest.raises(TypeError, match="CaptioningBatch"):
        _image, _caption = batch  # type: ignore[misc]


def test_base_fields_have_entry_per_sample_and_all_sources() -> None:
    batch = batch_type_of(CaptioningSample).from_samples(captions())

    assert batch.__key__ == ["0", "1"]
    assert batch.__restore_key__ == (("cats", 0), ("cats", 1))
    assert batch.__subflavors__ == [None, {"lang": "en"}]
    assert batch.__sources__ == (a_source(0), a_source(1))


def test_base_fields_missing_in_all_samples_are_none() -> None:
    batch = batch_type_of(TextSample).from_samples([TextSample(__key__="1", text="")])

    assert (batch.__subflavors__, batch.__sources__) == (None, None)


@edataclass
class TokenBatch(Batch):
    image: torch.Tensor
    tokens: list[int]
    lengths: list[int] | None = None


def test_custom_batch_stacks_tensors_and_accepts_extra_fields() -> None:
    batch = TokenBatch.from_samples(captions(), tokens=[7, 8])

    assert batch.image.tolist() == [[0, 0], [1, 1]]
    assert (batch.tokens, batch.lengths) == ([7, 8], None)
    assert batch.__key__ == ["0", "1"]


def test_crude_samples_build_typed_batch() -> None:
    crude = [CrudeSample({"__key__": "1", "image": torch.zeros(1), "tokens": 3})]

    assert TokenBatch.from_samples(crude).tokens == [3]


def test_missing_field_of_samples_is_reported() -> None:
    with pytest.raises(LoaderError, match="some samples of the batch have 'tokens' and others do not") as caught:
        TokenBatch.from_samples(captions())

    assert caught.value.code == "WDS506"


def test_derived_batch_keeps_base_fields() -> None:
    base = batch_type_of(CaptioningSample).from_samples(captions())

    derived = TokenBatch.derive_from(base, image=torch.zeros(1), tokens=[1])

    assert (derived.__key__, derived.__sources__, derived.tokens) == (base.__key__, base.__sources__, [1])


def test_batch_type_of_returns_one_named_class_per_sample_type() -> None:
    batch_class = batch_type_of(OCRSample)

    assert batch_class is batch_type_of(OCRSample)
    assert (batch_class.__name__, issubclass(batch_class, Batch)) == ("OCRBatch", True)
    assert batch_class is not batch_type_of(ImageSample)


def test_generated_batch_can_be_pickled_and_copied() -> None:
    batch = batch_type_of(CaptioningSample).from_samples(captions())

    for other in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):  # noqa: S301 - our own
        assert type(other) is type(batch)
        assert torch.equal(other["image"], batch["image"])
        assert (other.__key__, other.__sources__, other["caption"]) == (
            batch.__key__,
            batch.__sources__,
            batch["caption"],
        )


def test_crude_batch_is_dict_with_attributes() -> None:
    batch = CrudeBatch(jpg=torch.zeros(1), __key__=["1"])
    batch.txt = ["a"]

    assert (batch["txt"], batch.__key__) == (["a"], ["1"])
    assert list(batch) == ["jpg", "__key__", "txt"]
    with pytest.raises(AttributeError, match="the batch has no field 'png'"):
        batch.png  # noqa: B018 - reading it is the test
    assert pickle.loads(pickle.dumps(batch)).txt == ["a"]  # noqa: S301 - our own
    assert type(copy.deepcopy(batch)) is CrudeBatch
