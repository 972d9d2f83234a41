"""Values of Arrow as Python has them; times that Python's cannot hold in other words, so that no row is lost by them.

Source: https://arrow.apache.org/docs/format/Columnar.html (types), https://www.iso.org/iso-8601-date-and-time-format.html.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def values_of(column: Any) -> list[Any]:
    """The values of an array. Times of nanoseconds are ISO 8601 text, spans of time seconds; times of years that no
    calendar here has are numbers, as they are stored. Zones that are not known are UTC.
    """
    try:
        found: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        found = [_value(each) for each in column]
    return found


def is_list(kind: Any) -> bool:
    """Whether values of this type are lists of others."""
    types = import_module("pyarrow.types")
    checks = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
    return any(getattr(types, check)(kind) for check in checks)


def _value(scalar: Any) -> Any:
    types = import_module("pyarrow.types")
    kind = scalar.type
    made: Any
    if not scalar.is_valid:
        made = None
    elif types.is_struct(kind):
        made = {kind.field(i).name: _value(scalar[i]) for i in range(kind.num_fields)}
    elif types.is_map(kind):
        made = [(_value(pair[0]), _value(pair[1])) for pair in scalar.values]
    elif is_list(kind):
        made = [_value(each) for each in scalar.values]
    elif types.is_dictionary(kind) or hasattr(kind, "storage_type"):
        made = _value(scalar.value)
    elif types.is_temporal(kind):
        made = _time(scalar)
    else:
        made = scalar.as_py()
    return made


def _time(scalar: Any) -> Any:
    """A time, or a span of time, as Python has it, or in other words where its own types do not take it."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return _in_words(scalar)


def _in_words(scalar: Any) -> str | int | float:
    arrow, types, kind = import_module("pyarrow"), import_module("pyarrow.types"), scalar.type
    if types.is_duration(kind):
        seconds: float = scalar.value / _SECOND[kind.unit]
        return seconds
    if not types.is_timestamp(kind):
        return str(scalar.cast(arrow.string()).as_py()) if types.is_time(kind) else int(scalar.value)
    whole, rest = divmod(scalar.value, _SECOND[kind.unit])
    for zone in dict.fromkeys((kind.tz, kind.tz and "UTC")):
        try:
            text: str = arrow.scalar(whole, arrow.timestamp("s", zone)).as_py().isoformat()
        except (ValueError, OverflowError):
            continue
        digits = f"{rest:0{len(str(_SECOND[kind.unit])) - 1}d}".rstrip("0") if rest else ""
        return f"{text[:19]}{f'.{digits:0<6}' if digits else ''}{text[19:]}"
    return int(scalar.value)
