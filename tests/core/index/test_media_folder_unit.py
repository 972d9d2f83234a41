from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import a_folder
from tests.core.media_samples import an_image, members
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.index.media_unit import (
    MediaFilesUnit,
    files_results,
    part_name_from_path,
    probe_files,
    split_into_units,
)
from wdsctl.core.shards.list import ShardFile, list_files


def a_unit(root: str, selection: str = "auto") -> MediaFilesUnit:
    return MediaFilesUnit(root, tuple(list_files(root).shards), selection)


def test_probe_files_returns_media_by_row_of_file(tmp_path: Path) -> None:
    unit = a_unit(a_folder(tmp_path, members()))
    found = probe_files(unit)

    assert {unit.files[each.row].path: (each.part, each.media_format.kind) for each in found.media} == {
        "1.jpg": ("jpg", "image"),
        "2.jpg": ("jpg", "unreadable"),
        "2.seg.png": ("png", "image"),
        "3.mp4": ("mp4", "video"),
        "4.wav": ("wav", "audio"),
        "5.bin": ("bin", "image"),
        "6.jpg": ("jpg", "unreadable"),
    }
    assert found.failed_rows == ()
    assert [finding.shard for finding in found.findings] == ["2.jpg", "6.jpg"]


def test_files_results_save_and_load_result(tmp_path: Path) -> None:
    unit = a_unit(a_folder(tmp_path, members()))
    results = files_results(str(tmp_path / "results"))
    assert results.save([unit], [probe_files(unit)]) == [True]
    assert results.load(unit) == probe_files(unit)


def test_probe_files_reports_missing_file_and_probes_others(tmp_path: Path) -> None:
    unit = a_unit(a_folder(tmp_path, {"a.png": an_image("PNG"), "b.png": an_image("PNG"), "c.png": an_image("PNG")}))
    (tmp_path / "b.png").unlink()
    found = probe_files(unit)

    assert ([each.row for each in found.media], found.failed_rows) == ([0, 2], (1,))
    assert [(finding.severity, finding.shard) for finding in found.findings] == [("error", "b.png")]


@pytest.mark.usefixtures("faulty_store")
def test_probe_files_in_remote_storage_skips_unreadable_file(tmp_path: Path) -> None:
    root = upload_shards(
        a_folder(tmp_path, {f"{name}.png": an_image("PNG") for name in "abc"}), "faulty://bucket/media", "*.png"
    )

    def bad(path: str, start: int, stop: int, data: bytes) -> bytes:
        if path.endswith("b.png"):
            raise PermissionError(13, "no")
        return data

    FaultyFileSystem.fault.append(bad)
    found = probe_files(a_unit(root))
    assert ([each.row for each in found.media], found.failed_rows) == ([0, 2], (1,))


files = st.lists(
    st.builds(ShardFile, path=st.text("abcdefgh", min_size=1, max_size=6), size=st.integers(0, 9), mtime_ns=st.just(1)),
    max_size=2000,
    unique_by=lambda file: file.path,
)


@given(files)
@settings(max_examples=20, deadline=None)
def test_split_into_units_contains_every_file_once_in_order(shard_files: list[ShardFile]) -> None:
    units = list(split_into_units("r", shard_files, "auto"))

    assert [file for unit in units for file in unit.files] == shard_files
    assert len({files_results("f").path(unit) for unit in units}) == len(units)
    assert all(len(unit.files) <= 512 for unit in units)


def test_new_files_leave_most_units_unchanged() -> None:
    shard_files = [ShardFile(f"{i:06}.jpg", 1, 1) for i in range(10_000)]
    before = {files_results("f").path(unit) for unit in split_into_units("r", shard_files, "auto")}
    after = {
        files_results("f").path(unit)
        for unit in split_into_units("r", [ShardFile("!.jpg", 1, 1), *shard_files], "auto")
    }

    assert len(before) > 25
    assert len(before - after) <= 3


@pytest.mark.parametrize(
    "other",
    [
        list(split_into_units("r", [ShardFile("a", 1, 2)], "auto")),
        list(split_into_units("r", [ShardFile("a", 2, 1)], "auto")),
        list(split_into_units("r", [ShardFile("a", 1, 1)], "jpg")),
        list(split_into_units("r", [ShardFile("a", 1, 1)], "auto", keyframes=True)),
    ],
)
def test_unit_path_depends_on_files_and_selection(other: list[MediaFilesUnit]) -> None:
    [unit] = split_into_units("r", [ShardFile("a", 1, 1)], "auto")
    assert files_results("f").path(unit) not in [files_results("f").path(each) for each in other]


@pytest.mark.parametrize(
    ("path", "part"), [("a/b.JPG", "jpg"), ("x.seg.png", "png"), ("noext", ""), ("a.b/c", ""), ("end.", "")]
)
def test_part_name_from_path_is_last_extension(path: str, part: str) -> None:
    assert part_name_from_path(path) == part
