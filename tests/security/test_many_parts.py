"""The time to inspect, validate or repair shards with very many parts grows linearly, not with their square."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.build import a_shard, an_archive
from wdsctl.cli.main import main
from wdsctl.core.index.index import index
from wdsctl.core.json_text import JsonReader
from wdsctl.core.repair.repair import RepairRequest, repair
from wdsctl.core.validate.structure import line_defects
from wdsctl.core.validate.validate import validate


def test_validate_takes_seconds_for_sample_of_twenty_thousand_parts(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_shard({f"key.p{i:05}": b"x" for i in range(20_000)}))
    index(str(tmp_path))
    start = time.perf_counter()

    validate(str(tmp_path))

    assert time.perf_counter() - start < 15


def test_validate_takes_seconds_for_twenty_thousand_different_parts(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_shard({f"k{i}.{i}": b"x" for i in range(20_000)}))
    index(str(tmp_path))
    start = time.perf_counter()

    validate(str(tmp_path))

    assert time.perf_counter() - start < 15


@pytest.mark.parametrize("choice", [("--key", "key"), ("--samples", "1"), ("--stats",)])
def test_inspect_shows_hundred_parts_of_many(
    choice: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tar").write_bytes(a_shard({f"key.p{i:05}": b"x" for i in range(130)}))
    index(str(tmp_path))

    assert main(["inspect", str(tmp_path), *choice]) == 0

    out = capsys.readouterr().out
    assert "p00099" in out
    assert "p00100" not in out
    assert out.rstrip().endswith("... and 30 more (--json lists them all)")


def test_repair_takes_seconds_for_two_alternating_keys(tmp_path: Path) -> None:
    members = [tarfile.TarInfo(f"{key}.txt") for _ in range(20_000) for key in "ab"]
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a.tar").write_bytes(an_archive(members, format=tarfile.USTAR_FORMAT))
    start = time.perf_counter()

    report = repair(str(tmp_path / "from"), RepairRequest(dest=str(tmp_path / "made")))

    assert time.perf_counter() - start < 20
    assert report.repaired[0].fixes["duplicate keys renamed"] == 39_998


def test_repeated_name_is_found_among_many_in_a_second() -> None:
    names = ",".join(f'"{i}":0' for i in range(50_000))
    start = time.perf_counter()

    assert list(line_defects(f'{{{names},"49999":1}}'.encode(), JsonReader())) == ["WDS159"]

    assert time.perf_counter() - start < 2
