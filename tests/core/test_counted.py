from __future__ import annotations

from wdsctl.core.counted import counted


def test_one_thing_has_no_plural() -> None:
    assert [counted(n, "shard") for n in (0, 1, 2, 1204)] == ["0 shards", "1 shard", "2 shards", "1,204 shards"]
    assert [counted(n, "is", "are") for n in (1, 2)] == ["1 is", "2 are"]
