from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl, a_tar

Process = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def odd(shards: Path) -> Path:
    a_tar(shards / "o dd\\\n.tar", {"x.txt": b"x"})
    return shards


def test_sha256sum_takes_what_is_written(odd: Path, in_a_process: Process) -> None:
    written = in_a_process("checksum", str(odd))
    assert (written.returncode, len(written.stdout.splitlines())) == (0, 11)
    done = subprocess.run(
        ["sha256sum", "-c", "--strict"], cwd=odd, input=written.stdout, capture_output=True, text=True, check=True
    )
    checked = in_a_process("checksum", str(odd), "--check", "-", input=written.stdout)
    assert (checked.returncode, checked.stdout) == (0, done.stdout)


def test_what_sha256sum_writes_is_taken(odd: Path, in_a_process: Process) -> None:
    (odd.parent / "SUMS").write_bytes(
        subprocess.run(
            ["sha256sum", *sorted(p.name for p in odd.iterdir())], cwd=odd, capture_output=True, check=True
        ).stdout
    )
    with (odd / "train-000002.tar").open("ab") as file:
        file.write(b"!")
    checked = in_a_process("checksum", str(odd), "-c", str(odd.parent / "SUMS"))
    assert checked.returncode == 1
    assert [line for line in checked.stdout.splitlines() if "FAILED" in line] == ["train-000002.tar: FAILED"]
    assert "1 file: changed" in checked.stderr


def test_hashes_of_the_catalog_are_told(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards, "--hash")
    result = wdsctl("checksum", shards, "--json")
    assert {each["source"] for each in result.document["sums"]} == {"catalog"}
    assert "took 10 of these hashes from the catalog" in result.stderr
    assert wdsctl("checksum", shards, "--json", "--again").document["sums"][0]["source"] == "read"


def test_a_shard_that_is_gone_exits_with_5(in_a_process: Process, wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    (shards / "train-000001.tar").unlink()
    result = in_a_process("checksum", str(shards))
    assert (result.returncode, len(result.stdout.splitlines())) == (5, 9)
    assert "train-000001.tar: the shard is in the catalog, but its file is missing (WDS306)" in result.stderr


def test_a_file_of_sums_that_is_not_there_is_said(wdsctl: Wdsctl, shards: Path) -> None:
    assert wdsctl("checksum", shards, "-c", shards / "none").code == 3


def test_the_check_has_a_document(in_a_process: Process, shards: Path) -> None:
    sums = in_a_process("checksum", str(shards), "--algorithm", "md5").stdout
    assert (
        subprocess.run(["md5sum", "-c"], cwd=shards, input=sums, text=True, check=False, stdout=sys.stderr).returncode
        == 0
    )
    checked = in_a_process("checksum", str(shards), "-c", "-", "--json", input=sums + "odd\n")
    assert checked.returncode == 0
    assert '"odd_lines": 1' in checked.stdout
