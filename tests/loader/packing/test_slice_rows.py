"""slice_rows slices every field that is as long as the sample, and keeps the others whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from wdsctl.core.errors import SampleFailed
from wdsctl.loader.packing import slice_rows
from wdsctl.loader.samples import CrudeSample, Sample, edataclass


@edataclass
class Tokens(Sample):
    tokens: torch.Tensor
    mask: list[int]
    text: str


class Pair(NamedTuple):
    x: Any
    y: Any


def test_slice_rows_slices_tensors_arrays_lists_and_tuples() -> None:
    sample = CrudeSample(
        tensor=torch.arange(12).reshape(6, 2), array=np.arange(6), list=list("abcdef"), tuple=tuple(range(6)), n=6
    )

    piece = slice_rows(sample, 2, 4, 6)

    assert type(piece) is CrudeSample
    assert piece["tensor"].tolist() == [[4, 5], [6, 7]]
    assert piece["array"].tolist() == [2, 3]
    assert (piece["list"], piece["tuple"], piece["n"]) == (["c", "d"], (2, 3), 6)
    assert len(sample["list"]) == 6


def test_slice_rows_keeps_strings_other_lengths_and_base_fields() -> None:
    sample = Tokens(__key__="a", __restore_key__=(0, 0, 7), tokens=torch.arange(3), mask=[1, 2], text="abc")

    piece = slice_rows(sample, 0, 1, 3)

    assert type(piece) is Tokens
    assert piece.tokens.tolist() == [0]
    assert (piece.__restore_key__, piece.mask, piece.text) == ((0, 0, 7), [1, 2], "abc")


def test_slice_rows_slices_bare_values_and_named_tuples() -> None:
    assert slice_rows(torch.arange(5), 3, 5, 5).tolist() == [3, 4]
    assert slice_rows([1, 2, 3], 0, 2, 3) == [1, 2]
    assert slice_rows(Pair([1, 2, 3], "xyz"), 1, 3, 3) == Pair([2, 3], "xyz")


@pytest.mark.parametrize("value", [{"text": "abc"}, torch.arange(4), {"n": torch.tensor(3)}, "abc"])
def test_slice_rows_refuses_sample_without_field_of_length(value: Any) -> None:
    with pytest.raises(SampleFailed, match="first dimension of 3"):
        slice_rows(value, 0, 2, 3)
