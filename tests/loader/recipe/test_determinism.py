"""`check_determinism` runs hooks twice and names a hook whose results differ."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.hooked import Draws
from tests.loader.mixed import a_blend, everything
from tests.loader.running import digests, make_training_loader
from wdsctl.core.errors import LoaderError
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.loader import SkipSample, get_loader
from wdsctl.loader.recipe.determinism import with_determinism_check
from wdsctl.loader.runtime.failures import FatalSampleError
from wdsctl.loader.samples.lazy_part import LazyPart


def test_determinism_check_restores_seeded_generators() -> None:
    def noise(sample: Any) -> Any:
        return float(torch.rand(1)), random.random()

    torch.manual_seed(3)
    random.seed(3)
    expected = noise(None)
    torch.manual_seed(3)
    random.seed(3)

    assert with_determinism_check("noise", noise)(None) == expected


def test_determinism_check_reports_hook_with_different_results() -> None:
    numbers = itertools.count()

    with pytest.raises(FatalSampleError, match="encode_sample returned different results") as raised:
        with_determinism_check("encode_sample", lambda _: next(numbers))(None)

    assert raised.value.code == "WDS508"
    assert raised.value.hint


def test_determinism_check_copies_input_that_hook_mutates() -> None:
    def grows(sample: list[int]) -> list[int]:
        sample.append(1)
        return sample

    assert with_determinism_check("grows", grows)([0]) == [0, 1]


def test_determinism_check_rejects_hook_that_skips_sometimes() -> None:
    calls = itertools.count()

    def sometimes(sample: Any) -> Any:
        if next(calls) % 2:
            raise SkipSample
        return sample

    def always(sample: Any) -> Any:
        raise SkipSample

    with pytest.raises(FatalSampleError):
        with_determinism_check("sometimes", sometimes)(1)
    with pytest.raises(SkipSample):
        with_determinism_check("always", always)(1)


def test_determinism_check_compares_all_outputs_of_generator() -> None:
    calls = itertools.count()

    def differs_in_the_end(sample: Any) -> Iterator[Any]:
        yield 1
        yield next(calls)

    def skips_in_the_end(sample: Any) -> Iterator[Any]:
        yield 1
        raise SkipSample

    with pytest.raises(FatalSampleError):
        list(with_determinism_check("differs", differs_in_the_end)(1))
    outputs = with_determinism_check("skips", skips_in_the_end)(1)
    assert next(outputs) == 1
    with pytest.raises(SkipSample):
        next(outputs)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.uint8], ids=str)
def test_determinism_check_compares_tensors_by_value(kind: torch.dtype) -> None:
    calls = itertools.count()

    def same(sample: Any) -> Any:
        return {"tensor": torch.ones(2, 3, dtype=kind), "scalar": torch.ones((), dtype=kind)}

    def other(sample: Any) -> Any:
        return {"tensor": torch.full((2, 3), next(calls), dtype=kind)}

    assert torch.equal(with_determinism_check("same", same)(1)["tensor"], torch.ones(2, 3, dtype=kind))
    with pytest.raises(FatalSampleError):
        with_determinism_check("other", other)(1)


def test_determinism_check_passes_errors_through() -> None:
    def fails(sample: Any) -> Any:
        raise ValueError("no good")

    with pytest.raises(ValueError, match="no good"):
        with_determinism_check("fails", fails)(1)


def test_determinism_check_reports_incomparable_results() -> None:
    with pytest.raises(LoaderError, match="cannot compare"):
        with_determinism_check("makes", lambda sample: lambda: sample)(1)


@pytest.mark.parametrize("encoder", [Draws(), Raw()], ids=["hooks that draw", "no hooks"])
def test_check_determinism_leaves_batches_unchanged(encoder: Raw, tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 40, parts=numbered)
    expected = digests(make_training_loader(path, encoder=encoder, lanes=2), 20)

    assert digests(make_training_loader(path, encoder=encoder, lanes=2, check_determinism=True), 20) == expected


def test_check_determinism_accepts_loader_with_all_features(tmp_path: Path) -> None:
    blend = a_blend(tmp_path)

    assert len(list(islice(get_loader(everything(blend, check_determinism=True)), 20))) == 20


def test_check_determinism_stops_training_at_first_difference(tmp_path: Path) -> None:
    class Counts(Raw):
        calls = 0

        def encode_sample(self, sample: Any) -> Any:
            self.calls += 1
            return {**sample, "call": self.calls}

    path = a_dataset(tmp_path, 40, parts=numbered)
    with pytest.raises(FatalSampleError, match="encode_sample returned different results"):
        next(iter(make_training_loader(path, encoder=Counts(), check_determinism=True)))


def test_check_determinism_compares_groups_of_criterion(tmp_path: Path) -> None:
    calls = itertools.count()

    class Counting(Raw):
        def batch_group_criterion(self, sample: Any) -> tuple[int, None]:
            return next(calls), None

    path = a_dataset(tmp_path, 20, parts=numbered)
    with pytest.raises(FatalSampleError, match="batch_group_criterion returned different results") as raised:
        next(iter(make_training_loader(path, encoder=Counting(), check_determinism=True)))

    assert raised.value.code == "WDS508"


@pytest.mark.parametrize("typed", [False, True], ids=["dicts", "dataclasses"])
def test_check_determinism_compares_memoryviews_like_bytes(typed: bool, tmp_path: Path) -> None:
    class Nested(Raw):
        def encode_sample(self, sample: Any) -> Any:
            if typed:
                return sample
            return {**sample, "parts": [sample["txt"], (sample["json"][1:4],)]}

    options: dict[str, Any] = {"sample_type": "TextSample", "field_map": {"text": "txt"}} if typed else {}
    path = a_dataset(tmp_path, 40, parts=numbered, **options)
    loader = make_training_loader(path, encoder=Nested(), raw="view", check_determinism=True)
    part = "text" if typed else "txt"

    batches = list(islice(loader, 5))

    expected = list(islice(make_training_loader(path, encoder=Nested()), 5))
    assert [[bytes(each) for each in batch[part]] for batch in batches] == [batch[part] for batch in expected]
    assert all(isinstance(each, memoryview) for batch in batches for each in batch[part])
    assert loader.stats.failed == 0


def test_determinism_check_reports_differing_memoryview() -> None:
    texts = itertools.cycle([b"one", b"two"])

    with pytest.raises(FatalSampleError, match="encode_sample returned different results"):
        with_determinism_check("encode_sample", lambda _: memoryview(next(texts)))(None)


def test_determinism_check_does_not_copy_lazy_parts() -> None:
    part = LazyPart("shard.tar", 0, 4, LocalStorage("/"))

    assert with_determinism_check("hook", lambda value: value)({"part": part})["part"] is part
    with pytest.raises(LoaderError, match="cannot copy the input of a hook"):
        with_determinism_check("hook", lambda value: value)({"lock": threading.Lock()})
