"""Trainings with `adopt="next_epoch"` on datasets that grow under them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.loader.datasets import Parts, Raw, a_shard, numbered
from tests.loader.running import through_json, training_of
from tests.places import folder_of, placed
from wdsctl.core.index.index import index
from wdsctl.loader import Loader, SkipSample

SAMPLES, NEW = 50, 24


class Skips(Raw):
    """Makes none, one or two of a sample: lanes do not keep in step."""

    def encode_sample(self, sample: Any) -> Iterator[Any]:
        number = int("".join(each for each in sample["__key__"] if each.isdigit()))
        if number % 5 == 2:
            raise SkipSample
        for copy in range(1 + (number % 4 == 0)):
            yield {**sample, "copy": copy}


def grow(
    root: str, name: str = "new", count: int = NEW, shard: int = 900, parts: Callable[[int], Parts] = numbered
) -> None:
    """One more shard, indexed."""
    folder = folder_of(root)
    a_shard(folder / f"shard-{shard}.tar", ((f"{name}-{i}", parts(i)) for i in range(count)))
    index(placed(folder))


def loader_of(path: Any, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    return training_of(path, rank, world, **{"lanes": 4, "adopt": "next_epoch", **options})


def resumed(path: Any, state: Any, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    loader = loader_of(path, rank, world, **options)
    loader.load_state_dict(through_json(state))
    return loader


def whole_epochs(keys: list[Any], source: int, old: int, new: int, under_way: int = 2) -> tuple[int, int]:
    """How many passes of a source had the old samples, and how many all; all but the last ones are whole."""
    assert set(Counter(keys).values()) == {1}, "something came twice"
    passes = Counter(number for arm, number, *_ in keys if arm == source)
    complete = [passes[number] for number in sorted(passes)[:-under_way]]
    assert complete == sorted(complete)
    assert set(complete) <= {old, new}
    return complete.count(old), complete.count(new)
