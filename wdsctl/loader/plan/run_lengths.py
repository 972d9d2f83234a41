"""Run-length encoded integers, as a text: "5 3 1x998" is 5, 3 and 998 times 1.

A plan has weights and turns for every entry of a blend, which may have thousands of equal entries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from wdsctl.core.text import short_repr

_RUN = re.compile(r"(\d{1,19})(?:x(\d{1,9}))?")
_MIN_RUN_LENGTH = 4  # equal integers in a row that are written as a run
_MAX_INTEGERS = 1 << 24  # of a text: a damaged one may have longer runs


def run_length_encode(numbers: Sequence[int]) -> str:
    runs = ((str(number), len(list(run))) for number, run in groupby(numbers))
    return " ".join(
        f"{number}x{length}" if length >= _MIN_RUN_LENGTH else " ".join([number] * length) for number, length in runs
    )


def run_length_decode(text: str) -> tuple[int, ...]:
    """The integers that `run_length_encode` wrote. Raises ValueError for any other text."""
    if not is_run_length_text(text):
        raise ValueError(f"{short_repr(text)} is not a list of counts")
    runs = (each.split("x") for each in text.split())
    return tuple(int(run[0]) for run in runs for _ in range(int(run[1]) if run[1:] else 1))


def is_run_length_text(text: Any, least: int = 0) -> bool:
    """Whether `run_length_encode` may have written a text, of integers from `least` up."""
    if not isinstance(text, str) or not text.isascii():
        return False
    runs = [_RUN.fullmatch(each) for each in text.split()]
    lengths = [int(run[2] or 1) if run and int(run[1]) >= least else 0 for run in runs]
    return all(lengths) and 0 < sum(lengths) <= _MAX_INTEGERS
