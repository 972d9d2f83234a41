from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from torch import distributed

from wdsctl.core.errors import UsageError
from wdsctl.loader import WorkerConfig
from wdsctl.loader.workers.options import StartMethod


def test_worker_config_accepts_start_methods_of_pool() -> None:
    methods = get_args(StartMethod)

    assert [WorkerConfig(0, 1, start_method=each).start_method for each in methods] == list(methods)
    with pytest.raises(UsageError) as caught:
        WorkerConfig(0, 1, start_method="thread")  # type: ignore[arg-type]
    assert caught.value.hint == f"use one of {', '.join(methods)}"


@pytest.mark.parametrize(("rank", "world"), [(1, 1), (-1, 2), (0, 0)])
def test_worker_config_rejects_rank_outside_world(rank: int, world: int) -> None:
    with pytest.raises(UsageError, match=f"rank {rank} is out of range for world size {world}"):
        WorkerConfig(rank, world)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers is -1"),
        ({"num_workers": 1.5}, "num_workers: expected a whole number, found 1.5"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0"),
        ({"start_method": "thread"}, "start_method is 'thread'"),
        ({"global_error_handler": None}, "global_error_handler is not a function"),
        ({"restore_error_handler": "raise"}, "restore_error_handler is not a function"),
        ({"worker_log_level": -1}, "worker_log_level is -1"),
    ],
)
def test_worker_config_rejects_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        WorkerConfig(**options)

    assert raised.value.hint


def test_worker_config_defaults_missing_rank_or_world_size() -> None:
    assert WorkerConfig(rank=0) == WorkerConfig(world_size=1) == WorkerConfig(0, 1)
    assert WorkerConfig(world_size=2) == WorkerConfig(0, 2)


def test_worker_config_rejects_rank_without_world_size_if_there_are_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("is_initialized", True), ("get_rank", 3), ("get_world_size", 8)):
        monkeypatch.setattr(distributed, name, lambda *_, value=value: value)

    one_given: list[dict[str, Any]] = [{"rank": 3}, {"world_size": 8}]
    for options in one_given:
        with pytest.raises(UsageError, match="only one of rank and world_size is given") as raised:
            WorkerConfig(**options)
        assert raised.value.hint == "pass both, or neither for those of torch.distributed"
    assert WorkerConfig() == WorkerConfig(3, 8)


def test_has_default_rank_survives_pickle() -> None:
    for config, is_default in ((WorkerConfig(num_workers=2), True), (WorkerConfig(0, 1, 2), False)):
        restored = pickle.loads(pickle.dumps(config))  # noqa: S301 - our own

        assert restored == config
        assert config.has_default_rank == restored.has_default_rank == is_default


def test_has_default_rank_survives_replace() -> None:
    for config, is_default in ((WorkerConfig(), True), (WorkerConfig(0, 1), False)):
        assert replace(config, num_workers=2).has_default_rank == is_default
    assert not replace(WorkerConfig(), rank=1, world_size=2).has_default_rank


def test_worker_config_accepts_default_energon_settings() -> None:
    assert WorkerConfig(worker_debug_path=None, worker_log_level=0) == WorkerConfig()


@pytest.mark.parametrize("options", [{"worker_debug_path": "worker_{worker_id}.jsonl"}, {"worker_log_level": 1}])
def test_energon_log_settings_warn_once(options: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="WDS523: .* are not supported") as record:
        config = WorkerConfig(**options)

    assert [warning.filename for warning in record] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert replace(config) == pickle.loads(pickle.dumps(config)) == WorkerConfig()  # noqa: S301 - our own


def test_default_worker_config_has_four_workers() -> None:
    assert WorkerConfig.default_worker_config().num_workers == 4
    assert WorkerConfig().num_workers == 0


def test_worker_config_stores_worker_options() -> None:
    config = WorkerConfig(1, 2, 4, 5, prefetch_factor=3, persistent_workers=False, start_method="spawn")

    assert (config.rank, config.world_size, config.num_workers, config.seed_offset) == (1, 2, 4, 5)
    assert (config.prefetch_factor, config.persistent_workers, config.start_method) == (3, False, "spawn")


def test_worker_config_converts_numpy_numbers() -> None:
    config = WorkerConfig(np.int64(1), np.int32(2), np.int8(0), np.int64(3))  # type: ignore[arg-type]

    assert [type(n) for n in (config.rank, config.world_size, config.num_workers, config.seed_offset)] == [int] * 4


def test_process_group_is_excluded_from_comparison_and_pickle() -> None:
    def group() -> None:
        """A group that can be neither pickled nor compared."""

    config = WorkerConfig(1, 2, 3, 4, data_parallel_group=group)

    assert config == WorkerConfig(1, 2, 3, 4)
    assert hash(config) == hash(WorkerConfig(1, 2, 3, 4))
    assert config != WorkerConfig(1, 2, 3, 5)
    restored = pickle.loads(pickle.dumps(config))  # noqa: S301 - our own
    assert (restored, restored.data_parallel_group) == (config, None)


def test_process_group_is_kept_by_copies() -> None:
    group = object()
    config = WorkerConfig(data_parallel_group=group)

    for other in (copy.copy(config), copy.deepcopy(config), replace(config, seed_offset=1)):
        assert other.data_parallel_group is group


def test_default_worker_config_without_process_group_is_single_rank() -> None:
    assert WorkerConfig.default_worker_config(0) == WorkerConfig(0, 1, 0, 0)
    assert WorkerConfig.default_worker_config(2, prefetch_factor=4) == WorkerConfig(0, 1, 2, prefetch_factor=4)


def test_default_worker_config_uses_rank_and_size_of_process_group(tmp_path: Path) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        config = WorkerConfig.default_worker_config(3, distributed.group.WORLD)

        assert config == WorkerConfig(0, 1, 3)
        assert config.data_parallel_group is distributed.group.WORLD
        with pytest.raises(UsageError, match="not in the data-parallel group"):
            WorkerConfig.default_worker_config(0, distributed.GroupMember.NON_GROUP_MEMBER)
    finally:
        distributed.destroy_process_group()


def test_from_parallel_sizes_computes_data_parallel_rank() -> None:
    """The example of Energon's guide: eight processes, tensor 2, pipeline 2; the second pipeline stage loads, too."""
    ranks = [WorkerConfig.from_parallel_sizes(i, 8, tensor=2, pipeline=2, order="tp-pp-dp").rank for i in range(8)]

    assert ranks == [0, 0, 0, 0, 1, 1, 1, 1]
    config = WorkerConfig.from_parallel_sizes(7, 8, tensor=2, num_workers=2, seed_offset=1)
    assert config == WorkerConfig(3, 4, 2, 1)
