"""Shards of very many parts are validated in a time that grows with them, and not with their square."""

from __future__ import annotations

import time
from pathlib import Path

from tests.build import a_shard
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.validate import validate


def test_one_sample_of_twenty_thousand_parts_is_validated_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_shard({f"key.p{i:05}": b"x" for i in range(20_000)}))
    index(str(tmp_path))
    began = time.perf_counter()

    validate(str(tmp_path))

    assert time.perf_counter() - began < 15


def test_twenty_thousand_samples_each_with_a_part_of_its_own_are_validated_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_shard({f"k{i}.{i}": b"x" for i in range(20_000)}))
    index(str(tmp_path))
    began = time.perf_counter()

    validate(str(tmp_path))

    assert time.perf_counter() - began < 15
