"""Tables whose rows name media files without their extension, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import open_error, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.importers.protocol import DescribedSource, SourceDescription

PICTURES = {f"images/{i}.jpg": b"\xff\xd8\xff\xe0 picture %d" % i for i in range(4)}
TABLE = b"image,caption\n" + b"".join(b"%d,caption %d\n" % (i, i) for i in range(4))


def describe(path: str) -> SourceDescription:
    with importers.best_importer(path)[0].open(path, {}) as source:
        assert isinstance(source, DescribedSource)
        return source.describe()


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.json"])
def test_names_without_extension_refer_to_media_of_one_folder(tmp_path: Path, name: str) -> None:
    lines = [f'{{"image": {i}, "caption": "caption {i}"}}' for i in range(4)]
    tables = {"t.csv": TABLE, "t.jsonl": "\n".join(lines).encode(), "t.json": f"[{','.join(lines)}]".encode()}
    root = a_folder(tmp_path, {**PICTURES, name: tables[name]})

    found = read_samples(f"{root}/{name}")

    assert found["2"] == {"jpg": PICTURES["images/2.jpg"], "json": b'{"caption":"caption 2"}'}
    (use, _) = describe(f"{root}/{name}").field_uses
    assert (use.name, use.becomes) == ("image", "jpg")
    assert use.note == "names files without extension, such as 0 for 0.jpg"


def test_names_with_folder_are_relative_to_table(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**PICTURES, "t.csv": TABLE.replace(b"\n", b"\nimages/", 4)})

    assert read_samples(f"{root}/t.csv")["images/3"]["jpg"] == PICTURES["images/3.jpg"]


@pytest.mark.parametrize(
    "more",
    [{"other/0.jpg": b"o", "other/1.jpg": b"o", "other/2.jpg": b"o", "other/3.jpg": b"o"}, {"images/2.png": b"p"}],
)
def test_names_without_extension_of_several_files_are_refused(tmp_path: Path, more: dict[str, bytes]) -> None:
    root = a_folder(tmp_path, {**PICTURES, **more, "t.csv": TABLE})

    if "images/2.png" in more:
        (fault,) = read_errors(f"{root}/t.csv").values()
        assert fault.code == "WDS231"
        assert "'2': several files may have this name: 2.jpg and 2.png" in fault.message
    else:
        error = open_error(f"{root}/t.csv")
        assert f"{root}/images, {root}/other" in error.message
        assert read_samples(f"{root}/t.csv", {"base": f"{root}/other"})["0"]["jpg"] == b"o"


@pytest.mark.parametrize("column", [b"label", b"fold"])
def test_label_column_is_not_treated_as_file_names(tmp_path: Path, column: bytes) -> None:
    rows = b"".join(b"%d,text %d\n" % (i % 2, i) for i in range(20))
    root = a_folder(tmp_path, {**PICTURES, "t.csv": column + b",text\n" + rows})

    error = open_error(f"{root}/t.csv")

    assert error.code == "WDS239"
    assert "name none of the 4 media files beside the table, such as images/0.jpg" in error.message
    assert read_samples(f"{root}/t.csv", {"files": ""})["000000001"].keys() == {"json"}


@pytest.mark.parametrize(
    ("row", "severity"),
    [
        ({"tokens": [7, 1, 2]}, "note"),
        ({"text": "a sentence", "id": "doc-7"}, "note"),
        ({"image_id": "x7", "text": "a"}, "error"),
        ({"label": 0}, "error"),  # images/0.jpg
    ],
)
def test_media_next_to_table_are_an_error_only_if_a_field_has_file_names(
    tmp_path: Path, row: dict[str, object], severity: str
) -> None:
    root = a_folder(tmp_path, {**PICTURES, "t.jsonl": json.dumps(row).encode() + b"\n"})

    if severity == "error":
        assert open_error(f"{root}/t.jsonl").code == "WDS239"
        return
    (finding,) = [each for each in describe(f"{root}/t.jsonl").findings if each.code == "WDS239"]
    assert (finding.severity, finding.count) == (severity, 4)


def test_table_without_media_in_folder_has_no_finding(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": TABLE})

    assert describe(f"{root}/t.csv").findings == ()


def test_ljspeech_table_is_imported_like_its_folder(tmp_path: Path) -> None:
    wavs = {f"wavs/LJ001-000{i}.wav": b"RIFF" for i in range(3)}
    lines = b"".join(b"LJ001-000%d|Dr. %d|Doctor %d\n" % (i, i, i) for i in range(3))
    root = a_folder(tmp_path, {**wavs, "metadata.csv": lines})

    importer, _ = importers.best_importer(f"{root}/metadata.csv")

    assert importer.name == "speech"
    assert read_samples(f"{root}/metadata.csv") == read_samples(root)
    assert len(read_samples(root)) == 3


def test_header_that_names_file_is_refused_as_data_row(tmp_path: Path) -> None:
    rows = b"".join(b"utt%d\tso it is said %d\n" % (i, i) for i in range(4))
    root = a_folder(tmp_path, {**{f"wavs/utt{i}.wav": b"RIFF" for i in range(4)}, "t.tsv": rows})

    error = open_error(f"{root}/t.tsv")

    assert (error.code, "-O columns=file,text" in error.hint) == ("WDS243", True)
    assert list(read_samples(f"{root}/t.tsv", {"columns": "file,text"})) == ["utt0", "utt1", "utt2", "utt3"]
    assert list(read_samples(f"{root}/t.tsv", {"header": "yes"})) == ["utt1", "utt2", "utt3"]


def test_urls_of_media_have_warning(tmp_path: Path) -> None:
    rows = b"".join(b"http://x.example/%d.jpg?w=9,http://x.example/%d.html,%d\n" % (i, i, i) for i in range(4))
    root = a_folder(tmp_path, {"t.csv": b"url,page,n\n" + rows})

    (finding,) = describe(f"{root}/t.csv").findings
    assert (finding.code, finding.severity, "'url' has URLs of media" in finding.message) == ("WDS230", "warning", True)


@pytest.mark.parametrize(
    ("values", "files"),
    [
        ("records100/00000/{:05d}_lr", ("{c}.dat", "{c}.hea")),  # as PTB-XL
        ("BraTS20_Training_{:03d}", ("{c}/{c}_flair.nii.gz", "{c}/{c}_seg.nii.gz")),
        ("P{:03d}", ("labels/{c}.nii.gz", "volumes/{c}.npy")),
    ],
)
def test_files_that_begin_with_values_are_named(tmp_path: Path, values: str, files: tuple[str, ...]) -> None:
    names = [values.format(i) for i in range(6)]
    data = {each.replace("{c}", name): f"{each} {name}".encode() for each in files for name in names}
    table = "c,grade\n" + "".join(f"{name},{i}\n" for i, name in enumerate(names))
    root = a_folder(tmp_path / "raw", {"rows.csv": table.encode(), "other.txt": b"x", **data})

    error = open_error(f"{root}/rows.csv")
    assert (error.code, f"files={','.join(files)}" in (error.hint or "")) == ("WDS239", True)
    samples = read_samples(f"{root}/rows.csv", {"files": ",".join(files)})
    assert {content for parts in samples.values() for part, content in parts.items() if part != "json"} == {
        *data.values()
    }


def test_values_lead_to_no_files_outside_of_the_folder(tmp_path: Path) -> None:
    a_folder(tmp_path / "other", {f"{i}.dat": b"x" for i in range(4)})
    for values in ("../other/{}", f"{tmp_path}/other/{{}}", "link/{}"):
        table = "c\n" + "".join(f"{values.format(i)}\n" for i in range(4))
        root = a_folder(tmp_path / "raw", {"rows.csv": table.encode()})
        if not (tmp_path / "raw" / "link").exists():
            (tmp_path / "raw" / "link").symlink_to(tmp_path / "other")
        assert len(read_samples(f"{root}/rows.csv")) == 4


def test_tables_below_lone_folder_that_name_no_files_have_commands_without_base(tmp_path: Path) -> None:
    tables = {
        f"{name}.csv": b"id,grade\n" + b"".join(b"case_%d,x\n" % i for i in range(4)) for name in ("ages", "types")
    }
    files = {f"case_{i}/case_{i}_seg.nii.gz": b"%d" % i for i in range(4)}
    a_folder(tmp_path / "raw" / "train", {**tables, **files})

    error = open_error(str(tmp_path / "raw"), form="csv")
    assert (error.code, "base=" in (error.hint or "")) == ("WDS252", False)
