"""Weights and repetitions: numbers from zero up, exactly as they are written."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from numbers import Rational, Real

from wdsctl.core.blend_file.nodes import Node
from wdsctl.core.blend_file.problems import Place, called, wrong

# Short exponents only: 1e999999999 would be a number of a billion digits.
_NUMBER = re.compile(r"\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?|\d{1,30}/\d{1,30}", re.ASCII)


def amount(node: Node, key: str, place: Place) -> Fraction:
    """2, 0.1 (a tenth), 1e-3 or "1/3". Raises DatasetError WDS602 for anything else, and below zero."""
    value = _exact(node.value)
    if value is None or value < 0:
        hint = 'write a number such as 2, 0.5 or "1/3"; 0 means never'
        raise wrong(
            f"{key}: expected a number from zero up, found {called(node.value)}", place, hint=hint, code="WDS602"
        )
    return value


def _exact(value: object) -> Fraction | None:
    match value:
        case bool():
            return None
        case Rational():
            return Fraction(int(value.numerator), int(value.denominator))
        case Real():
            # As it was written, not as the nearest binary number.
            return Fraction(repr(float(value))) if math.isfinite(value) else None
        case str() if _NUMBER.fullmatch(value):
            denominator = value.partition("/")[2]
            return None if denominator and int(denominator) == 0 else Fraction(value)
    return None
