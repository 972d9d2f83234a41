from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest

from wdsctl.core.convert.exporters.shards import EXPORTER
from wdsctl.core.errors import UsageError
from wdsctl.core.importers.protocol import Part

SAMPLES = [("a/1", [Part("jpg", b"x" * 700), Part("txt", b"")]), ("ü" * 200, [Part("json", b"{}")])]


def test_shard_keeps_sample_order_and_is_reproducible(tmp_path: Path) -> None:
    units = [EXPORTER.write(str(tmp_path / n), ((k, iter(p)) for k, p in SAMPLES), {}) for n in ("a.tar", "b")]

    with tarfile.open(tmp_path / "a.tar") as archive:
        restored = {member.name: file.read() for member in archive if (file := archive.extractfile(member))}
    assert restored == {f"{key}.{part.name}": part.data for key, parts in SAMPLES for part in parts}
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b").read_bytes()
    assert [(unit.samples, unit.size_bytes) for unit in units] == [(2, (tmp_path / "b").stat().st_size)] * 2


def test_compressed_shard_is_compressed_form_of_same_shard(tmp_path: Path) -> None:
    EXPORTER.write(str(tmp_path / "a"), ((k, iter(p)) for k, p in SAMPLES), {})
    unit = EXPORTER.write(str(tmp_path / "b"), ((k, iter(p)) for k, p in SAMPLES), {"compress": "gz", "level": "9"})

    compressed = (tmp_path / "b").read_bytes()
    assert gzip.decompress(compressed) == (tmp_path / "a").read_bytes()
    assert unit.size_bytes == len(compressed)
    assert compressed[4:8] == bytes(4)  # no timestamp


@pytest.mark.parametrize("options", [{"compress": "zip"}, {"level": "10"}, {"colour": "red"}])
def test_unknown_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        EXPORTER.check(options)
