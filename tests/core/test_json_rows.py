from __future__ import annotations

import json
from typing import Any

import pytest

from wdsctl.core.json_text import encode_with_rows, read_with_rows

LONG = [[i, f"a/b-{i}.tar", None, [i]] for i in range(9000)]
#: Texts that look like the ends of rows, of lists, and of the object.
TRICKY = [["],[", "]]", '"rows":[', "}]}", "\\", '"', "ä\ud800", i] for i in range(9000)]
HUGE = [["x" * 100_000, 1], ["y" * 100_000, 2]]


@pytest.mark.parametrize("rows", [[], [[]], [[1]], LONG, TRICKY, HUGE, [["],[" * 50_000], [2]]])
@pytest.mark.parametrize("after", [{}, {"columns": {"a": [1, "<i8", 2]}}])
def test_read_with_rows_returns_rows_like_json(rows: list[Any], after: dict[str, Any]) -> None:
    facts = {"first": "]]", "names": ['rows":[', "rows"]}
    data = json.dumps({**facts, "rows": rows, **after}, separators=(",", ":")).encode()
    assert after or data == b"".join(encode_with_rows(facts, "rows", rows))
    found, found_rows = read_with_rows(memoryview(data), "rows")
    assert found.pop("rows", []) == []
    assert found == {**facts, **after}
    assert list(found_rows) == rows


def test_read_with_rows_accepts_other_json_formatting() -> None:
    text = json.dumps({"rows": LONG, "last": [["x"]]}, indent=1).encode()
    found, rows = read_with_rows(text, "rows")
    assert (found, list(rows)) == ({"last": [["x"]]}, LONG)


@pytest.mark.parametrize("cut", [1, 20, 5000, 100_000])
def test_truncated_text_is_refused(cut: int) -> None:
    data = b"".join(encode_with_rows({"a": 1}, "rows", LONG))
    with pytest.raises(ValueError):  # noqa: PT011 - of json
        list(read_with_rows(data[:-cut], "rows")[1])


def test_damaged_rows_are_refused_when_read() -> None:
    data = bytearray(b"".join(encode_with_rows({"a": 1}, "rows", LONG)))
    data[len(data) // 2] = ord("]")
    with pytest.raises(ValueError):  # noqa: PT011 - of json
        list(read_with_rows(bytes(data), "rows")[1])


def test_object_without_rows_is_refused() -> None:
    with pytest.raises(KeyError):
        read_with_rows(b'{"a":1}', "rows")
    with pytest.raises(ValueError, match="no object"):
        read_with_rows(b"[]", "rows")
