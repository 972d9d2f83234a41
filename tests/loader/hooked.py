"""A loader and task encoders that tests share: hooks that fail on request, hooks that draw random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tests.loader.datasets import Raw
from tests.loader.running import make_training_loader, raising_worker_config
from wdsctl.loader import Loader


def loader_of(path: str, encoder: Any = None, **options: Any) -> Loader:
    """A training on two lanes, in windows of eight samples and batches of four, that stops at the first failure."""
    return make_training_loader(
        path, encoder=encoder, **{"lanes": 2, "worker_config": raising_worker_config(), **options}
    )


class Fails(Raw):
    """Raises `error` in one hook, `times` times, starting at the n-th call after `in_calls`."""

    def __init__(self, hook: str, error: BaseException) -> None:
        self.hook, self.error = hook, error
        self.calls_left, self.times = 0, 0

    def in_calls(self, calls: int, times: int = 1) -> None:
        self.calls_left, self.times = calls, times

    def _maybe(self, hook: str) -> None:
        if hook == self.hook and self.times:
            self.calls_left -= 1
            if self.calls_left <= 0:
                self.times -= 1
                raise self.error

    def encode_sample(self, sample: Any) -> Any:
        self._maybe("encode_sample")
        return {**sample, "noise": torch.rand(2)}

    def batch(self, samples: list[Any]) -> Any:
        self._maybe("batch")
        return super().batch(samples)

    def encode_batch(self, batch: Any) -> Any:
        self._maybe("encode_batch")
        batch["level"] = torch.rand(1)
        return batch


class Draws(Raw):
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for copy in range(2):
            noise = (random.random(), np.random.rand(), float(torch.rand(1)))  # noqa: NPY002 - as hooks do
            yield {**sample, "copy": copy, "noise": noise}

    def batch(self, samples: list[Any]) -> Any:
        batch = super().batch(samples)
        batch["cut"] = (random.random(), np.random.rand(), float(torch.rand(1)))  # noqa: NPY002 - as hooks do
        return batch

    def encode_batch(self, batch: Any) -> Any:
        batch["level"] = (random.random(), np.random.rand(), float(torch.rand(1)))  # noqa: NPY002 - as hooks do
        return batch
