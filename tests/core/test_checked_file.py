from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wdsctl.core.files import decode_checked, encode_checked, load_checked, save_checked

FACTS: dict[str, Any] = {"names": ["ü", "b"], "count": 3}
SAVED = b"".join(encode_checked(FACTS, [b"ab", memoryview(b"c")]))


def test_load_checked_returns_saved_facts_and_data(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    save_checked(path, FACTS, [b"ab", b"c"])

    assert Path(path).read_bytes() == SAVED
    assert load_checked(path) == (FACTS, memoryview(b"abc"))


def test_decode_checked_accepts_facts_without_data() -> None:
    assert decode_checked(b"".join(encode_checked(FACTS))) == (FACTS, memoryview(b""))


@pytest.mark.parametrize("at", [0, 4, 12, -1])
def test_decode_checked_detects_flipped_bit(at: int) -> None:
    data = bytearray(SAVED)
    data[at] ^= 1
    assert decode_checked(bytes(data)) is None


@pytest.mark.parametrize("length", [0, 3, 4, 9, len(SAVED) - 1])
def test_decode_checked_refuses_truncated_data(length: int) -> None:
    assert decode_checked(SAVED[:length]) is None


def test_decode_checked_refuses_zeros() -> None:
    assert decode_checked(bytes(100)) is None
    assert decode_checked(bytes(4)) is None
