"""Shards of very many parts are validated in a time that grows with them, and not with their square."""

from __future__ import annotations

import tarfile
import time
from pathlib import Path

from tests.build import a_shard, an_archive
from wdsctl.core.index.index import index
from wdsctl.core.repair.repair import RepairRequest, repair
from wdsctl.core.validate.validate import validate


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


def test_two_keys_that_alternate_for_ever_are_repaired_in_seconds(tmp_path: Path) -> None:
    members = [tarfile.TarInfo(f"{key}.txt") for _ in range(20_000) for key in "ab"]
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a.tar").write_bytes(an_archive(members, format=tarfile.USTAR_FORMAT))
    began = time.perf_counter()

    report = repair(str(tmp_path / "from"), RepairRequest(dest=str(tmp_path / "made")))

    assert time.perf_counter() - began < 20
    assert report.repaired[0].fixes["duplicate keys renamed"] == 39_998
