"""A million lognormal lengths packed in windows of 16,384: one JSON line with the seconds and the share left empty.

    python -m benchmarks.contenders.packing METHOD [--budgets 2]

METHOD is one of wdsctl's, or `example`: the selection that Energon's guide gives as its example, window by window. It
sorts by length and fills packs from the shortest on. Here a pack may be full to the last token; as it is written there,
a sample as long as a pack would never end.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.loader.packing.methods import METHODS
from wdsctl.loader.packing.plan import plan_window

Ints = NDArray[np.int64]

SAMPLES, WINDOW, CAPACITY = 1_000_000, 16_384, 8_192
IMAGES = 16  # of a pack, with two budgets


def lengths_of(budgets: int) -> Ints:
    """Medians of 403 tokens, a long tail cut at the capacity; images follow Poisson's law."""
    rng = np.random.default_rng(0)
    tokens = np.clip(rng.lognormal(6, 1, SAMPLES).astype(np.int64), 1, CAPACITY)
    return tokens if budgets == 1 else np.stack([tokens, np.minimum(rng.poisson(1, SAMPLES), IMAGES)], axis=1)


def planned(lengths: Ints, method: Any) -> Iterator[Ints]:
    """The samples of each pack, by wdsctl: what a window leaves over goes into the next one."""
    capacity = CAPACITY if lengths.ndim == 1 else (CAPACITY, IMAGES)
    carried = np.empty(0, np.int64)
    for start in range(0, SAMPLES, WINDOW):
        places = np.concatenate((carried, np.arange(start, min(start + WINDOW, SAMPLES))))
        new = lengths[start : start + WINDOW]
        plan = plan_window(lengths[carried], new, capacity, method, is_last=start + WINDOW >= SAMPLES)
        yield from (places[pack] for pack in plan.packs)
        carried = places[plan.carry]


def example(lengths: Ints) -> Iterator[list[int]]:
    """The samples of each pack, shortest first, until the next one does not fit."""
    for start in range(0, SAMPLES, WINDOW):
        window = list(zip(lengths[start : start + WINDOW].tolist(), range(start, SAMPLES), strict=False))
        window.sort(key=lambda sample: sample[0])
        while window:
            pack, filled = [], 0
            while window and filled + window[0][0] <= CAPACITY:
                length, place = window.pop(0)
                pack.append(place)
                filled += length
            yield pack


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=(*METHODS, "example"))
    parser.add_argument("--budgets", type=int, default=1, choices=(1, 2))
    given = parser.parse_args()
    lengths = lengths_of(given.budgets)
    begin = time.perf_counter()
    packs: list[Any] = list(example(lengths) if given.method == "example" else planned(lengths, given.method))
    seconds = time.perf_counter() - begin
    order = np.concatenate([np.asarray(pack, np.int64) for pack in packs])
    starts = np.cumsum([0, *map(len, packs)])[:-1]
    filled = np.add.reduceat(lengths[order].reshape(SAMPLES, -1), starts)
    most = np.array([CAPACITY, IMAGES][: given.budgets])
    if not np.array_equal(np.sort(order), np.arange(SAMPLES)) or (filled > most).any():
        raise SystemExit("samples are lost or come twice, or a pack is over its capacity")
    empty = 1 - float((filled / most).max(axis=1).mean())
    print(json.dumps({"plan_seconds": seconds, "empty_percent": 100 * empty, "packs": len(packs)}))


if __name__ == "__main__":
    main()
