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


CAPTION = CaptioningSample(__key__="1", image=b"i", caption="a cat")
CRUDE = CrudeSample({"__key__": "1", "image": b"i", "caption": "a cat", "json": {}})


@pytest.mark.parametrize("value", [CAPTION, CRUDE, Pair(b"i", "a cat"), Plain(b"i", "a cat")])
@pytest.mark.parametrize("target", [Pair, Plain])
def test_fields_go_by_name_from_any_structure_to_any(value: object, target: type[Any]) -> None:
    assert convert_to_type(value, target) == target(b"i", "a cat")


def test_a_dict_gets_all_fields() -> None:
    assert convert_to_type(CAPTION, dict) == {
        "__key__": "1",
        "__restore_key__": (),
        "__subflavors__": None,
        "__sources__": None,
        "image": b"i",
        "caption": "a cat",
        "captions": None,
    }


def test_what_is_that_type_already_is_left_alone() -> None:
    assert convert_to_type(CAPTION, CaptioningSample) is CAPTION
    assert convert_to_type(CRUDE, dict) is CRUDE
    assert convert_to_type(CAPTION, None) is CAPTION


def test_a_default_fills_what_is_not_there() -> None:
    assert convert_to_type({"image": 1}, Pair) == Pair(1, "none")


def test_a_field_that_is_needed_and_not_there_is_named() -> None:
    with pytest.raises(LoaderError, match="Plain needs a field 'caption', which dict does not have") as raised:
        convert_to_type({"image": 1}, Plain)

    assert "image" in raised.value.hint


def test_what_has_no_fields_cannot_be_converted() -> None:
    with pytest.raises(LoaderError, match="cannot convert int to Pair"):
        convert_to_type(3, Pair)
    with pytest.raises(LoaderError, match="cannot convert samples to set"):
        convert_to_type(CAPTION, set)


@edataclass
class Captions(Batch):
    image: torch.Tensor
    caption: list[str]


class FromItself:
    def __init__(self, n: int) -> None:
        self.n = n

    @classmethod
    def from_samples(cls, samples: Sequence[Any]) -> FromItself:
        return cls(len(samples))


def test_a_batch_is_made_in_the_type_that_is_asked_for() -> None:
    samples = [CaptioningSample(__key__=f"{i}", image=torch.ones(1), caption="a cat") for i in range(2)]

    assert batch_to_type(samples, Captions).image.shape == (2, 1)
    assert batch_to_type(samples, Pair).image.shape == (2, 1)
    assert batch_to_type(samples, FromItself).n == 2
    assert batch_to_type(samples, None)["caption"] == ["a cat", "a cat"]
    assert type(batch_to_type(samples, dict)) is dict
    assert type(batch_to_type([CRUDE], dict)) is CrudeBatch
