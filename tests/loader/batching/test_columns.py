from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batching.columns import collate_field, gather_field
from wdsctl.loader.samples.types import CaptioningSample


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        ["a", "b"],
        [b"a", None],
        [1, "mixed"],
        [np.zeros(2), np.zeros(2)],
        [{"json": 1}, {"other": 2}],
        [[torch.zeros(1)], [torch.zeros(2)]],
        [(1, 2), (3, 4)],
    ],
)
def test_what_is_no_tensor_is_listed(values: list[Any]) -> None:
    listed = collate_field(values)

    assert type(listed) is list
    assert all(got is given for got, given in zip(listed, values, strict=True))


class Tokens(NamedTuple):
    ids: torch.Tensor
    text: str


def test_a_structure_that_holds_tensors_stays_what_it_is_with_its_fields_batched() -> None:
    values = [{"tokens": Tokens(torch.ones(n), "x" * n), "n": n} for n in (1, 2)]

    batch = collate_field(values)

    assert batch["n"] == [1, 2]
    assert batch["tokens"].ids.tolist() == [[1, 0], [1, 1]]
    assert batch["tokens"].text == ["x", "xx"]
    assert isinstance(batch["tokens"], Tokens)


def test_structures_with_tensors_and_unlike_fields_are_refused_with_the_path() -> None:
    values = [{"a": torch.zeros(1)}, {"a": torch.zeros(1), "b": 1}]

    with pytest.raises(LoaderError, match=r"some samples of the batch have 'meta\.b'") as raised:
        collate_field(values, field="meta")

    assert raised.value.code == "WDS506"


@pytest.mark.parametrize(("other", "name"), [(None, "None"), (3, "of type int")])
def test_tensors_beside_other_things_are_refused(other: object, name: str) -> None:
    with pytest.raises(LoaderError, match=f"field 'image' is a tensor in some samples and {name} in others") as raised:
        collate_field([torch.zeros(1), other], field="image")

    assert raised.value.code == "WDS506"


def test_parameters_are_tensors() -> None:
    values = [torch.zeros(2), torch.nn.Parameter(torch.ones(2), requires_grad=False)]

    assert collate_field(values).tolist() == [[0, 0], [1, 1]]


def test_a_field_is_gathered_of_those_samples_that_have_it() -> None:
    captions = [CaptioningSample(__key__="1", image=b"", caption=text) for text in "ab"]

    assert gather_field(captions, "caption") == ["a", "b"]
    assert gather_field(captions, "text") == []
    assert gather_field([{"txt": "a"}, {}, {"txt": "b"}], "txt") == ["a", "b"]
