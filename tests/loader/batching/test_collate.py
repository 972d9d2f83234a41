from __future__ import annotations

import dataclasses
from typing import NamedTuple

import pytest
import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batching.batch import CrudeBatch, batch_type_of
from wdsctl.loader.batching.collate import batch_list, batch_pad_stack, batch_stack, generic_batch
from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.samples import CrudeSample
from wdsctl.loader.samples.types import CaptioningSample, TextSample


def a_caption(key: str, image: object) -> CaptioningSample:
    return CaptioningSample(__key__=key, image=image, caption=f"cat {key}")


def test_generic_batch_of_typed_samples_has_their_batch_type() -> None:
    batch = generic_batch([a_caption("1", torch.ones(1)), a_caption("2", torch.ones(2))])

    assert type(batch) is batch_type_of(CaptioningSample)
    assert batch["image"].tolist() == [[1, 0], [1, 1]]
    assert batch["caption"] == ["cat 1", "cat 2"]


def test_generic_batch_lists_raw_bytes() -> None:
    assert generic_batch([a_caption("1", b"jpeg")]).image == [b"jpeg"]


def test_generic_batch_of_crude_samples_is_crude_batch() -> None:
    samples = [CrudeSample({"__key__": f"{i}", "jpg": torch.ones(1), "txt": "a"}) for i in range(2)]

    batch = generic_batch(samples)

    assert type(batch) is CrudeBatch
    assert (batch.__key__, batch.txt, batch.jpg.shape) == (["0", "1"], ["a", "a"], (2, 1))


def test_generic_batch_accepts_dicts_without_sample_keys() -> None:
    assert generic_batch([{"a": 1}, {"a": 2}]) == {"a": [1, 2]}


def test_generic_batch_refuses_crude_samples_with_different_parts() -> None:
    samples = [CrudeSample({"__key__": "1", "jpg": b""}), CrudeSample({"__key__": "2", "jpg": b"", "txt": ""})]

    with pytest.raises(LoaderError, match="some samples of the batch have 'txt' and others do not") as raised:
        generic_batch(samples)

    assert raised.value.code == "WDS506"


class Pair(NamedTuple):
    x: torch.Tensor
    y: int


@dataclasses.dataclass
class Plain:
    x: torch.Tensor
    y: int


@pytest.mark.parametrize("kind", [Pair, Plain])
def test_generic_batch_keeps_namedtuple_and_dataclass_types(kind: type[Pair | Plain]) -> None:
    batch = generic_batch([kind(torch.ones(1), 1), kind(torch.ones(1), 2)])

    assert batch.x.shape == (2, 1)
    assert batch.y == [1, 2]
    assert type(batch) is kind


def test_generic_batch_of_bare_values_is_tensor_or_list() -> None:
    assert generic_batch([torch.ones(1), torch.ones(1)]).shape == (2, 1)
    assert generic_batch([1, 2]) == [1, 2]


def test_generic_batch_refuses_samples_of_different_types() -> None:
    with pytest.raises(
        LoaderError, match="cannot batch samples of different types: CaptioningSample, TextSample"
    ) as raised:
        generic_batch([a_caption("1", b""), TextSample(__key__="2", text="")])

    assert raised.value.code == "WDS506"


def test_generic_batch_error_names_field_of_unstackable_tensors() -> None:
    with pytest.raises(LoaderError, match="the tensors of field 'image' have different dtypes") as raised:
        generic_batch([a_caption("1", torch.ones(1)), a_caption("2", torch.ones(1, dtype=torch.int8))])

    assert (raised.value.code, raised.value.where) == ("WDS506", "field 'image'")


def test_generic_batch_refuses_zero_samples() -> None:
    with pytest.raises(LoaderError, match="cannot batch zero samples"):
        generic_batch([])


@pytest.mark.parametrize("crude", [False, True])
def test_generic_batch_reuses_batch_memory_without_copy(crude: bool) -> None:
    memory = BatchMemory(torch.uint8)
    for _ in range(2):
        memory.begin(2)
        images = [memory.take((4, 6, 3))[1] for _ in range(2)]
    samples = [{"image": image} if crude else a_caption("1", image) for image in images]

    assert generic_batch(samples, memories=[memory])["image"].data_ptr() == images[0].data_ptr()


def test_batch_helpers_stack_pad_and_list() -> None:
    short, long = torch.ones(1), torch.ones(2)

    assert batch_stack([long, long]).shape == (2, 2)
    assert batch_pad_stack([short, long]).tolist() == [[1, 0], [1, 1]]
    assert batch_list((short, long)) == [short, long]
    with pytest.raises(LoaderError, match=r"cannot stack tensors of 2 shapes: \(1,\), \(2,\)"):
        batch_stack([short, long])
