"""The default merge of samples into a pack."""

from __future__ import annotations

import pytest
import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batching.collate import generic_batch
from wdsctl.loader.packing import merge
from wdsctl.loader.packing.merging import MeasuredSamples
from wdsctl.loader.samples import CrudeSample, Sample, SourceInfo, edataclass


@edataclass
class Text(Sample):
    tokens: torch.Tensor
    states: torch.Tensor
    image: torch.Tensor
    text: str


def a_text(key: str, length: int, **labels: str) -> Text:
    source = SourceInfo(dataset_path="d", index=length, shard_name="s", file_names=())
    return Text(
        __key__=key,
        __restore_key__=(0, 0, length),
        __subflavors__=labels or None,
        __sources__=(source,),
        tokens=torch.arange(length),
        states=torch.ones(length, 2),
        image=torch.zeros(3, 4, 4),
        text=key * 2,
    )


def test_merge_concatenates_tensors_of_length_and_lists_others() -> None:
    pack = merge([a_text("a", 2), a_text("b", 3)])

    assert pack["tokens"].tolist() == [0, 1, 0, 1, 2]
    assert pack["states"].shape == (5, 2)
    assert [image.shape for image in pack["image"]] == [(3, 4, 4)] * 2
    assert pack["text"] == ["aa", "bb"]


def test_cu_lengths_are_sample_boundaries() -> None:
    pack = merge([a_text("a", 2), a_text("b", 3), a_text("c", 1)])

    assert pack["cu_lengths"].dtype == torch.int32
    assert pack["cu_lengths"].tolist() == [0, 2, 5, 6]


def test_merge_combines_base_fields_of_samples() -> None:
    pack = merge([a_text("a", 2, lang="de", kind="x"), a_text("b", 3, lang="de", kind="y")])

    assert pack["__key__"] == "a,b"
    assert pack["__restore_key__"] == ((0, 0, 2), (0, 0, 3))
    assert pack["__subflavors__"] == {"lang": "de"}
    assert [source.index for source in pack["__sources__"]] == [2, 3]


def test_planned_lengths_select_fields_to_concatenate() -> None:
    samples = MeasuredSamples([{"image": torch.zeros(3, 4), "tokens": torch.arange(n)} for n in (2, 5)])
    samples.lengths = [2, 5]

    pack = merge(samples)

    assert pack["cu_lengths"].tolist() == [0, 2, 7]
    assert isinstance(pack["image"], list)


def test_merge_of_bare_tensors_has_values_field() -> None:
    pack = merge([torch.arange(2), torch.arange(3)])

    assert (pack["values"].tolist(), pack["cu_lengths"].tolist()) == ([0, 1, 0, 1, 2], [0, 2, 5])


def test_generic_batch_pads_merged_packs() -> None:
    batch = generic_batch([merge([a_text("a", 2)]), merge([a_text("b", 1), a_text("c", 2)])])

    assert batch.tokens.shape == (2, 3)
    assert batch.cu_lengths.tolist() == [[0, 2, 0], [0, 1, 3]]


def test_merge_refuses_planned_lengths_without_matching_tensor() -> None:
    samples = MeasuredSamples([a_text("a", 2), a_text("b", 3)])
    samples.lengths = [2, 4]

    with pytest.raises(LoaderError, match="the lengths are 2, 4") as raised:
        merge(samples)
    assert raised.value.code == "WDS506"
    assert raised.value.where == "samples a, b"


@pytest.mark.parametrize(
    "samples", [[], ["text"], [{"a": torch.ones(1)}, {"b": torch.ones(1)}], [CrudeSample(text="abc")]]
)
def test_merge_refuses_unmergeable_samples(samples: list[object]) -> None:
    with pytest.raises(LoaderError) as raised:
        merge(samples)
    assert raised.value.code == "WDS506"
