"""The exporter to a folder of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.core.formats import write_unit
from wdsctl.core.errors import DatasetError


def test_keys_with_unsafe_paths_stay_below_folder(tmp_path: Path) -> None:
    keys = ("../../evil", "/etc/passwd", "a//b", "./c", "x" * 300, "a/" + "é" * 200, "..")
    folder = Path(write_unit(tmp_path / "in" / "d", "folder", {key: {"txt": b"x"} for key in keys}))

    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert len(files) == len(keys)
    assert all(path.is_relative_to(folder) for path in files)
    assert (folder / "%2E%2E" / "%2E%2E" / "evil.txt").read_bytes() == b"x"
    assert all(path.name.endswith(".txt") for path in files)
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("keys", [("a", "a"), ("a", "a.txt/b"), ("a.txt/b", "a")])
def test_parts_with_same_file_name_are_refused(tmp_path: Path, keys: tuple[str, str]) -> None:
    from wdsctl.core.convert import exporters
    from wdsctl.core.importers.protocol import Part

    with pytest.raises(DatasetError) as error:
        exporters.get_exporter("folder").write(
            str(tmp_path / "d"), ((key, iter([Part("txt", b"x")])) for key in keys), {}
        )
    assert error.value.code == "WDS237"


def test_unwritable_folder_is_named_in_error(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / ".draft").write_bytes(b"")

    with pytest.raises(OSError, match="cannot write") as error:
        write_unit(tmp_path / "d", "folder", {"a": {"txt": b"x"}})
    assert ".draft" in str(error.value)
