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
def test_collate_field_lists_values_without_tensors(values: list[Any]) -> None:
    column = collate_field(values)

    assert type(column) is list
    assert all(actual is value for actual, value in zip(column, values, strict=True))


class Tokens(NamedTuple):
    ids: torch.Tensor
    text: str


def test_collate_field_batches_fields_of_structures_with_tensors() -> None:
    values = [{"tokens": Tokens(torch.ones(n), "x" * n), "n": n} for n in (1, 2)]

    batch = collate_field(values)

    assert batch["n"] == [1, 2]
    assert batch["tokens"].ids.tolist() == [[1, 0], [1, 1]]
    assert batch["tokens"].text == ["x", "xx"]
    assert isinstance(batch["tokens"], Tokens)


def test_collate_field_refuses_structures_with_different_fields() -> None:
    values = [{"a": torch.zeros(1)}, {"a": torch.zeros(1), "b": 1}]

    with pytest.raises(LoaderError, match=r"some samples of the batch have 'meta\.b'") as raised:
        collate_field(values, field="meta")

    assert raised.value.code == "WDS506"


@pytest.mark.parametrize(("other", "name"), [(None, "None"), (3, "of type int")])
def test_collate_field_refuses_tensors_mixed_with_other_types(other: object, name: str) -> None:
    with pytest.raises(LoaderError, match=f"field 'image' is a tensor in some samples and {name} in others") as raised:
        collate_field([torch.zeros(1), other], field="image")

    assert raised.value.code == "WDS506"


def test_collate_field_stacks_parameters_like_tensors() -> None:
    values = [torch.zeros(2), torch.nn.Parameter(torch.ones(2), requires_grad=False)]

    assert collate_field(values).tolist() == [[0, 0], [1, 1]]


def test_gather_field_skips_samples_without_field() -> None:
    captions = [CaptioningSample(__key__="1", image=b"", caption=text) for text in "ab"]

    assert gather_field(captions, "caption") == ["a", "b"]
    assert gather_field(captions, "text") == []
    assert gather_field([{"txt": "a"}, {}, {"txt": "b"}], "txt") == ["a", "b"]
