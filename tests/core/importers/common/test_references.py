"""References to files must stay in their folder. How importers use them is tested with each importer."""

from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.errors import DatasetError, UsageError, WdsctlError
from wdsctl.core.importers.common.files import find_base, make_file_part, path_from_allowed, resolve_reference
from wdsctl.core.importers.common.values import check_format_options


@pytest.mark.parametrize(
    "reference",
    ["../x", "a/../../x", "/etc/passwd", "//host/x", "http://x/y.jpg", "s3://b/k", "file:///etc/passwd", "a/../b"],
)
def test_resolve_reference_refuses_paths_outside_folder(tmp_path: Path, reference: str) -> None:
    with pytest.raises(DatasetError) as error:
        resolve_reference(str(tmp_path), reference, "row 3")
    assert (error.value.code, error.value.where) == ("WDS230", "row 3")


@pytest.mark.parametrize("reference", ["", "  ", "a\0b", "folder", "none", "x.jpg/y", "n" * 300])
def test_make_file_part_reports_missing_file(tmp_path: Path, reference: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "x.jpg").touch()

    with pytest.raises(WdsctlError) as error:
        make_file_part("jpg", str(tmp_path), reference, "row 3")
    assert error.value.code == ("WDS404" if len(reference) == 300 else "WDS231")


@pytest.mark.parametrize("reference", ["../x", "none.jpg"])
def test_option_base_is_hinted_only_for_references_in_rows(tmp_path: Path, reference: str) -> None:
    with pytest.raises(DatasetError) as row_error:
        make_file_part("jpg", str(tmp_path), reference, "row 3")
    with pytest.raises(DatasetError) as index_error:
        resolve_reference(str(tmp_path), "../x", "index.json")
    assert "`-O base=" in row_error.value.hint
    assert "base=" not in index_error.value.hint


def test_make_file_part_accepts_odd_file_names(tmp_path: Path) -> None:
    for name in ("a b.jpg", "..x", "x..", "$(rm -rf).jpg", "'; DROP TABLE.jpg", "\udcff.jpg"):
        (tmp_path / name).write_bytes(b"x")
        assert make_file_part("jpg", str(tmp_path), name, "").data == b"x"


def test_find_base_uses_sibling_folder_only_if_it_has_files(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").touch()

    assert find_base(str(tmp_path), ["1.jpg"]) == str(tmp_path / "images")
    assert find_base(str(tmp_path), ["2.jpg", "/1.jpg", "\0"]) == str(tmp_path)


@pytest.fixture
def labels_and_images(tmp_path: Path) -> Path:
    """`labels/` with a file of rows, `images/1.jpg` beside it, and a link in `labels/` that leads to it."""
    (tmp_path / "labels").mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").write_bytes(b"x")
    (tmp_path / "labels" / "linked.jpg").symlink_to(tmp_path / "images" / "1.jpg")
    return tmp_path


@pytest.mark.parametrize("reference", ["{root}/images/1.jpg", "../images/1.jpg", "linked.jpg", "images/1.jpg"])
@pytest.mark.parametrize("allowed", ["{root}", "/"])
def test_make_file_part_reads_files_below_allowed_folder(labels_and_images: Path, reference: str, allowed: str) -> None:
    if (allowed, reference) == ("/", "images/1.jpg"):
        reference = f"{labels_and_images}/images/1.jpg".removeprefix("/")  # it is relative to the allowed folder
    found = make_file_part(
        "jpg",
        str(labels_and_images / "labels"),
        reference.format(root=labels_and_images),
        "row 1",
        allowed=allowed.format(root=labels_and_images),
    )

    assert found.data == b"x"


@pytest.mark.parametrize(
    "reference", ["/etc/passwd", "../../etc/passwd", "http://x/1.jpg", "{root}/other/1.jpg", "out.jpg"]
)
def test_make_file_part_refuses_files_outside_allowed_folder(labels_and_images: Path, reference: str) -> None:
    (labels_and_images / "images" / "out.jpg").symlink_to("/etc/passwd")
    with pytest.raises(DatasetError) as error:
        make_file_part(
            "jpg",
            str(labels_and_images / "labels"),
            reference.format(root=labels_and_images),
            "row 1",
            allowed=str(labels_and_images / "images"),
        )
    assert error.value.code == "WDS230"


def test_reference_error_names_folder_for_option_base(labels_and_images: Path) -> None:
    for reference in (f"{labels_and_images}/images/1.jpg", "../images/1.jpg"):
        with pytest.raises(DatasetError) as error:
            make_file_part("jpg", str(labels_and_images / "labels"), reference, "row 1")
        assert f"`-O base={labels_and_images}/images`" in error.value.hint
        assert (
            make_file_part(
                "jpg", str(labels_and_images / "labels"), reference, "row 1", allowed=f"{labels_and_images}/images"
            ).data
            == b"x"
        )


def test_path_from_allowed_is_relative_to_allowed_folder(labels_and_images: Path) -> None:
    for reference in (f"{labels_and_images}/images/1.jpg", "../images/1.jpg", "images/1.jpg"):
        assert (
            path_from_allowed(str(labels_and_images), str(labels_and_images / "labels"), reference, "row 1")
            == "images/1.jpg"
        )


@pytest.mark.parametrize("reference", ["images\\a.jpg", " images/a.jpg", "images/A.JPG", "images/a.JPG "])
def test_reference_in_another_spelling_is_that_file(tmp_path: Path, reference: str) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").touch()

    assert make_file_part("jpg", str(tmp_path), reference, "row 3").path == f"{tmp_path}/images/a.jpg"


def test_option_base_must_be_existing_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"csv: the folder .*/nowhere of the option base does not exist"):
        check_format_options("csv", {"base": str(tmp_path / "nowhere")}, ("base",))
