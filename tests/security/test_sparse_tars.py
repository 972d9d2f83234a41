"""A sparse file of a terabyte costs its reader as little as its sender."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import a_dataset
from wdsctl.core.index.index import index
from wdsctl.core.shards import tar_members


@pytest.mark.parametrize("end", [b"", b"x" * 512])
def test_index_does_not_read_sparse_hole_after_end_of_tar(
    tmp_path: Path, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tar_members.MAX_PADDING_BYTES <= 1 << 30
    monkeypatch.setattr(tar_members, "MAX_PADDING_BYTES", 1 << 25)
    root = a_dataset(tmp_path, {"a.tar": {"0.txt": b"text"}})
    with (tmp_path / "a.tar").open("r+b") as file:
        file.truncate(1 << 40)
        file.seek(-len(end), os.SEEK_END)
        file.write(end)

    report = index(root, workers=1)

    assert report.samples == 1
    assert [each.code for each in report.findings] == (["WDS117"] if end else [])
