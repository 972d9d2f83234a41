"""Arrow values that do not fit Python's own types."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from wdsctl.core.importers.common.arrow import column_values

NANO = pa.timestamp("ns")


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (NANO, [1, None], ["1970-01-01T00:00:00.000000001", None]),
        (pa.list_(NANO), [[1], None], [["1970-01-01T00:00:00.000000001"], None]),
        (pa.struct([("t", NANO)]), [{"t": 1}], [{"t": "1970-01-01T00:00:00.000000001"}]),
        (pa.map_(pa.string(), NANO), [[("k", 1)]], [[("k", "1970-01-01T00:00:00.000000001")]]),
        (pa.timestamp("ns", "Europe/Berlin"), [1], ["1970-01-01T01:00:00.000000001+01:00"]),
        (pa.timestamp("us", "Nowhere/Land"), [1], ["1970-01-01T00:00:00.000001+00:00"]),
        (pa.time64("ns"), [1], ["00:00:00.000000001"]),
        (pa.duration("ns"), [1], [1e-09]),
        (pa.duration("s"), [2**60], [float(2**60)]),
    ],
)
def test_column_values_converts_times_beyond_python_to_iso_8601_or_seconds(
    kind: Any, values: Any, expected: Any
) -> None:
    assert column_values(pa.array(values, kind)) == expected


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.timestamp("us"), 2**62), (pa.date32(), -(2**30)), (pa.time64("ns"), 2**62)]
)
def test_column_values_keeps_stored_numbers_of_out_of_range_dates_and_times(kind: Any, value: int) -> None:
    assert column_values(pa.array([value, None], kind)) == [value, None]


def test_column_values_keeps_representable_times_as_datetime() -> None:
    assert column_values(pa.array([0, 1], NANO))[0] == datetime(1970, 1, 1)  # noqa: DTZ001 - it has no zone


def test_column_values_raises_for_invalid_text() -> None:
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    with pytest.raises(UnicodeDecodeError):
        column_values(text)
