from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.offsets.key_list import key_list, read_key_list

KEYS = st.lists(
    st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), min_size=1, max_size=9), max_size=30
)


@given(KEYS, KEYS)
def test_key_list_finds_exact_keys_and_counts_repeats(table_keys: list[str], queries: list[str]) -> None:
    keys, others = key_list(table_keys), key_list(queries)
    found = keys.find(others, np.arange(len(queries)))

    assert [None if row < 0 else keys.key(row) for row in found.tolist()] == [
        key if key in table_keys else None for key in queries
    ]
    assert (len(keys), keys.repeated_count) == (len(set(table_keys)), len(table_keys) - len(set(table_keys)))


@given(
    lines=st.lists(st.sampled_from(["a", "b/ü 1", "", "c"])), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans()
)
def test_read_key_list_accepts_all_line_endings(
    tmp_path_factory: object, lines: list[str], end: str, last: bool
) -> None:
    expected = [line for line in lines if line]
    if not expected:
        return
    path = Path(tmp_path_factory.mktemp("keys")) / "list"  # type: ignore[attr-defined]
    path.write_bytes((end.join(lines) + (end if last else "")).encode())
    keys = read_key_list("", str(path))

    assert [keys.key(row) for row in range(len(keys.key_start) - 1)] == expected


def test_find_missing_returns_count_and_first_keys() -> None:
    keys = key_list(["a", "b", "c", "d", "e"])
    seen = np.array([True, False, False, False, False])
    assert keys.find_missing(seen) == (4, ["b", "c", "d"])
