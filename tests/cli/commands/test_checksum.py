from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl, a_tar

Process = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def odd_shards(shards: Path) -> Path:
    a_tar(shards / "o dd\\\n.tar", {"x.txt": b"x"})
    return shards


def test_checksum_output_is_accepted_by_sha256sum(odd_shards: Path, run_in_process: Process) -> None:
    listing = run_in_process("checksum", str(odd_shards))
    assert (listing.returncode, len(listing.stdout.splitlines())) == (0, 11)
    done = subprocess.run(
        ["sha256sum", "-c", "--strict"],
        cwd=odd_shards,
        input=listing.stdout,
        capture_output=True,
        text=True,
        check=True,
    )
    checked = run_in_process("checksum", str(odd_shards), "--check", "-", input=listing.stdout)
    assert (checked.returncode, checked.stdout) == (0, done.stdout)


def test_checksum_check_reads_sha256sum_output(odd_shards: Path, run_in_process: Process) -> None:
    (odd_shards.parent / "SUMS").write_bytes(
        subprocess.run(
            ["sha256sum", *sorted(p.name for p in odd_shards.iterdir())],
            cwd=odd_shards,
            capture_output=True,
            check=True,
        ).stdout
    )
    with (odd_shards / "train-000002.tar").open("ab") as file:
        file.write(b"!")
    checked = run_in_process("checksum", str(odd_shards), "-c", str(odd_shards.parent / "SUMS"))
    assert checked.returncode == 1
    assert [line for line in checked.stdout.splitlines() if "FAILED" in line] == ["train-000002.tar: FAILED"]
    assert "1 file: changed" in checked.stderr


def test_checksum_reports_hashes_from_catalog(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards, "--hash")
    result = wdsctl("checksum", shards, "--json")
    assert {each["source"] for each in result.document["sums"]} == {"catalog"}
    assert "took 10 of these hashes from the catalog" in result.stderr
    assert wdsctl("checksum", shards, "--json", "--again").document["sums"][0]["source"] == "read"


def test_checksum_exits_with_5_for_missing_shard(run_in_process: Process, wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    (shards / "train-000001.tar").unlink()
    result = run_in_process("checksum", str(shards))
    assert (result.returncode, len(result.stdout.splitlines())) == (5, 9)
    assert "train-000001.tar: the shard is in the catalog, but its file is missing (WDS306)" in result.stderr


def test_checksum_quiet_reports_only_shards_that_cannot_be_read(run_in_process: Process, shards: Path) -> None:
    sums = shards.parent / "sums"
    sums.write_text(run_in_process("checksum", str(shards)).stdout, encoding="utf-8")
    (shards / "train-000001.tar").unlink()
    result = run_in_process("checksum", str(shards), "--check", str(sums), "--quiet")
    assert (result.returncode, result.stdout.count("OK\n")) == (1, 9)
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("train-000001.tar: ")


def test_checksum_check_exits_with_3_for_missing_sums_file(wdsctl: Wdsctl, shards: Path) -> None:
    assert wdsctl("checksum", shards, "-c", shards / "none").code == 3


def test_checksum_check_prints_json_document(run_in_process: Process, shards: Path) -> None:
    sums = run_in_process("checksum", str(shards), "--algorithm", "md5").stdout
    assert (
        subprocess.run(["md5sum", "-c"], cwd=shards, input=sums, text=True, check=False, stdout=sys.stderr).returncode
        == 0
    )
    checked = run_in_process("checksum", str(shards), "-c", "-", "--json", input=sums + "odd\n")
    assert checked.returncode == 0
    assert '"odd_lines": 1' in checked.stdout
