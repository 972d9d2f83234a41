"""Functions of samples, as users write them for `wdsctl index --column NAME=tests.core.counting:FUNCTION`."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

import numpy as np

Sample = dict[str, Any]


def words(sample: Sample) -> int:
    """The words of the text."""
    return len(sample["txt"].split())


words.parts = ("txt",)  # type: ignore[attr-defined]


def number(sample: Sample) -> np.int32:
    """The number in the key, as a numpy integer."""
    return np.int32(int(sample["__key__"]))


def given(sample: Sample) -> int:
    """The number of entries of the sample; all values except the key must be bytes."""
    if not all(isinstance(value, str if name == "__key__" else bytes) for name, value in sample.items()):
        raise TypeError("not bytes")
    return len(sample)


def not_fives(sample: Sample) -> int:
    if sample["__key__"].endswith("5"):
        raise KeyError("fives")
    return 1


def noted(sample: Sample) -> int:
    """The number in the key; appends the key to the file that COUNTED names."""
    with open(os.environ["COUNTED"], "a", encoding="utf-8") as file:
        file.write(f"{sample['__key__']}\n")
    return int(sample["__key__"])


def loud(sample: Sample) -> int:
    print("look at", sample["__key__"])  # noqa: T201 - the output is what is tested
    return 1


def emptied(sample: Sample) -> int:
    """Removes all entries of its sample, which must not affect other columns."""
    return len([sample.pop(name) for name in list(sample)])


def true(_sample: Sample) -> Any:
    return True


def numpy_true(_sample: Sample) -> Any:
    return np.bool_(True)


def half(_sample: Sample) -> Any:
    return 0.5


def decimal(_sample: Sample) -> Any:
    return Decimal(2)


def nothing(_sample: Sample) -> Any:
    return None


def below_zero(_sample: Sample) -> Any:
    return -1


def too_large(_sample: Sample) -> Any:
    return 1 << 63
