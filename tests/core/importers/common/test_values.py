"""encode_json: values of rows as JSON."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.importers.common.values import encode_json

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(_values)
def test_encode_json_round_trips_json_values(value: Any) -> None:
    assert json.loads(encode_json(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), b"null"),
        ({"a": [1, float("inf")]}, b'{"a":[1,null]}'),
        ({"at": dt.datetime(2024, 1, 2, 3, tzinfo=dt.timezone.utc)}, b'{"at":"2024-01-02T03:00:00+00:00"}'),
        ([dt.date(2024, 1, 2), dt.time(3, 4)], b'["2024-01-02","03:04:00"]'),
        (dt.timedelta(seconds=1.5), b"1.5"),
        (decimal.Decimal("1.10"), b'"1.10"'),
        ({"a": b"\0\xff"}, b'{"a":"AP8="}'),
        ({1: 2, None: 3}, b'{"1":2,"null":3}'),
        ("\ud800", b'"\\ud800"'),
        ("é", b'"\xc3\xa9"'),
    ],
)
def test_encode_json_converts_values_without_json_type(value: Any, text: bytes) -> None:
    assert encode_json(value) == text
