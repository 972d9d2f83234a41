"""A single tar as a dataset."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import a_dataset, a_shard, rewrite_shard, samples
from wdsctl.core.convert.convert import convert
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.get import find_target, read_part
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.validate.validate import validate


@pytest.fixture(autouse=True)
def user_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "users"))
    return tmp_path / "users"


@pytest.fixture
def tar(tmp_path: Path) -> str:
    """The second shard of a dataset that is indexed."""
    root = a_dataset(tmp_path / "set", {"a.tar": samples(0, 3), "b.tar": samples(3, 2)})
    index(root)
    return os.path.join(root, "b.tar")


def test_inspect_of_single_tar_writes_nothing_next_to_it(tar: str, user_data: Path) -> None:
    before = sorted(os.listdir(os.path.dirname(tar)))

    report = inspect(tar, samples=5)

    assert (report.shards, report.samples) == (1, 2)
    assert [line.key for line in report.first] == ["000003", "000004"]
    assert sorted(os.listdir(os.path.dirname(tar))) == before
    assert locate(tar).meta.startswith(str(user_data))
    assert not [found for found in validate(tar).findings if found.severity == "error"]


def test_changed_single_tar_is_indexed_again(tar: str) -> None:
    inspect(tar)
    rewrite_shard(tar, samples(10, 4))

    assert inspect(tar).samples == 4
    assert b"".join(read_part(find_target(tar, "000013", part="txt"))) == b"13 txt ."


def test_prepared_single_tar_has_catalog_next_to_it(tar: str) -> None:
    report = prepare(tar, request=PrepareRequest(accept_type=True))

    assert report.index is not None
    assert (report.index.samples, report.index.shards) == (2, 1)
    assert locate(tar).meta == os.path.join(os.path.dirname(tar), ".wdsctl-b.tar")
    assert inspect(tar).samples == 2
    assert inspect(os.path.dirname(tar)).samples == 5


def test_single_tar_is_converted(tar: str, tmp_path: Path) -> None:
    convert([tar], str(tmp_path / "made"))

    assert inspect(str(tmp_path / "made")).samples == 2


def test_validate_reports_ambiguous_keys_in_single_tar(tmp_path: Path) -> None:
    names = {f"a.{day:02d}.{part}": b"x" for day in range(30) for part in ("jpg", "txt")}
    path = tmp_path / "dates.tar"
    path.write_bytes(a_shard(names))

    assert inspect(str(path)).samples == 1
    assert "WDS245" in {found.code for found in validate(str(path)).findings}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "data"])
@pytest.mark.parametrize("packer", ["gzip", "bz2", "lzma", "zstd", "lz4"])
def test_compressed_tar_is_detected_by_content_and_hinted_convert_works(tmp_path: Path, name: str, packer: str) -> None:
    path = tmp_path / name
    path.write_bytes(compress(a_shard(samples(0, 3)), packer))

    for command in (inspect, validate, index):
        with pytest.raises(InputError) as caught:
            command(str(path))
        assert caught.value.code == "WDS113"
        assert f"wdsctl convert {path} DEST" in caught.value.hint

    convert([str(path)], str(tmp_path / "made"))
    assert inspect(str(tmp_path / "made")).samples == 3


@pytest.mark.parametrize("packer", ["gzip", "zstd"])
def test_folder_with_compressed_tar_named_tar_is_converted(tmp_path: Path, packer: str) -> None:
    root = a_dataset(tmp_path / "set", {"a.tar": compress(a_shard(samples(0, 3)), packer), "b.tar": samples(3, 2)})
    found = index(root).findings
    assert [(each.code, each.shard) for each in found if each.severity == "error"] == [("WDS113", "a.tar")]

    convert([root], str(tmp_path / "made"))

    assert inspect(str(tmp_path / "made")).samples == 5


@pytest.mark.parametrize("packer", ["zstd", "lz4"])
def test_truncated_compressed_tar_has_finding(tmp_path: Path, packer: str) -> None:
    data = compress(a_shard(samples(0, 300)), packer)
    (tmp_path / "a.tar").write_bytes(data[: len(data) // 2])

    report = convert([str(tmp_path / "a.tar")], str(tmp_path / "made"))

    assert "WDS102" in {found.code for found in report.findings}


def compress(data: bytes, packer: str) -> bytes:
    if packer in ("zstd", "lz4"):
        pyarrow = pytest.importorskip("pyarrow")
        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, packer) as stream:
            stream.write(data)
        return bytes(sink.getvalue())
    return bytes(__import__(packer).compress(data))
