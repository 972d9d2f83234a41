"""Shares of splits: parsing ratios, and dividing items by them.

Shares are exact decimals: 0.1 is a tenth, and 7,2,1 of 10 items is 7, 2 and 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from wdsctl.core.errors import UsageError
from wdsctl.core.split_rules.names import POSITIONAL_NAMES, is_split_name
from wdsctl.core.text import join_with_and, pluralize

_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HINT = "write train=8,val=1,test=1, or 8,1,1 for these names"


def parse_split_shares(text: str) -> dict[str, float]:
    """Parse split names and their shares, in order.

    Accepts `8,1,1`, `train=0.98,val=0.02` and `98%,2%`. Shares are relative; their sum does not matter. Leaves out
    splits with a share of 0. Raises UsageError WDS210 with the invalid piece.
    """
    pieces = [piece.strip() for piece in text.split(",")]
    if "" in pieces:
        raise _shares_error(text, "a ratio is missing before or after a comma" if len(pieces) > 1 else "no ratios")
    named = ["=" in piece for piece in pieces]
    if any(named) and not all(named):
        raise _shares_error(text, "either all ratios have a name, or none")
    percents = [piece.endswith("%") for piece in pieces]
    if any(percents) and not all(percents):
        raise _shares_error(text, "either all ratios are percentages, or none")
    if named[0]:
        names, numbers = _parse_named(text, pieces)
    elif len(pieces) <= len(POSITIONAL_NAMES):
        names, numbers = list(POSITIONAL_NAMES[: len(pieces)]), pieces
    else:
        raise _shares_error(text, f"{len(pieces)} ratios need names")
    shares = {name: _parse_share(text, number) for name, number in zip(names, numbers, strict=True)}
    if not any(shares.values()):
        raise _shares_error(text, "at least one ratio must be above 0")
    return {name: share for name, share in shares.items() if share}


def check_fills_splits(shares: Mapping[str, float], by: Literal["shard", "sample"], total: int) -> None:
    """Raise UsageError WDS210 if so many shards or samples leave a split empty."""
    counts = allocate_items(total, shares)
    empty = [name for name, count in counts.items() if count == 0]
    if empty:
        raise UsageError(
            f"{join_with_and(empty)} would be empty: {pluralize(total, by)} cannot fill "
            f"{pluralize(len(counts), 'split')}",
            where=",".join(f"{name}={share}" for name, share in shares.items()),
            hint="split by samples: `--by sample`"
            if by == "shard"
            else "give each empty split a larger share, or remove it from the ratios",
            code="WDS210",
        )


def allocate_items(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divide `total` items among the splits by largest remainder; ties go to the split named first.

    The counts add up to `total`, and each is its exact quota rounded down or up. Raises UsageError WDS210.
    """
    if total < 0:
        raise _shares_error(str(total), "the number of items is negative")
    return _largest_remainder(total, _exact_shares(shares))


def allocate_new_items(
    total_after: int, current_counts: Mapping[str, int], shares: Mapping[str, float]
) -> dict[str, int]:
    """Divide new items among the splits, so that all `total_after` items come nearest to the shares.

    No split loses items: a split above its share gets none until the others have caught up. Splits in
    `current_counts` without a share keep their items. Raises UsageError WDS210.
    """
    new = total_after - sum(current_counts.values())
    if new < 0:
        raise _shares_error(str(total_after), f"{sum(current_counts.values())} items are already in splits")
    allocated = dict.fromkeys(shares, 0)
    short = {name: share for name, share in _exact_shares(shares).items() if share}
    while short:
        total = new + sum(current_counts.get(name, 0) for name in short)
        total_share = sum(short.values())
        satisfied = [name for name, share in short.items() if current_counts.get(name, 0) > share * total / total_share]
        if not satisfied:
            counts = _largest_remainder(total, short)
            return allocated | {name: count - current_counts.get(name, 0) for name, count in counts.items()}
        for name in satisfied:
            del short[name]
    return allocated


def _largest_remainder(total: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    total_share = sum(shares.values())
    quotas = {name: share * total / total_share for name, share in shares.items()}
    counts = {name: math.floor(quota) for name, quota in quotas.items()}
    # sorted() is stable: equal remainders stay in the order of the shares.
    by_remainder = sorted(quotas, key=lambda name: counts[name] - quotas[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _exact_shares(shares: Mapping[str, float]) -> dict[str, Fraction]:
    bad = [f"{name}={share}" for name, share in shares.items() if not (math.isfinite(share) and share >= 0)]
    if bad:
        raise _shares_error(", ".join(bad), "a ratio is a number, 0 or more")
    if not any(shares.values()):
        raise _shares_error(", ".join(shares), "at least one ratio must be above 0")
    # A float's repr is the decimal that the user wrote; its binary value is not.
    return {name: Fraction(repr(share)) for name, share in shares.items()}


def _parse_named(text: str, pieces: list[str]) -> tuple[list[str], list[str]]:
    names = []
    numbers = []
    for piece in pieces:
        name, _, number = (side.strip() for side in piece.partition("="))
        if not is_split_name(name):
            raise _shares_error(text, f"{name!r} is not a valid split name: use letters, digits, '.', '_' and '-'")
        if name in names:
            raise _shares_error(text, f"duplicate split {name}")
        names.append(name)
        numbers.append(number)
    return names, numbers


def _parse_share(text: str, number: str) -> float:
    digits = number.removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(digits) or not math.isfinite(float(digits)):
        raise _shares_error(text, f"invalid ratio {number!r}: a ratio is a number, 0 or more")
    return int(digits) if digits.isdecimal() else float(digits)


def _shares_error(text: str, why: str) -> UsageError:
    return UsageError(f"cannot split by {text!r}: {why}", hint=_HINT, code="WDS210")


def shares_text(shares: str | Mapping[str, float]) -> str:
    """Shares as the command line takes them, whose names and numbers `parse_split_shares` checks."""
    return shares if isinstance(shares, str) else ",".join(f"{name}={share}" for name, share in shares.items())
