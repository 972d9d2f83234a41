"""A sparse file of a terabyte costs its sender nothing, and its reader not much more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import a_dataset
from wdsctl.core.index.index import index


@pytest.mark.parametrize("end", [b"", b"x" * 512])
def test_a_hole_behind_the_end_of_a_tar_is_not_read_through(tmp_path: Path, end: bytes) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.txt": b"text"}})
    with (tmp_path / "a.tar").open("r+b") as file:
        file.truncate(1 << 40)
        file.seek(-len(end), os.SEEK_END)
        file.write(end)

    report = index(root, workers=1)

    assert report.samples == 1
    assert [each.code for each in report.findings] == (["WDS117"] if end else [])
