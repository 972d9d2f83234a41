from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import a_folder
from tests.core.medley import an_image, members
from tests.remote import FaultyFileSystem, uploaded
from wdsctl.core.media.file_unit import FileUnit, file_units, found_among, part_of, run_file_unit
from wdsctl.core.media.found import load_found
from wdsctl.core.shard_list import list_files
from wdsctl.core.units import ShardFile


def a_unit(root: str, selection: str = "auto") -> FileUnit:
    return FileUnit(root, list_files(root).shards, selection, os.path.join(root, ".unit"))


def test_every_medium_is_found_by_its_place_among_the_files(tmp_path: Path) -> None:
    unit = a_unit(a_folder(tmp_path, members()))
    found = found_among(unit)

    assert {unit.files[each.row].path: (each.part, each.form.kind) for each in found.media} == {
        "1.jpg": ("jpg", "image"),
        "2.jpg": ("jpg", "unreadable"),
        "2.seg.png": ("png", "image"),
        "3.mp4": ("mp4", "video"),
        "4.wav": ("wav", "audio"),
        "5.bin": ("bin", "image"),
        "6.jpg": ("jpg", "unreadable"),
    }
    assert found.failed == ()
    assert [finding.shard for finding in found.findings] == ["2.jpg", "6.jpg"]


def test_the_result_is_saved(tmp_path: Path) -> None:
    unit = a_unit(a_folder(tmp_path, members()))
    run_file_unit(unit)
    assert load_found(unit.result) == found_among(unit)


def test_a_file_that_is_gone_by_then_is_told_of_and_the_others_are_found(tmp_path: Path) -> None:
    unit = a_unit(a_folder(tmp_path, {"a.png": an_image("PNG"), "b.png": an_image("PNG"), "c.png": an_image("PNG")}))
    (tmp_path / "b.png").unlink()
    found = found_among(unit)

    assert ([each.row for each in found.media], found.failed) == ([0, 2], (1,))
    assert [(finding.severity, finding.shard) for finding in found.findings] == [("error", "b.png")]


@pytest.mark.usefixtures("faulty_store")
def test_in_a_store_too_one_bad_file_spoils_no_other(tmp_path: Path) -> None:
    root = uploaded(
        a_folder(tmp_path, {f"{name}.png": an_image("PNG") for name in "abc"}), "faulty://bucket/media", "*.png"
    )

    def bad(path: str, start: int, stop: int, data: bytes) -> bytes:
        if path.endswith("b.png"):
            raise PermissionError(13, "no")
        return data

    FaultyFileSystem.fault.append(bad)
    found = found_among(a_unit(root))
    assert ([each.row for each in found.media], found.failed) == ([0, 2], (1,))


files = st.lists(
    st.builds(ShardFile, path=st.text("abcdefgh", min_size=1, max_size=6), size=st.integers(0, 9), mtime_ns=st.just(1)),
    max_size=2000,
    unique_by=lambda file: file.path,
)


@given(files)
@settings(max_examples=20, deadline=None)
def test_units_hold_every_file_once_in_order(some: list[ShardFile]) -> None:
    units = list(file_units("r", some, "folder", "auto"))

    assert [file for unit in units for file in unit.files] == some
    assert len({unit.result for unit in units}) == len(units)
    assert all(len(unit.files) <= 512 for unit in units)


def test_files_that_come_leave_most_units_as_they_were() -> None:
    some = [ShardFile(f"{i:06}.jpg", 1, 1) for i in range(10_000)]
    before = {unit.result for unit in file_units("r", some, "folder", "auto")}
    after = {unit.result for unit in file_units("r", [ShardFile("!.jpg", 1, 1), *some], "folder", "auto")}

    assert len(before) > 25
    assert len(before - after) <= 3


@pytest.mark.parametrize(
    "other",
    [
        list(file_units("r", [ShardFile("a", 1, 2)], "f", "auto")),
        list(file_units("r", [ShardFile("a", 2, 1)], "f", "auto")),
        list(file_units("r", [ShardFile("a", 1, 1)], "f", "jpg")),
        list(file_units("r", [ShardFile("a", 1, 1)], "f", "auto", keyframes=True)),
        list(file_units("r", [ShardFile("a", 1, 1)], "f", "auto", version=2)),
    ],
)
def test_another_file_or_another_question_is_another_unit(other: list[FileUnit]) -> None:
    [unit] = file_units("r", [ShardFile("a", 1, 1)], "f", "auto")
    assert unit.result not in [each.result for each in other]


@pytest.mark.parametrize(
    ("path", "part"), [("a/b.JPG", "jpg"), ("x.seg.png", "png"), ("noext", ""), ("a.b/c", ""), ("end.", "")]
)
def test_the_part_of_a_file_is_its_last_extension(path: str, part: str) -> None:
    assert part_of(path) == part
