"""Buckets give every sample its bucket and each bucket its size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.packing import Buckets
from wdsctl.loader.samples import SourceInfo


def tokens(length: int) -> dict[str, Any]:
    return {"__key__": "k", "image": torch.zeros(3, 8, 8), "tokens": torch.zeros(length)}


def test_a_sample_belongs_to_the_first_edge_that_is_not_below_it() -> None:
    group = Buckets(edges=[16, 64]).criterion()

    assert [group(tokens(n))[0] for n in (0, 16, 17, 64, 65)] == [16, 16, 64, 64, "above"]


def test_a_token_budget_gives_short_buckets_larger_batches() -> None:
    group = Buckets(edges=[16, 64, 600], max_tokens=512).criterion()

    assert [group(tokens(n)) for n in (1, 60, 500, 601)] == [(16, 32), (64, 8), (600, 1), ("above", 1)]


def test_sizes_are_by_edge_and_others_have_the_batch_size_of_the_dataset() -> None:
    group = Buckets(edges=[16, 64], sizes={16: 8, "above": 2}).criterion()

    assert [group(tokens(n)) for n in (1, 60, 500)] == [(16, 8), (64, None), ("above", 2)]


def test_the_length_is_that_of_the_first_field_of_one_dimension_or_else_of_text() -> None:
    group = Buckets(edges=[4, 8]).criterion()

    assert group({"text": "abcdefg", "tokens": np.zeros(3)})[0] == 4
    assert group({"text": "abcdefg"})[0] == 8
    assert group(torch.zeros(9))[0] == "above"


def test_images_go_by_width_over_height() -> None:
    group = Buckets(of="aspect_ratio", edges=[0.75, 1.5]).criterion()

    assert [group({"image": torch.zeros(3, *size)})[0] for size in ((20, 10), (10, 10), (10, 20))] == [
        0.75,
        1.5,
        "above",
    ]


def test_a_function_may_give_a_number_or_a_size() -> None:
    by_size = Buckets(of=lambda sample: sample["size"], edges=[1, 2]).criterion()

    assert [by_size({"size": size})[0] for size in ((640, 480), 0.5)] == [2, 1]


def test_a_column_is_looked_up_where_the_sample_came_from() -> None:
    buckets = Buckets(of="tokens", edges=[10, 20])
    group = buckets.criterion(lambda number, name: {(3, "tokens"): np.array([5, 15])}[number, name])
    source = SourceInfo(dataset_path="d", index=1, shard_name="s", file_names=())

    assert buckets.column == "tokens"
    assert group({"__restore_key__": (3, 0, 99), "__sources__": (source,)})[0] == 20
    with pytest.raises(SampleFailed, match="its __restore_key__ or __sources__ is missing"):
        group({"__restore_key__": ("pack", 0), "__sources__": (source,)})
    with pytest.raises(UsageError, match="columns are not available"):
        buckets.criterion()


@pytest.mark.parametrize("of", ["length", "aspect_ratio"])
def test_a_sample_without_what_is_measured_fails(of: str) -> None:
    with pytest.raises(SampleFailed):
        Buckets(of=of, edges=[1]).criterion()({"n": 1})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"edges": []}, "edges"),
        ({"edges": [2, 1]}, "bucket edges must ascend"),
        ({"edges": [0, 1]}, "edges"),
        ({"edges": [1], "sizes": {2: 1}}, "which is not an edge"),
        ({"edges": [1], "sizes": {1: 0}}, "is 0"),
        ({"edges": [1], "max_tokens": 0}, "max_tokens is 0"),
        ({"edges": [1], "max_tokens": 5, "sizes": {1: 1}}, "sizes and max_tokens"),
        ({"edges": [1], "of": 3}, "Buckets: of=3 is not supported"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Buckets(**given)


def test_the_recipe_is_json() -> None:
    assert Buckets(edges=[16], sizes={16: 4}).config() == {
        "of": "length",
        "edges": [16],
        "sizes": {"16": 4},
        "max_tokens": None,
    }
