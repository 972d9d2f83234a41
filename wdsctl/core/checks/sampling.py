"""Some samples in the place of all: which ones follows from seed, shard and place, whatever the workers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil

import numpy as np

from wdsctl.core.errors import UsageError
from wdsctl.core.keys import derive, mix

_SHARE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(%?)")


@dataclass(frozen=True, slots=True)
class Sampling:
    """`share`: above 0, at most 1."""

    share: float = 1.0
    seed: int = 0

    @property
    def is_all(self) -> bool:
        return self.share >= 1

    def rows(self, shard: str, samples: int) -> list[int] | range:
        """The places in a shard of so many samples that are looked at, ascending: at least one, if there are any."""
        if self.is_all:
            return range(samples)
        count = min(samples, ceil(samples * self.share))
        keys = mix(derive("validate", self.seed, shard), np.arange(samples, dtype=np.uint64))
        chosen: list[int] = np.sort(np.argsort(keys, kind="stable")[:count]).tolist()
        return chosen


EVERY = Sampling()


def parse_share(text: str) -> float:
    """`1%` or `0.01`. Raises UsageError for what is no share, for 0, and for more than all."""
    match = _SHARE.fullmatch(text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < share <= 1:
        raise UsageError(
            f"--sample {text}: expected a share above 0 and up to 100%", hint="such as `--sample 1%` or `--sample 0.01`"
        )
    return share
