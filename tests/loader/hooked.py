"""A loader and hooks that several tests share: hooks that fail when they are told to, hooks that draw."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tests.loader.datasets import Raw
from tests.loader.running import strict, training_of
from wdsctl.loader import Loader


def loader_of(path: str, encoder: Any = None, **options: Any) -> Loader:
    """A training on two lanes, in windows of eight samples and batches of four, that stops at the first failure."""
    return training_of(path, encoder=encoder, **{"lanes": 2, "worker_config": strict(), **options})


class Fails(Raw):
    """Raises `error` in one of its hooks, at its n-th call from when it is told to, so many times."""

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
        made = super().batch(samples)
        made["cut"] = (random.random(), np.random.rand(), float(torch.rand(1)))  # noqa: NPY002 - as hooks do
        return made

    def encode_batch(self, batch: Any) -> Any:
        batch["level"] = (random.random(), np.random.rand(), float(torch.rand(1)))  # noqa: NPY002 - as hooks do
        return batch
