"""The importer of raw folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import open_error, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import DatasetError


def test_files_with_same_stem_are_one_sample(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"x", "a/1.seg.png": b"y", "b/2.jpg": b"", "b/2.seg.png": b"z"})

    assert importers.best_importer(root)[0].name == "folder"
    assert read_samples(root) == {"a/1": {"jpg": b"x", "seg.png": b"y"}, "b/2": {"jpg": b"", "seg.png": b"z"}}


def test_incomplete_samples_follow_on_missing(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"1.jpg": b"x", "1.txt": b"y", "2.jpg": b"x", "3.jpg": b"x", "3.txt": b"y"})

    assert open_error(root).code == "WDS201"
    assert list(read_samples(root, {"on-missing": "skip"})) == ["1", "3"]
    assert list(read_samples(root, {"on-missing": "keep"})) == ["1", "2", "3"]
    assert list(read_samples(root, {"parts": "jpg"})) == ["1", "2", "3"]
    assert open_error(root, {"on-missing": "ignore"}).exit_code == 2


def test_file_that_grew_after_listing_is_refused(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"1.jpg": b"x"})
    with importers.get_importer("folder").open(root, {}) as source:
        a_folder(tmp_path, {"1.jpg": b"xyz"})
        with pytest.raises(DatasetError) as error:
            source.read(0)
    assert error.value.code == "WDS202"


def test_digest_changes_with_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"1.jpg": b"x"})
    importer = importers.get_importer("folder")
    with importer.open(root, {}) as first:
        before = first.digest()
    a_folder(tmp_path, {"2.jpg": b"x"})
    with importer.open(root, {}) as second:
        assert second.digest() != before


@pytest.mark.parametrize(
    ("policy", "expected_action"), [("skip", "left out"), ("keep", "only existing parts were used")]
)
def test_incomplete_samples_are_reported_for_option(tmp_path: Path, policy: str, expected_action: str) -> None:
    root = a_folder(tmp_path / "raw", {"1.jpg": b"x", "1.txt": b"y", "2.jpg": b"x", "3.jpg": b"x", "3.txt": b"y"})

    report = convert([root], str(tmp_path / "made"), ConvertRequest(format_options={"on-missing": policy}))

    (finding,) = report.findings
    assert (finding.code, finding.severity) == ("WDS201", "warning")
    assert finding.message == f"1 incomplete sample (such as 2: no txt): {expected_action}"
    listed = Path(report.left_out_list).read_text(encoding="utf-8") if report.left_out_list else ""
    assert (f"\t{root}/2\t" in listed) == (policy == "skip")


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("captions.txt", "image,caption\nImages/1.jpg,a cat\n", "csv"),
        ("labels.csv", "image,caption\n1,a cat\n", "csv"),
        ("rows.jsonl", '{"image": "Images/1.jpg", "caption": "a cat"}\n', "jsonl"),
        ("rows.json", '{"image": "Images/1.jpg"}\n{"image": "Images/2.jpg"}\n', "jsonl"),
    ],
)
def test_hint_has_command_for_lone_table_that_names_media(tmp_path: Path, name: str, text: str, form: str) -> None:
    a_folder(tmp_path, {f"Images/{i}.jpg": b"x" for i in (1, 2, 3)})
    (tmp_path / name).write_text(text)

    error = open_error(tmp_path, form="folder")

    assert error.code == "WDS201"
    command = f"`wdsctl convert {tmp_path}/{name} DEST --from {form}`"
    assert error.hint.startswith(f"if {name} contains the labels of the files, run {command}; or complete the samples")


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [("gt.txt", '1.jpg, "a cat"\n2.jpg, "a dog"\n', "csv"), ("texts.json", '{"1": "a cat", "2": "a dog"}', "json")],
)
def test_hint_has_command_for_lone_labels_that_need_an_option(tmp_path: Path, name: str, text: str, form: str) -> None:
    a_folder(tmp_path, {f"Images/{i}.jpg": b"x" for i in (1, 2, 3)})
    (tmp_path / name).write_text(text)

    command = f"`wdsctl convert {tmp_path}/{name} DEST --from {form}`"
    assert open_error(tmp_path, form="folder").hint.startswith(
        f"if {name} contains the labels of the files, run {command}, which says how to read them; or complete"
    )


@pytest.mark.parametrize("text", ["we took these in June\n", "# Images\n1 ok Images/1.jpg\n2 ok Images/2.jpg\n"])
def test_hint_has_no_command_for_text_that_is_no_table_of_media(tmp_path: Path, text: str) -> None:
    a_folder(tmp_path, {f"Images/{i}.jpg": b"x" for i in (1, 2, 3)})
    (tmp_path / "notes.txt").write_text(text)

    assert "--from" not in open_error(tmp_path, form="folder").hint


@pytest.mark.parametrize(
    "folders",
    [("2024-05-06", "2024-05-07"), ("202405", "202406"), ("100APPLE", "101APPLE"), ("20240506 trip", "20240701 lake")],
)
def test_folders_named_by_days_or_cameras_are_neither_classes_nor_parts(
    tmp_path: Path, folders: tuple[str, str]
) -> None:
    for names in (("0000", "0100", "0200", "0300"), ("IMG_1", "IMG_2", "IMG_3")):
        root = a_folder(
            tmp_path / names[0], {f"DCIM/{folder}/{name}.jpg": b"x" for folder in folders for name in names}
        )

        assert importers.best_importer(root)[0].name == "folder"


@pytest.mark.parametrize(
    "folders", [("10", "11"), ("20200000", "20200001"), ("n01440764", "n01443537"), ("1950s", "1960s")]
)
def test_numbers_and_codes_may_be_classes(tmp_path: Path, folders: tuple[str, str]) -> None:
    files = {f"{folder}/{folder}_{i}.jpg": b"x" for folder in folders for i in range(3)}

    assert importers.best_importer(a_folder(tmp_path, files))[0].name == "imagefolder"
