"""Which arguments of a recipe are accepted and which are rejected, before any dataset is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.datasets import Raw
from wdsctl.core.errors import UsageError
from wdsctl.loader import get_train_dataset, get_val_dataset
from wdsctl.loader.packing.buckets import Buckets
from wdsctl.loader.packing.options import Packing

pytestmark = pytest.mark.usefixtures("unopened_datasets")


class Selects(Raw):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


class Grouped(Raw):
    def batch_group_criterion(self, sample: Any) -> tuple[int, int | None]:
        return 0, None


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": -1},
        {"batch_size": "32"},
        {"batch_size": 2.5},
        {"shuffle_buffer_size": -1},
        {"max_samples_per_sequence": 0},
        {"parallel_shard_iters": 0},
        {"lanes": 0},
        {"most_waiting": None},
        {"most_waiting": 0},
        {"seed": None},
        {"seed": "x"},
        {"raw": "text"},
    ],
    ids=str,
)
def test_train_dataset_rejects_invalid_numbers_by_option_name(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"{next(iter(options))}(: expected| is )") as raised:
        get_train_dataset("data", **options)

    assert raised.value.hint


def test_trace_keeps_urls_and_makes_paths_absolute(unopened_datasets: Path) -> None:
    def trace_of(trace: str | Path) -> str | None:
        datasets = [make("data", trace=trace) for make in (get_train_dataset, get_val_dataset)]
        assert datasets[0].trace == datasets[1].trace
        return datasets[0].trace

    assert trace_of("s3://bucket/traces") == "s3://bucket/traces"
    assert trace_of("file:///data/traces") == "/data/traces"
    assert trace_of("traces") == trace_of(Path("traces")) == str(unopened_datasets / "traces")
    with pytest.raises(UsageError, match="trace is an empty path"):
        get_train_dataset("data", trace="")


@pytest.mark.parametrize("options", [{"task_encoder": Selects}, {"worker_config": 2}], ids=["class", "number"])
def test_train_dataset_rejects_encoder_class_and_worker_count(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"{next(iter(options))}(: expected| is )") as raised:
        get_train_dataset("data", **options)

    assert raised.value.hint


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"seed": 1.5}], ids=str)
def test_val_dataset_rejects_invalid_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"{next(iter(options))}(: expected| is )"):
        get_val_dataset("data", **options)


def test_train_dataset_accepts_pathlib_paths_and_numpy_numbers() -> None:
    dataset: Any = get_train_dataset(Path("data"), catalog=Path("one/.wdsctl"), seed=np.int64(3), lanes=np.int32(4))  # type: ignore[arg-type]

    assert (dataset.path, dataset.catalog, dataset.seed, dataset.lanes) == ("data", "one/.wdsctl", 3, 4)
    assert type(dataset.seed) is type(dataset.lanes) is int


def test_raw_view_requires_encoder_without_decoder() -> None:
    with pytest.raises(UsageError, match="undecoded parts"):
        get_train_dataset("data", raw="view")

    assert get_train_dataset("data", raw="view", task_encoder=Raw()).raw == "view"


def test_shuffle_multiplier_accepts_numpy_number() -> None:
    dataset: Any = get_train_dataset("data", shuffle_over_epochs_multiplier=np.int64(2))  # type: ignore[arg-type]

    assert type(dataset.shuffle_over_epochs_multiplier) is int


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shuffle_over_epochs_multiplier": 0}, "shuffle_over_epochs_multiplier is 0"),
        ({"shuffle_over_epochs_multiplier": -2}, "shuffle_over_epochs_multiplier is -2"),
        ({"repeat": False, "shuffle_over_epochs_multiplier": -1}, "with replacement"),
        ({"repeat": False, "virtual_epoch_length": 3}, "virtual_epoch_length"),
        ({"adopt": "now"}, "adopt is 'now'"),
        ({"uneven": "often"}, "uneven is 'often'"),
        ({"task_encoder": Raw}, "task_encoder is the class Raw"),
        ({"task_encoder": len}, "task_encoder is a builtin_function_or_method, expected a TaskEncoder"),
    ],
    ids=str,
)
def test_train_dataset_rejects_invalid_choices_and_multipliers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        get_train_dataset("data", **options)

    assert raised.value.hint


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        (Raw(), {"packing_buffer_size": 4}, "overrides select_samples_to_pack"),
        (Selects(), {"packing": Packing(length="n", capacity=3)}, "cannot be combined with select_samples_to_pack"),
        (Grouped(), {"buckets": Buckets(edges=[2])}, "cannot be combined with batch_group_criterion"),
        (Raw(), {"buckets": Buckets(edges=[2], sizes={2: 4}), "batch_size": None}, "no batch size: above"),
    ],
)
def test_train_dataset_rejects_contradictory_hooks_and_options(encoder: Raw, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        get_train_dataset("anywhere", task_encoder=encoder, **options)

    assert raised.value.hint


@pytest.mark.parametrize("ban", ["000003", b"000003", 3])
def test_ban_rejects_single_string_or_number(ban: Any) -> None:
    with pytest.raises(UsageError, match=f"ban is {ban!r}") as raised:
        get_train_dataset("anywhere", batch_size=2, ban=ban)

    assert f"ban=[{ban!r}]" in raised.value.hint


def test_encoder_rejects_encode_sample_with_postencode_sample() -> None:
    class Both(Raw):
        def encode_sample(self, sample: Any) -> Any:
            return sample

        def postencode_sample(self, sample: Any) -> Any:
            return sample

    with pytest.raises(UsageError, match="overrides encode_sample and postencode_sample"):
        get_train_dataset("anywhere", task_encoder=Both())


@pytest.mark.parametrize("get", [get_train_dataset, get_val_dataset])
def test_pack_hooks_without_packing_option_cause_warning(get: Any) -> None:
    with pytest.warns(UserWarning, match="WDS516: samples are not packed") as record:
        get("anywhere", task_encoder=Selects())

    assert record[0].filename == __file__


def test_packing_requires_both_pack_hooks() -> None:
    class Half(Raw):
        def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
            return [samples]

    with pytest.raises(UsageError, match="but not pack_selected_samples"):
        get_train_dataset("anywhere", task_encoder=Half(), packing_buffer_size=4)
