"""A dataset's loader, made of the arguments that say how it runs: those of Energon's loaders, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.cache.pool import CachePool
from wdsctl.loader.dataset import Dataset
from wdsctl.loader.loader import Loader
from wdsctl.loader.running import Running
from wdsctl.loader.worker_config import WorkerConfig

#: Arguments of Energon's loaders. States are exact at any moment here, garbage is Python's own, and a worker that hangs
#: is replaced.
NOT_NEEDED = {
    "checkpoint_every_sec",
    "checkpoint_every_min_n_samples",
    "n_checkpoints",
    "gc_collect_every_n_steps",
    "fail_on_timeout",
}


def get_savable_loader(
    dataset: Dataset,
    *,
    pin_memory: bool = False,
    watchdog_timeout_seconds: float | None = 60.0,
    watchdog_initial_timeout_seconds: float | None = None,
    ring_bytes: int | None = None,
    max_failed_fraction: float | None = None,
    cache_pool: CachePool | None = None,
    prefetch_factor: int | None = None,
    worker_config: WorkerConfig | None = None,
    **energons: Any,
) -> Loader:
    """The loader of a dataset. Opening is lazy: the first batch, or the first question, opens it.

    `pin_memory`: batches come in pinned memory, where there is an accelerator. `watchdog_timeout_seconds`: a worker
    that takes longer for a batch is replaced, and its stack is told; None waits for ever.
    `watchdog_initial_timeout_seconds`: the same for the first batch. `ring_bytes`: shared memory a worker may take, at
    most. `max_failed_fraction`: the run ends (WDS527) where more than this share of the last thousand samples of a
    source fails, or of the last thousand batches; None: it goes on, and the log says so from 1 % on. `cache_pool`: what
    cookers with `need_cache` get, by default a `NoCachePool`. `prefetch_factor`: in the place of the WorkerConfig's.
    `worker_config`: the dataset's, if any. `energons`: what Energon's loaders have, and
    nothing here needs: taken, and without effect.
    """
    if not isinstance(dataset, Dataset):
        raise UsageError(
            f"a loader runs a dataset, not a {type(dataset).__name__}",
            hint="get_loader(get_train_dataset(path, batch_size=32))",
        )
    running = Running(
        watchdog_timeout_seconds=watchdog_timeout_seconds,
        watchdog_initial_timeout_seconds=watchdog_initial_timeout_seconds,
        ring_bytes=ring_bytes,
        max_failed_fraction=_checked_fraction(max_failed_fraction),
    )
    _check_energons(dataset.worker_config, worker_config, energons)
    if prefetch_factor is not None:
        dataset = replace(dataset, worker_config=replace(dataset.worker_config, prefetch_factor=prefetch_factor))
    if cache_pool is not None:
        dataset = replace(dataset, cache_pool=cache_pool)
    return Loader(dataset, running, pin_memory=pin_memory)


def get_loader(dataset: Dataset, **options: Any) -> Loader:
    """The same: every loader can be saved."""
    return get_savable_loader(dataset, **options)


def _checked_fraction(fraction: float | None) -> float | None:
    if fraction is not None and not 0 <= fraction <= 1:
        raise UsageError(f"max_failed_fraction is {fraction!r}", hint="give a share from 0 to 1, such as 0.05")
    return None if fraction is None else float(fraction)


def _check_energons(of_dataset: WorkerConfig, given: WorkerConfig | None, others: Iterable[str]) -> None:
    """Raise UsageError for an argument that Energon's loaders have not either, and for another WorkerConfig."""
    for name in set(others) - NOT_NEEDED:
        raise UsageError(f"a loader has no argument {name!r}", hint="help(get_savable_loader) tells which it has")
    if given not in (None, of_dataset):
        raise UsageError(
            "the loader's worker_config is not that of its dataset", hint="give it to get_train_dataset alone"
        )
