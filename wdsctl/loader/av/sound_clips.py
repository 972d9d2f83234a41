"""Clips of a sound. Ranges that overlap, or nearly, are decoded in one go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wdsctl.loader.av.opening import OpenMedium
from wdsctl.loader.av.pictures import Budget
from wdsctl.loader.av.sound_facts import SoundFacts
from wdsctl.loader.av.sound_reader import RUN_UP_SECONDS, Samples, pieces


class Sound(NamedTuple):
    begin: int  # number of its first sample
    samples: Samples  # (channels, samples)
    end: int  # number of the one after its last


def read_sounds(
    opened: OpenMedium, facts: SoundFacts, ranges: Sequence[tuple[int, float]], budget: Budget
) -> list[Sound | None]:
    """For each range [start, end) of samples, in their order: those of them that are there.

    None where none is: the sound ends before, or the range is empty.
    """
    parts: list[list[Sound]] = [[] for _ in ranges]
    for run in _runs(ranges, round(2 * RUN_UP_SECONDS * facts.rate)):
        end = max(ranges[i][1] for i in run)
        for begin, samples in pieces(opened, facts, ranges[run[0]][0], end):
            for i in run:
                cut = _cut(begin, samples, *ranges[i])
                if cut is not None:
                    budget.take(cut.samples.nbytes)
                    parts[i].append(cut)
    return [_joined(part) if part else None for part in parts]


def _runs(ranges: Sequence[tuple[int, float]], near: int) -> Iterator[list[int]]:
    """Which ranges to decode in one go, in the order of their starts."""
    run: list[int] = []
    end = 0.0
    for i in sorted(range(len(ranges)), key=lambda i: ranges[i]):
        if run and ranges[i][0] > end + near:
            yield run
            run = []
        run.append(i)
        end = max(end if len(run) > 1 else 0.0, ranges[i][1])
    if run:
        yield run


def _cut(begin: int, samples: Samples, start: int, end: float) -> Sound | None:
    low, high = max(0, start - begin), int(min(samples.shape[1], max(0, end - begin)))
    return Sound(begin + low, samples[:, low:high], begin + high) if low < high else None


def _joined(parts: list[Sound]) -> Sound:
    return Sound(parts[0].begin, np.concatenate([part.samples for part in parts], axis=1), parts[-1].end)
