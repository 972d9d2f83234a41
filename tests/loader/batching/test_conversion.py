from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batching.batch import Batch, CrudeBatch
from wdsctl.loader.batching.collate import batch_to_type, convert_to_type
from wdsctl.loader.samples import CrudeSample, edataclass
from wdsctl.loader.samples.types import CaptioningSample


class Pair(NamedTuple):
    image: Any
    caption: Any = "none"


@dataclasses.dataclass
class Plain:
    image: Any
    caption: Any


@dataclasses.dataclass
class Tagged:
    image: Any
    tags: list[str] = dataclasses.field(default_factory=list)


CAPTION = CaptioningSample(__key__="1", image=b"i", caption="a cat")
CRUDE = CrudeSample({"__key__": "1", "image": b"i", "caption": "a cat", "json": {}})


@pytest.mark.parametrize("value", [CAPTION, CRUDE, Pair(b"i", "a cat"), Plain(b"i", "a cat")])
@pytest.mark.parametrize("target", [Pair, Plain])
def test_convert_to_type_matches_fields_by_name(value: object, target: type[Any]) -> None:
    assert convert_to_type(value, target) == target(b"i", "a cat")


def test_convert_to_type_copies_all_fields_to_dict() -> None:
    assert convert_to_type(CAPTION, dict) == {
        "__key__": "1",
        "__restore_key__": (),
        "__subflavors__": None,
        "__sources__": None,
        "image": b"i",
        "caption": "a cat",
        "captions": None,
    }


def test_convert_to_type_returns_same_object_for_same_type() -> None:
    assert convert_to_type(CAPTION, CaptioningSample) is CAPTION
    assert convert_to_type(CRUDE, dict) is CRUDE
    assert convert_to_type(CAPTION, None) is CAPTION


def test_convert_to_type_fills_missing_field_with_default() -> None:
    assert convert_to_type({"image": 1}, Pair) == Pair(1, "none")


def test_convert_to_type_fills_missing_field_by_its_factory() -> None:
    assert convert_to_type({"image": 1}, Tagged) == Tagged(1, [])


def test_convert_to_type_error_names_missing_field() -> None:
    with pytest.raises(LoaderError, match="Plain needs a field 'caption', which dict does not have") as raised:
        convert_to_type({"image": 1}, Plain)

    assert "image" in raised.value.hint


def test_convert_to_type_refuses_types_without_fields() -> None:
    with pytest.raises(LoaderError, match="cannot convert int to Pair"):
        convert_to_type(3, Pair)
    with pytest.raises(LoaderError, match="cannot convert samples to set"):
        convert_to_type(CAPTION, set)


@edataclass
class Captions(Batch):
    image: torch.Tensor
    caption: list[str]


class SampleCount:
    def __init__(self, n: int) -> None:
        self.n = n

    @classmethod
    def from_samples(cls, samples: Sequence[Any]) -> SampleCount:
        return cls(len(samples))


def test_batch_to_type_builds_requested_type() -> None:
    samples = [CaptioningSample(__key__=f"{i}", image=torch.ones(1), caption="a cat") for i in range(2)]

    assert batch_to_type(samples, Captions).image.shape == (2, 1)
    assert batch_to_type(samples, Pair).image.shape == (2, 1)
    assert batch_to_type(samples, SampleCount).n == 2
    assert batch_to_type(samples, None)["caption"] == ["a cat", "a cat"]
    assert type(batch_to_type(samples, dict)) is dict
    assert type(batch_to_type([CRUDE], dict)) is CrudeBatch
