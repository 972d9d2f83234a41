"""Trainings with `adopt="next_epoch"` on datasets that grow while they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.loader.datasets import Parts, Raw, a_shard, numbered
from tests.loader.running import json_round_trip, make_training_loader
from tests.places import folder_of, place_dataset
from wdsctl.core.index.index import index
from wdsctl.loader import Loader, SkipSample

SAMPLES, NEW = 50, 24


class Skips(Raw):
    """Yields zero, one or two samples per sample, so that lanes drift apart."""

    def encode_sample(self, sample: Any) -> Iterator[Any]:
        number = int("".join(each for each in sample["__key__"] if each.isdigit()))
        if number % 5 == 2:
            raise SkipSample
        for copy in range(1 + (number % 4 == 0)):
            yield {**sample, "copy": copy}


def grow(
    root: str, name: str = "new", count: int = NEW, shard: int = 900, parts: Callable[[int], Parts] = numbered
) -> None:
    """Adds a shard and indexes the dataset."""
    folder = folder_of(root)
    a_shard(folder / f"shard-{shard}.tar", ((f"{name}-{i}", parts(i)) for i in range(count)))
    index(place_dataset(folder))


def loader_of(path: Any, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    return make_training_loader(path, rank, world, **{"lanes": 4, "adopt": "next_epoch", **options})


def resume_loader(path: Any, state: Any, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    loader = loader_of(path, rank, world, **options)
    loader.load_state_dict(json_round_trip(state))
    return loader


def whole_epochs(keys: list[Any], source: int, old: int, new: int, under_way: int = 2) -> tuple[int, int]:
    """Counts the passes of a source with the old samples only and with all; all but the last passes are complete."""
    assert set(Counter(keys).values()) == {1}, "something came twice"
    passes = Counter(number for component, number, *_ in keys if component == source)
    complete = [passes[number] for number in sorted(passes)[:-under_way]]
    assert complete == sorted(complete)
    assert set(complete) <= {old, new}
    return complete.count(old), complete.count(new)
