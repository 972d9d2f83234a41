"""Components of a blend whose samples cannot be batched together cause an error that names both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Parts, Raw, a_dataset, numbered
from tests.loader.running import make_training_loader, take_batches
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
    """Only a batch shows what its hook returns."""

    def encode_sample(self, sample: Any) -> Any:
        return sample


class Tensors(Raw):
    """Returns tensors of another dtype for the second source."""

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
def test_crude_sources_with_unlike_parts_are_rejected_before_first_batch(
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
def test_unlike_hook_outputs_are_rejected_at_first_mixed_batch(folder: Path, workers: int) -> None:
    blend = blend_of(folder, "json", "cls")
    loader = make_training_loader(
        blend, encoder=Hooked(), batch_size=8, worker_config=WorkerConfig(num_workers=workers)
    )

    with pytest.raises(IncompatibleSourcesError) as raised:
        take_batches(loader, 1)

    check_names(raised.value, folder)
    assert loader.stats.batches == 0


def test_tensors_of_unlike_dtype_are_reported_by_field(folder: Path) -> None:
    with pytest.raises(
        IncompatibleSourcesError, match=r"field 'x' is .*int64 in the first and .*float32 in the second"
    ):
        take_batches(make_training_loader(blend_of(folder, "json", "cls"), encoder=Tensors(), batch_size=8), 1)


def test_batches_of_two_samples_reveal_unlike_sources_after_two_failures(folder: Path) -> None:
    loader = make_training_loader(blend_of(folder, "json", "cls"), encoder=Hooked(), batch_size=2)

    with pytest.raises(IncompatibleSourcesError):
        take_batches(loader, 40)

    assert loader.stats.failed <= 1


def test_odd_sample_of_a_source_loses_only_its_batch(folder: Path) -> None:
    loader = make_training_loader(blend_of(folder, "json", "mostly"), batch_size=4, encoder=Hooked())

    batches = take_batches(loader, 200)

    assert {key[0] for batch in batches for key in batch["__restore_key__"]} == {0, 1}
    assert loader.stats.failed > 0
    assert loader.stats.samples == sum(len(batch["__key__"]) for batch in batches)


def test_unlike_sources_can_be_grouped_into_separate_batches(folder: Path) -> None:
    class Apart(Raw):
        def batch_group_criterion(self, sample: Any) -> tuple[Any, int | None]:
            return sample["__restore_key__"][0], None

    batches = take_batches(make_training_loader(blend_of(folder, "json", "cls"), encoder=Apart(), batch_size=4), 20)

    assert {len({key[0] for key in batch["__restore_key__"]}) for batch in batches} == {1}
    assert {batch["__restore_key__"][0][0] for batch in batches} == {0, 1}


def test_unlike_sources_are_accepted_with_single_sample_batches(folder: Path) -> None:
    for size in (None, 1):
        assert len(take_batches(make_training_loader(blend_of(folder, "json", "cls"), batch_size=size), 20)) == 20


def test_validation_rejects_batch_that_spans_unlike_sources(folder: Path) -> None:
    def val_loader(names: tuple[str, str]) -> Loader:
        return get_loader(
            get_val_dataset(blend_of(folder, *names), batch_size=16, split_part="train", task_encoder=Raw())
        )

    with pytest.raises(IncompatibleSourcesError) as raised:
        list(val_loader(("json", "cls")))

    check_names(raised.value, folder)
    assert len(list(val_loader(("json", "json")))) == 25


def test_sources_batched_together_reset_count_of_failed_batches() -> None:
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
