"""Buckets assigns samples to buckets and sizes to buckets."""

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


def test_bucket_is_first_edge_not_below_length() -> None:
    group = Buckets(edges=[16, 64]).criterion()

    assert [group(tokens(n))[0] for n in (0, 16, 17, 64, 65)] == [16, 16, 64, 64, "above"]


def test_max_tokens_gives_short_buckets_larger_batches() -> None:
    group = Buckets(edges=[16, 64, 600], max_tokens=512).criterion()

    assert [group(tokens(n)) for n in (1, 60, 500, 601)] == [(16, 32), (64, 8), (600, 1), ("above", 1)]


def test_sizes_set_batch_size_per_edge_with_dataset_default() -> None:
    group = Buckets(edges=[16, 64], sizes={16: 8, "above": 2}).criterion()

    assert [group(tokens(n)) for n in (1, 60, 500)] == [(16, 8), (64, None), ("above", 2)]


def test_length_is_first_1d_field_or_else_text() -> None:
    group = Buckets(edges=[4, 8]).criterion()

    assert group({"text": "abcdefg", "tokens": np.zeros(3)})[0] == 4
    assert group({"text": "abcdefg"})[0] == 8
    assert group(torch.zeros(9))[0] == "above"


def test_aspect_ratio_is_width_over_height() -> None:
    group = Buckets(of="aspect_ratio", edges=[0.75, 1.5]).criterion()

    assert [group({"image": torch.zeros(3, *size)})[0] for size in ((20, 10), (10, 10), (10, 20))] == [
        0.75,
        1.5,
        "above",
    ]


def test_measure_function_returns_number_or_size() -> None:
    by_size = Buckets(of=lambda sample: sample["size"], edges=[1, 2]).criterion()

    assert [by_size({"size": size})[0] for size in ((640, 480), 0.5)] == [2, 1]


def test_column_is_looked_up_by_restore_key_of_sample() -> None:
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
def test_sample_without_measured_field_fails(of: str) -> None:
    with pytest.raises(SampleFailed):
        Buckets(of=of, edges=[1]).criterion()({"n": 1})


@pytest.mark.parametrize(
    ("options", "message"),
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
def test_buckets_refuses_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Buckets(**options)


def test_buckets_config_is_json() -> None:
    assert Buckets(edges=[16], sizes={16: 4}).config() == {
        "of": "length",
        "edges": [16],
        "sizes": {"16": 4},
        "max_tokens": None,
    }
