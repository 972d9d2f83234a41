"""Shares of splits: what `--split train=8,val=1,test=1` means, and how many items each split gets.

Counting is exact: shares are taken as the decimals they were written as, so 0.1 is a tenth and 7,2,1 of 10 is 7, 2, 1.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from wdsctl.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What is divided: whole shards, samples, or whole shards unless a split would then stay empty; or samples by the hash
#: of their key.
By = Literal["auto", "shard", "sample", "key"]

#: What numbers without names stand for, by how many there are.
POSITIONAL = ("train", "val", "test")

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HINT = "write train=8,val=1,test=1, or 8,1,1 for these three names"


def parse_ratios(text: str) -> dict[str, float]:
    """Split names and their shares, in the order they were written.

    `8,1,1`, `train=0.98,val=0.02` and `98%,2%` are understood; shares are relative and need not add up to anything.
    A share of 0 says that the split is not wanted: it is left out. Raises UsageError WDS210, naming the piece.
    """
    pieces = [piece.strip() for piece in text.split(",")]
    if "" in pieces:
        raise _refused(text, "a share is missing beside a comma" if len(pieces) > 1 else "no shares were given")
    named = ["=" in piece for piece in pieces]
    if any(named) and not all(named):
        raise _refused(text, "give every share a name, or none")
    percents = [piece.endswith("%") for piece in pieces]
    if any(percents) and not all(percents):
        raise _refused(text, "write all shares in percent, or none")
    names, numbers = _named(text, pieces) if named[0] else _positional(text, pieces)
    shares = {name: _number(text, number) for name, number in zip(names, numbers, strict=True)}
    if not any(shares.values()):
        raise _refused(text, "at least one share must be above zero")
    return {name: share for name, share in shares.items() if share}


def apportion(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """How many of `total` items each split gets: largest remainder, ties to the one named first.

    The counts add up to `total`, and each is its exact quota rounded down or up. Raises UsageError WDS210.
    """
    if total < 0:
        raise _refused(str(total), "there cannot be fewer than no items")
    return _largest_remainder(total, _exact(shares))


def deal(total_after: int, already: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    """How many of the new items each split gets, so that all `total_after` come nearest to the shares.

    Nothing is taken away: a split that has more than its due gets nothing until the others have caught up. Splits in
    `already` that have no share keep what they have. Raises UsageError WDS210.
    """
    new = total_after - sum(already.values())
    if new < 0:
        raise _refused(str(total_after), f"{sum(already.values())} items are in splits already")
    dealt = dict.fromkeys(shares, 0)
    hungry = {name: share for name, share in _exact(shares).items() if share}
    while hungry:
        total = new + sum(already.get(name, 0) for name in hungry)
        whole = sum(hungry.values())
        full = [name for name, share in hungry.items() if already.get(name, 0) > share * total / whole]
        if not full:
            counts = _largest_remainder(total, hungry)
            return dealt | {name: count - already.get(name, 0) for name, count in counts.items()}
        for name in full:
            del hungry[name]
    return dealt


def _largest_remainder(total: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    whole = sum(shares.values())
    quotas = {name: share * total / whole for name, share in shares.items()}
    counts = {name: math.floor(quota) for name, quota in quotas.items()}
    # sorted() is stable, so equal remainders stay in the order of the shares.
    by_remainder = sorted(quotas, key=lambda name: counts[name] - quotas[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _exact(shares: Mapping[str, float]) -> dict[str, Fraction]:
    bad = [f"{name}={share}" for name, share in shares.items() if not (math.isfinite(share) and share >= 0)]
    if bad:
        raise _refused(", ".join(bad), "a share is a number, zero or more")
    if not any(shares.values()):
        raise _refused(", ".join(shares), "at least one share must be above zero")
    # Through the text: a float's repr is the decimal that the user wrote, its binary value is not.
    return {name: Fraction(repr(share)) for name, share in shares.items()}


def _positional(text: str, pieces: list[str]) -> tuple[list[str], list[str]]:
    if len(pieces) > len(POSITIONAL):
        raise _refused(text, f"{len(pieces)} shares need names")
    return list(POSITIONAL[: len(pieces)]), pieces


def _named(text: str, pieces: list[str]) -> tuple[list[str], list[str]]:
    names = []
    numbers = []
    for piece in pieces:
        name, _, number = (side.strip() for side in piece.partition("="))
        if not _NAME.fullmatch(name):
            raise _refused(text, f"{name!r} cannot name a split: letters, digits, '.', '_' and '-' can")
        if name in names:
            raise _refused(text, f"{name} is named twice")
        names.append(name)
        numbers.append(number)
    return names, numbers


def _number(text: str, number: str) -> float:
    digits = number.removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(digits) or not math.isfinite(float(digits)):
        raise _refused(text, f"{number!r} is no share: a share is a number, zero or more")
    return int(digits) if digits.isdecimal() else float(digits)


def _refused(text: str, why: str) -> UsageError:
    return UsageError(f"cannot split by {text!r}: {why}", hint=_HINT, code="WDS210")
