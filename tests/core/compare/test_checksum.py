from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import a_dataset, rewrite_shard, samples, some_shards
from wdsctl.core.compare.checksum import checksum, format_checksum_line, verify_checksums
from wdsctl.core.errors import InputError
from wdsctl.core.index.index import index
from wdsctl.core.validate.validate import ValidateRequest, validate


def checksum_lines(root: str, *, again: bool = False) -> list[bytes]:
    return [format_checksum_line(each.digest, each.path) for each in checksum(root, ignore_catalog=again)]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return some_shards(tmp_path / "a", 4)


@pytest.mark.parametrize("workers", [1, 2])
def test_checksum_lists_shards_by_path_for_any_number_of_workers(root: str, workers: int) -> None:
    index(root)
    sums = list(checksum(root, workers=workers))
    assert [each.path for each in sums] == [f"shard-00{i}.tar" for i in range(4)]
    assert {each.source for each in sums} == {"read"}
    verdicts = verify_checksums(root, [format_checksum_line(each.digest, each.path) for each in sums], workers=workers)
    assert [each.result for each in verdicts if each] == ["OK"] * 4


def test_catalog_hashes_are_used_while_size_and_mtime_match(root: str) -> None:
    index(root, hashed=True)
    before = checksum_lines(root)
    assert {each.source for each in checksum(root)} == {"catalog"}
    rewrite_shard(f"{root}/shard-001.tar", samples(50, 5))
    sums = list(checksum(root))
    assert [each.source for each in sums] == ["catalog", "read", "catalog", "catalog"]
    assert checksum_lines(root, again=True) == checksum_lines(root) != before


def test_change_with_same_size_and_mtime_is_found_by_reading(root: str) -> None:
    index(root, hashed=True)
    recorded = checksum_lines(root)
    path = f"{root}/shard-002.tar"
    stat = os.stat(path)
    data = bytearray(Path(path).read_bytes())
    data[600] ^= 1
    Path(path).write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert checksum_lines(root) == recorded
    assert checksum_lines(root, again=True) != recorded
    assert [each.path for each in verify_checksums(root, recorded) if each and each.result == "FAILED"] == [
        "shard-002.tar"
    ]
    validate(root, ValidateRequest(levels=("structure", "hashes")))
    assert [each.source for each in checksum(root)] == ["catalog", "catalog", "read", "catalog"]
    assert checksum_lines(root) == checksum_lines(root, again=True)


@pytest.mark.usefixtures("place")
def test_folder_without_catalog_is_read(root: str) -> None:
    assert len(checksum_lines(root)) == 4
    assert not os.path.exists(f"{root}/.wdsctl")


def test_folder_without_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found no shards"):
        list(checksum(str(tmp_path)))


def test_missing_and_unreadable_shards_are_reported_with_the_rest(
    public_path: Path, as_nobody: Callable[[Callable[[], object]], object]
) -> None:
    root = some_shards(public_path / "a", 3)
    Path(root).chmod(0o777)
    index(root)
    os.unlink(f"{root}/shard-000.tar")
    os.chmod(f"{root}/shard-001.tar", 0)
    sums = as_nobody(lambda: [(each.path, each.error and each.error.code) for each in checksum(root)])
    assert sums == [("shard-000.tar", "WDS306"), ("shard-001.tar", "WDS402"), ("shard-002.tar", None)]


def test_verify_checksums_returns_verdict_per_line(root: str) -> None:
    lines = [*checksum_lines(root), format_checksum_line("0" * 64, "gone.tar"), b"no sum\n"]
    rewrite_shard(f"{root}/shard-000.tar", samples(90, 1))
    verdicts = list(verify_checksums(root, lines))
    assert [each and each.result for each in verdicts] == ["FAILED", "OK", "OK", "OK", "FAILED open or read", None]


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/../../secret"])
def test_verify_checksums_does_not_read_names_outside_dataset(root: str, name: str) -> None:
    (each,) = verify_checksums(root, [format_checksum_line("0" * 64, name)])
    assert each is not None
    assert (each.result, each.error and each.error.message) == (
        "FAILED open or read",
        "the name leads outside the dataset, so the file is not read",
    )


@pytest.mark.parametrize("lines", [[], [b"\n"], [b"hello\n"]])
def test_file_without_checksums_is_refused(root: str, lines: list[bytes]) -> None:
    with pytest.raises(InputError, match="no line is a checksum") as caught:
        list(verify_checksums(root, lines))
    assert caught.value.code == "WDS007"


def test_lines_of_other_algorithm_are_no_checksums(root: str) -> None:
    short, *others = checksum_lines(root)
    long = format_checksum_line("0" * 128, "a.tar")

    assert list(verify_checksums(root, [short, *others], algorithm="sha256"))
    first, second = verify_checksums(root, [short, long], algorithm="sha512")
    assert (first, second is None) == (None, False)


def test_checksums_of_other_algorithm_only_are_refused(root: str) -> None:
    with pytest.raises(InputError, match="no line is a checksum, such as `<128 hex digits>") as caught:
        list(verify_checksums(root, checksum_lines(root), algorithm="sha512", origin="SUMS"))
    assert (caught.value.where, "omit --algorithm" in caught.value.hint) == ("SUMS", True)


def test_jsonl_file_has_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n')
    assert [each.path for each in checksum(str(path))] == ["a.jsonl"]


@pytest.mark.usefixtures("place")
def test_excluded_shards_have_no_checksum(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"0.tar": samples(0, 1), "val/1.tar": samples(1, 1)})
    index(root, exclude=["val/*"])
    assert [each.path for each in checksum(root)] == ["0.tar"]
