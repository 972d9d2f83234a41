"""References to files stay in their folder. What importers make of them is in their own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.errors import DatasetError, UsageError, WdsctlError
from wdsctl.core.importers.records.files import find_base, make_file_part, path_from_allowed, resolve_reference
from wdsctl.core.importers.records.values import check_format_options


@pytest.mark.parametrize(
    "reference",
    ["../x", "a/../../x", "/etc/passwd", "//host/x", "http://x/y.jpg", "s3://b/k", "file:///etc/passwd", "a/../b"],
)
def test_what_leads_outside_or_could_is_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(DatasetError) as error:
        resolve_reference(str(tmp_path), reference, "row 3")
    assert (error.value.code, error.value.where) == ("WDS230", "row 3")


@pytest.mark.parametrize("reference", ["", "  ", "a\0b", "folder", "none", "x.jpg/y", "n" * 300])
def test_what_is_no_file_is_missing(tmp_path: Path, reference: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "x.jpg").touch()

    with pytest.raises(WdsctlError) as error:
        make_file_part("jpg", str(tmp_path), reference, "row 3")
    assert error.value.code == ("WDS404" if len(reference) == 300 else "WDS231")


@pytest.mark.parametrize("reference", ["../x", "none.jpg"])
def test_who_says_where_references_begin_is_told_of_rows_alone(tmp_path: Path, reference: str) -> None:
    with pytest.raises(DatasetError) as of_rows:
        make_file_part("jpg", str(tmp_path), reference, "row 3")
    with pytest.raises(DatasetError) as of_an_index:
        resolve_reference(str(tmp_path), "../x", "index.json")
    assert "`-O base=" in of_rows.value.hint
    assert "base=" not in of_an_index.value.hint


def test_odd_names_of_files_are_names(tmp_path: Path) -> None:
    for name in ("a b.jpg", "..x", "x..", "$(rm -rf).jpg", "'; DROP TABLE.jpg", "\udcff.jpg"):
        (tmp_path / name).write_bytes(b"x")
        assert make_file_part("jpg", str(tmp_path), name, "").data == b"x"


def test_a_folder_beside_is_taken_only_where_the_files_are_there(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").touch()

    assert find_base(str(tmp_path), ["1.jpg"]) == str(tmp_path / "images")
    assert find_base(str(tmp_path), ["2.jpg", "/1.jpg", "\0"]) == str(tmp_path)


@pytest.fixture
def rooms(tmp_path: Path) -> Path:
    """`labels/` with a file of rows, `images/1.jpg` beside it, and a link in `labels/` that leads to it."""
    (tmp_path / "labels").mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").write_bytes(b"x")
    (tmp_path / "labels" / "linked.jpg").symlink_to(tmp_path / "images" / "1.jpg")
    return tmp_path


@pytest.mark.parametrize("reference", ["{root}/images/1.jpg", "../images/1.jpg", "linked.jpg", "images/1.jpg"])
@pytest.mark.parametrize("allowed", ["{root}", "/"])
def test_what_lies_below_a_folder_that_is_named_is_allowed(rooms: Path, reference: str, allowed: str) -> None:
    if (allowed, reference) == ("/", "images/1.jpg"):
        reference = f"{rooms}/images/1.jpg".removeprefix("/")  # it begins in the folder that is named
    found = make_file_part(
        "jpg", str(rooms / "labels"), reference.format(root=rooms), "row 1", allowed=allowed.format(root=rooms)
    )

    assert found.data == b"x"


@pytest.mark.parametrize(
    "reference", ["/etc/passwd", "../../etc/passwd", "http://x/1.jpg", "{root}/other/1.jpg", "out.jpg"]
)
def test_what_lies_elsewhere_is_refused_all_the_same(rooms: Path, reference: str) -> None:
    (rooms / "images" / "out.jpg").symlink_to("/etc/passwd")
    with pytest.raises(DatasetError) as error:
        make_file_part(
            "jpg", str(rooms / "labels"), reference.format(root=rooms), "row 1", allowed=str(rooms / "images")
        )
    assert error.value.code == "WDS230"


def test_the_error_names_the_folder_that_would_allow_it(rooms: Path) -> None:
    for reference in (f"{rooms}/images/1.jpg", "../images/1.jpg"):
        with pytest.raises(DatasetError) as error:
            make_file_part("jpg", str(rooms / "labels"), reference, "row 1")
        assert f"`-O base={rooms}/images`" in error.value.hint
        assert make_file_part("jpg", str(rooms / "labels"), reference, "row 1", allowed=f"{rooms}/images").data == b"x"


def test_a_key_is_made_of_the_path_below_the_folder_that_is_named(rooms: Path) -> None:
    for reference in (f"{rooms}/images/1.jpg", "../images/1.jpg", "images/1.jpg"):
        assert path_from_allowed(str(rooms), str(rooms / "labels"), reference, "row 1") == "images/1.jpg"


@pytest.mark.parametrize("reference", ["images\\a.jpg", " images/a.jpg", "images/A.JPG", "images/a.JPG "])
def test_a_reference_that_nearly_names_a_file_is_told_the_file(tmp_path: Path, reference: str) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").touch()

    with pytest.raises(DatasetError, match="the file does not exist") as error:
        make_file_part("jpg", str(tmp_path), reference, "row 3")
    assert error.value.hint == "there is 'images/a.jpg': spell the reference like the file"


def test_a_base_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"csv: the folder .*/nowhere of the option base does not exist"):
        check_format_options("csv", {"base": str(tmp_path / "nowhere")}, ("base",))
