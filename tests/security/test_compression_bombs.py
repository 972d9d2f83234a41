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
