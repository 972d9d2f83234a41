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
def test_keys_are_found_once_and_by_every_letter(listed: list[str], asked: list[str]) -> None:
    keys, others = key_list(listed), key_list(asked)
    found = keys.find(others, np.arange(len(asked)))

    assert [None if row < 0 else keys.key(row) for row in found.tolist()] == [
        key if key in listed else None for key in asked
    ]
    assert (len(keys), keys.repeated_count) == (len(set(listed)), len(listed) - len(set(listed)))


@given(
    lines=st.lists(st.sampled_from(["a", "b/ü 1", "", "c"])), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans()
)
def test_lines_may_end_as_they_like(tmp_path_factory: object, lines: list[str], end: str, last: bool) -> None:
    wanted = [line for line in lines if line]
    if not wanted:
        return
    path = Path(tmp_path_factory.mktemp("keys")) / "list"  # type: ignore[attr-defined]
    path.write_bytes((end.join(lines) + (end if last else "")).encode())
    keys = read_key_list("", str(path))

    assert [keys.key(row) for row in range(len(keys.key_start) - 1)] == wanted


def test_keys_that_were_not_seen_are_counted_and_named() -> None:
    keys = key_list(["a", "b", "c", "d", "e"])
    seen = np.array([True, False, False, False, False])
    assert keys.find_missing(seen) == (4, ["b", "c", "d"])
