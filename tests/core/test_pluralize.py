from __future__ import annotations

from wdsctl.core.text import pluralize


def test_pluralize_uses_singular_for_one() -> None:
    assert [pluralize(n, "shard") for n in (0, 1, 2, 1204)] == ["0 shards", "1 shard", "2 shards", "1,204 shards"]
    assert [pluralize(n, "is", "are") for n in (1, 2)] == ["1 is", "2 are"]
