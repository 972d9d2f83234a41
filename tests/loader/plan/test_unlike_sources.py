"""Sources of a blend that make no batch together are an error that names both, and not batches that are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Parts, Raw, a_dataset, numbered
from tests.loader.running import taken, training_of
from wdsctl.core.blend import Blender
from wdsctl.core.errors import LoaderError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.plan.incompatible_sources import (
    IncompatibleSourcesError,
    SourceCheckingBatcher,
    assume_not_incompatible,
)


def classes(i: int) -> Parts:
    return {"txt": b"x", "cls": b"%d" % i}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    a_dataset(folder / "json", 200, parts=numbered)
    a_dataset(folder / "cls", 200, parts=classes)
    a_dataset(folder / "mostly", 200, parts=lambda i: classes(i) if i % 50 == 7 else numbered(i))
    return folder


def blend_of(folder: Path, *names: str, weights: tuple[int, ...] = (1, 1)) -> Blender:
    return Blender([({"path": str(folder / name)}, weight) for name, weight in zip(names, weights, strict=True)])


class Hooked(Raw):
    """Nobody knows before a batch what comes of samples."""

    def encode_sample(self, sample: Any) -> Any:
        return sample


class Tensors(Raw):
    """Of the second source, tensors of another dtype."""

    def encode_sample(self, sample: Any) -> Any:
        dtype = torch.float32 if sample["__restore_key__"][0] else torch.int64
        return {name: sample[name] for name in sample if name.startswith("__")} | {"x": torch.zeros(2, dtype=dtype)}


def check_names(error: LoaderError, folder: Path) -> None:
    assert error.code == "WDS526"
    assert str(folder / "json") in error.message
    assert str(folder / "cls") in error.message
    for hook in ("encode_sample", "batch_group_criterion", "cooker"):
        assert hook in error.hint


@pytest.mark.parametrize("weights", [(1, 1), (100, 1), (1, 100)])
@pytest.mark.parametrize("workers", [0, 2])
def test_crude_sources_of_unlike_parts_are_refused_before_the_first_batch(
    folder: Path, weights: tuple[int, int], workers: int
) -> None:
    dataset = get_train_dataset(
        blend_of(folder, "json", "cls", weights=weights), batch_size=8, worker_config=WorkerConfig(num_workers=workers)
    )

    with pytest.raises(IncompatibleSourcesError) as raised:
        next(iter(get_loader(dataset)))

    check_names(raised.value, folder)
    assert "only the first has 'json', and only the second has 'cls'" in raised.value.message


@pytest.mark.parametrize("workers", [0, 2])
def test_what_hooks_make_of_unlike_sources_is_refused_at_the_first_batch_of_both(folder: Path, workers: int) -> None:
    blend = blend_of(folder, "json", "cls")
    loader = training_of(blend, encoder=Hooked(), batch_size=8, worker_config=WorkerConfig(num_workers=workers))

    with pytest.raises(IncompatibleSourcesError) as raised:
        taken(loader, 1)

    check_names(raised.value, folder)
    assert loader.stats.batches == 0


def test_tensors_that_do_not_stack_across_sources_are_told_by_field(folder: Path) -> None:
    with pytest.raises(
        IncompatibleSourcesError, match=r"field 'x' is .*int64 in the first and .*float32 in the second"
    ):
        taken(training_of(blend_of(folder, "json", "cls"), encoder=Tensors(), batch_size=8), 1)


def test_batches_of_single_samples_of_each_source_tell_it_after_two(folder: Path) -> None:
    loader = training_of(blend_of(folder, "json", "cls"), encoder=Hooked(), batch_size=2)

    with pytest.raises(IncompatibleSourcesError):
        taken(loader, 40)

    assert loader.stats.failed <= 1


def test_an_odd_sample_of_a_source_loses_its_batch_alone(folder: Path) -> None:
    loader = training_of(blend_of(folder, "json", "mostly"), batch_size=4, encoder=Hooked())

    batches = taken(loader, 200)

    assert {key[0] for batch in batches for key in batch["__restore_key__"]} == {0, 1}
    assert loader.stats.failed > 0
    assert loader.stats.samples == sum(len(batch["__key__"]) for batch in batches)


def test_unlike_sources_may_have_batches_of_their_own(folder: Path) -> None:
    class Apart(Raw):
        def batch_group_criterion(self, sample: Any) -> tuple[Any, int | None]:
            return sample["__restore_key__"][0], None

    batches = taken(training_of(blend_of(folder, "json", "cls"), encoder=Apart(), batch_size=4), 20)

    assert {len({key[0] for key in batch["__restore_key__"]}) for batch in batches} == {1}
    assert {batch["__restore_key__"][0][0] for batch in batches} == {0, 1}


def test_single_samples_of_unlike_sources_come(folder: Path) -> None:
    for size in (None, 1):
        assert len(taken(training_of(blend_of(folder, "json", "cls"), batch_size=size), 20)) == 20


def test_a_validation_refuses_the_batch_that_spans_unlike_sources(folder: Path) -> None:
    def passed(names: tuple[str, str]) -> Loader:
        return get_loader(
            get_val_dataset(blend_of(folder, *names), batch_size=16, split_part="train", task_encoder=Raw())
        )

    with pytest.raises(IncompatibleSourcesError) as raised:
        list(passed(("json", "cls")))

    check_names(raised.value, folder)
    assert len(list(passed(("json", "json")))) == 25


def test_sources_that_went_together_since_are_not_held_apart_by_single_samples() -> None:
    def make(samples: Any) -> int:
        if len({sample["kind"] for sample in samples}) > 1:
            raise ValueError("unlike")
        return len(samples)

    def sample(source: int, number: int, kind: str) -> dict[str, Any]:
        return {"__restore_key__": (source, 0, number), "kind": kind}

    mixed = SourceCheckingBatcher(make, assume_not_incompatible)
    for number in range(5):
        with pytest.raises(ValueError, match="unlike"):
            mixed([sample(0, number, "odd"), sample(1, number, "usual")])
        assert mixed([sample(0, 9, "usual"), sample(1, 9, "usual")]) == 2

    for number in (6, 7, 8):
        with pytest.raises(ValueError, match="unlike"):
            mixed([sample(0, number, "odd"), sample(1, number, "usual")])
    with pytest.raises(IncompatibleSourcesError, match="source 0 and of source 1"):
        mixed([sample(0, 10, "odd"), sample(1, 10, "usual")])
