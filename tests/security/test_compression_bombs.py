"""Compressed tars of a few KiB that claim gigabytes are refused before memory is allocated."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers.compressed_tars import IMPORTER


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_compressed_tar_with_huge_header_is_reported_as_damage(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 1 << 28
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(1 << 8):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    with IMPORTER.open(str(tmp_path), {}) as source:
        assert list(source.entries()) == []
        assert [each.code for each in source.problems] == ["WDS102"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 26


def test_size_limit_applies_to_all_parts_of_sample_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wdsctl.core.importers.compressed_tars._MAX_SAMPLE_BYTES", 1 << 20)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for part in ("a", "b", "c"):
            member = tarfile.TarInfo(f"key.{part}")
            member.size = 1 << 19
            archive.addfile(member, io.BytesIO(bytes(1 << 19)))
    with IMPORTER.open(str(tmp_path), {}) as source:
        (known,) = source.list_samples()
        with pytest.raises(WdsctlError, match="a sample has more than") as caught:
            source.read(known.sample_index)
    assert caught.value.code == "WDS233"


def _sparse_member(map_: bytes, size: int) -> bytes:
    """A file of GNU tar's sparse format 1.0, in which a map precedes the data."""
    facts = {"major": "1", "minor": "0", "name": "0.bin", "realsize": str(size)}
    member = tarfile.TarInfo("GNUSparseFile.0/0.bin")
    member.pax_headers = {f"GNU.sparse.{name}": value for name, value in facts.items()}
    member.size = len(map_) + -len(map_) % 512
    return member.tobuf(tarfile.PAX_FORMAT) + map_.ljust(member.size, b"\0")


def test_map_of_a_sparse_file_is_bounded(tmp_path: Path) -> None:
    entries = b"1\n0\n3\n".ljust(512, b"\0") + b"abc"
    for name, data in (
        ("ok", _sparse_member(entries, 5)),
        ("long", _sparse_member(b"9999999\n" + b"1\n" * (1 << 20), 5)),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.tar.gz").write_bytes(gzip.compress(data + bytes(1024)))
    with IMPORTER.open(str(tmp_path / "ok"), {}) as source:
        (known,) = source.list_samples()
        assert source.read(known.sample_index)[0].data == b"abc\0\0"
    with IMPORTER.open(str(tmp_path / "long"), {}) as source:
        assert list(source.entries()) == []
        assert [each.code for each in source.problems] == ["WDS102"]
