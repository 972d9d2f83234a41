from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import a_dataset, rewritten, samples, some_shards
from wdsctl.core.compare.checksum import checksum, format_checksum_line, verify_checksums
from wdsctl.core.errors import InputError
from wdsctl.core.index.index import index
from wdsctl.core.validate.validate import ValidateRequest, validate


def lines_of(root: str, *, again: bool = False) -> list[bytes]:
    return [format_checksum_line(each.digest, each.path) for each in checksum(root, ignore_catalog=again)]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return some_shards(tmp_path / "a", 4)


@pytest.mark.parametrize("workers", [1, 2])
def test_shards_come_by_path_whatever_the_number_of_workers(root: str, workers: int) -> None:
    index(root)
    sums = list(checksum(root, workers=workers))
    assert [each.path for each in sums] == [f"shard-00{i}.tar" for i in range(4)]
    assert {each.source for each in sums} == {"read"}
    verdicts = verify_checksums(root, [format_checksum_line(each.digest, each.path) for each in sums], workers=workers)
    assert [each.result for each in verdicts if each] == ["OK"] * 4


def test_hashes_of_the_catalog_are_taken_while_size_and_time_are_the_same(root: str) -> None:
    index(root, hashed=True)
    before = lines_of(root)
    assert {each.source for each in checksum(root)} == {"catalog"}
    rewritten(f"{root}/shard-001.tar", samples(50, 5))
    sums = list(checksum(root))
    assert [each.source for each in sums] == ["catalog", "read", "catalog", "catalog"]
    assert lines_of(root, again=True) == lines_of(root) != before


def test_a_change_that_keeps_size_and_time_is_seen_again_and_by_check(root: str) -> None:
    index(root, hashed=True)
    noted = lines_of(root)
    path = f"{root}/shard-002.tar"
    stat = os.stat(path)
    data = bytearray(Path(path).read_bytes())
    data[600] ^= 1
    Path(path).write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert lines_of(root) == noted
    assert lines_of(root, again=True) != noted
    assert [each.path for each in verify_checksums(root, noted) if each and each.result == "FAILED"] == [
        "shard-002.tar"
    ]
    validate(root, ValidateRequest(levels=("structure", "hashes")))
    assert [each.source for each in checksum(root)] == ["catalog", "catalog", "read", "catalog"]
    assert lines_of(root) == lines_of(root, again=True)


@pytest.mark.usefixtures("place")
def test_a_folder_without_a_catalog_is_read(root: str) -> None:
    assert len(lines_of(root)) == 4
    assert not os.path.exists(f"{root}/.wdsctl")


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found no shards"):
        list(checksum(str(tmp_path)))


def test_a_shard_that_is_gone_or_unreadable_is_told_and_the_rest_comes(
    public_path: Path, as_nobody: Callable[[Callable[[], object]], object]
) -> None:
    root = some_shards(public_path / "a", 3)
    Path(root).chmod(0o777)
    index(root)
    os.unlink(f"{root}/shard-000.tar")
    os.chmod(f"{root}/shard-001.tar", 0)
    sums = as_nobody(lambda: [(each.path, each.error and each.error.code) for each in checksum(root)])
    assert sums == [("shard-000.tar", "WDS306"), ("shard-001.tar", "WDS402"), ("shard-002.tar", None)]


def test_files_that_fail_or_are_not_there_have_a_verdict_each(root: str) -> None:
    lines = [*lines_of(root), format_checksum_line("0" * 64, "gone.tar"), b"no sum\n"]
    rewritten(f"{root}/shard-000.tar", samples(90, 1))
    found = list(verify_checksums(root, lines))
    assert [each and each.result for each in found] == ["FAILED", "OK", "OK", "OK", "FAILED open or read", None]


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/../../secret"])
def test_names_that_lead_outside_are_not_read(root: str, name: str) -> None:
    (each,) = verify_checksums(root, [format_checksum_line("0" * 64, name)])
    assert each is not None
    assert (each.result, each.error and each.error.message) == (
        "FAILED open or read",
        "the name leads outside the dataset, so the file is not read",
    )


@pytest.mark.parametrize("lines", [[], [b"\n"], [b"hello\n"]])
def test_a_file_without_sums_is_refused(root: str, lines: list[bytes]) -> None:
    with pytest.raises(InputError, match="no line is a checksum") as caught:
        list(verify_checksums(root, lines))
    assert caught.value.code == "WDS007"


def test_lines_of_a_hash_that_is_not_the_one_asked_for_are_no_sums(root: str) -> None:
    short, *others = lines_of(root)
    long = format_checksum_line("0" * 128, "a.tar")

    assert list(verify_checksums(root, [short, *others], algorithm="sha256"))
    first, second = verify_checksums(root, [short, long], algorithm="sha512")
    assert (first, second is None) == (None, False)


def test_sums_that_are_all_of_another_algorithm_are_refused(root: str) -> None:
    with pytest.raises(InputError, match="no line is a checksum, such as `<128 hex digits>") as caught:
        list(verify_checksums(root, lines_of(root), algorithm="sha512", origin="SUMS"))
    assert (caught.value.where, "omit --algorithm" in caught.value.hint) == ("SUMS", True)


def test_a_file_of_lines_has_a_sum_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n')
    assert [each.path for each in checksum(str(path))] == ["a.jsonl"]


@pytest.mark.usefixtures("place")
def test_excluded_shards_have_none(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"0.tar": samples(0, 1), "val/1.tar": samples(1, 1)})
    index(root, exclude=["val/*"])
    assert [each.path for each in checksum(root)] == ["0.tar"]
