"""Tables in the folder of their files: which folders have one, where each column goes, and which files are left."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import description_findings, open_error, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import InputError
from wdsctl.core.importers.protocol import DescribedSource, SourceDescription
from wdsctl.core.index.index import index

PICTURES = {f"{i}.jpg": b"\xff\xd8\xff\xe0 picture %d" % i for i in range(5)}
TABLE = b"image,caption\n" + b"".join(b"%d.jpg,caption %d\n" % (i, i) for i in range(4))


def read_tars(folder: Path) -> dict[str, bytes]:
    """The content of the shards of a dataset, as Python's tarfile reads it."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
            for member in archive:
                assert member.name not in found
                found[member.name] = archive.extractfile(member).read()  # type: ignore[union-attr]
    return found


def describe(path: str, options: Mapping[str, str] | None = None) -> SourceDescription:
    importer, _ = importers.best_importer(path)
    with importer.open(path, options or {}) as source:
        assert isinstance(source, DescribedSource)
        return source.describe()


def field_uses(path: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    return {use.name: use.becomes for use in describe(path, options).field_uses}


def convert_path(path: str, dest: Path, **options: str) -> ConvertReport:
    return convert([path], str(dest), ConvertRequest(format_options=options))


def test_files_that_rows_name_by_absolute_paths_are_in_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(a_folder(tmp_path / "photos", PICTURES))
    (root / "labels.csv").write_text("image,n\n" + "".join(f"{root}/{i}.jpg,{i}\n" for i in range(4)))
    monkeypatch.chdir(tmp_path)

    assert list(read_samples("photos")) == ["0", "1", "2", "3"]
    assert description_findings("photos") == [("WDS239", "error", 1)]


@pytest.mark.parametrize("name", ["labels.csv", "anything.csv", "data/train.csv", "annotations/labels.csv"])
def test_table_that_names_files_is_preferred_over_raw_folder(tmp_path: Path, name: str) -> None:
    root = a_folder(tmp_path / "photos", {**PICTURES, name: TABLE})

    importer, match = importers.best_importer(root)
    report = convert_path(root, tmp_path / "out")

    assert importer.name == "csv"
    assert match.reason == f"{name} names 4 of the folder's 5 files"
    assert read_tars(tmp_path / "out") == {
        name: data
        for i in range(4)
        for name, data in (
            (f"{i}.jpg", PICTURES[f"{i}.jpg"]),
            (f"{i}.json", b'{"caption":"caption %d"}' % i),
        )
    }
    assert report.sources[0].fields[1][:2] == ("caption", "json[caption]")


@pytest.mark.parametrize(
    ("name", "data", "form"),
    [
        ("t.tsv", b"image\tn\n0.jpg\t1\n", "csv"),
        ("t.jsonl", b'{"image": "0.jpg", "n": 1}\n', "jsonl"),
        ("t.ndjson", b'{"image": "0.jpg", "n": 1}\n', "jsonl"),
        ("t.json", b'[{"image": "0.jpg", "n": 1}]', "json"),
        ("sub/t.json", b'{"info": {}, "data": [{"image": "0.jpg", "n": 1}]}', "json"),
    ],
)
def test_table_of_every_format_is_found_next_to_its_files(tmp_path: Path, name: str, data: bytes, form: str) -> None:
    root = a_folder(tmp_path, {"0.jpg": PICTURES["0.jpg"], name: data})

    assert importers.best_importer(root)[0].name == form
    assert read_samples(root) == {"0": {"jpg": PICTURES["0.jpg"], "json": b'{"n":1}'}}
    assert field_uses(root)["image"] == "jpg"


def test_description_of_table_names_extensions_of_all_rows(tmp_path: Path) -> None:
    files = {f"{i:03d}.{'jpg' if i < 150 else 'webp'}": PICTURES["0.jpg"] for i in range(160)}
    root = a_folder(tmp_path, {**files, "t.csv": "\n".join(["image", *files]).encode()})

    assert field_uses(root)["image"] == "jpg, webp"


def test_table_finds_files_in_folder_of_any_name(tmp_path: Path) -> None:
    files = {f"scans/{name}": data for name, data in PICTURES.items()}
    root = a_folder(tmp_path, {**files, "t.csv": TABLE})

    assert read_samples(root)["0"]["jpg"] == PICTURES["0.jpg"]


def test_table_refuses_two_folders_with_named_files(tmp_path: Path) -> None:
    files = {f"{folder}/{name}": data for name, data in PICTURES.items() for folder in ("left", "right")}
    root = a_folder(tmp_path, {**files, "t.csv": TABLE})

    error = open_error(root)

    assert f"{root}/left, {root}/right" in error.message
    assert "-O base=" in error.hint
    assert read_samples(root, {"base": f"{root}/right"})["0"]["jpg"] == PICTURES["0.jpg"]


def test_table_references_must_stay_in_source_folder(tmp_path: Path) -> None:
    rows = b"image,n\n../photos/0.jpg,1\n"
    root = a_folder(tmp_path, {"photos/0.jpg": b"one", "tables/t.csv": rows, "photos/1.jpg": b"two"})

    assert read_samples(root) == {"photos/0": {"jpg": b"one", "json": b'{"n":1}'}}
    outside = a_folder(tmp_path / "other", {"t.csv": b"image,n\n../photos/0.jpg,1\n", "x.jpg": b"x"})
    assert importers.best_importer(outside)[0].name == "folder"


def test_table_that_names_no_file_is_not_preferred(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**PICTURES, "t.csv": b"id,n\nx,1\n"})

    found = {importer.name: match for importer, match in importers.find_importers(root)}

    assert importers.best_importer(root)[0].name == "folder"
    assert found["csv"].reason == "t.csv names none of the folder's 5 files"
    assert 0 < found["csv"].score < found["folder"].score


def test_table_alone_in_folder_is_source(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.csv": b"question,answer\na,b\n", "README.md": b"about"})

    assert read_samples(root) == {"000000000": {"json": b'{"question":"a","answer":"b"}'}}


def test_json_sidecars_are_not_tables(tmp_path: Path) -> None:
    sidecars = {f"{i}.json": b'[{"image": "%d.jpg"}]' % i for i in range(5)}
    root = a_folder(tmp_path, {**PICTURES, **sidecars})

    assert importers.best_importer(root)[0].name == "folder"
    assert len(read_samples(root)) == 5


@pytest.mark.parametrize("form", ["{}.csv", "data/{}.csv", "{}/metadata.csv"])
def test_tables_named_after_splits_become_splits(tmp_path: Path, form: str) -> None:
    tables = {
        form.format(split): b"file_name,n\n" + b"".join(b"%d.jpg,%d\n" % (i, i) for i in rows)
        for split, rows in (("train", (0, 1, 2)), ("validation", (3,)), ("test", (4,)))
    }
    root = a_folder(tmp_path / "in", {**{f"images/{name}": data for name, data in PICTURES.items()}, **tables})

    report = convert_path(root, tmp_path / "out")

    assert report.datasets[0].splits == {"train": 3, "val": 1, "test": 1}
    assert report.findings == ()
    assert read_tars(tmp_path / "out")["3.jpg"] == PICTURES["3.jpg"]


@pytest.mark.parametrize(
    ("names", "columns", "expected"),
    [
        (("train/a", "test/b"), "image,n", [("WDS258", "warning", 1)]),
        (("x/training/a", "x/val2017/b"), "image,n", [("WDS258", "warning", 1)]),
        (("train/a", "train/b"), "image,n", []),
        (("train/a", "other/b"), "image,n", []),
        (("train/a", "test/b"), "image,split", []),
    ],
)
def test_rows_in_folders_named_like_splits_and_in_no_split_are_reported(
    tmp_path: Path, names: tuple[str, ...], columns: str, expected: list[tuple[str, str, int]]
) -> None:
    rows = "".join(f"{name}.jpg,{split}\n" for name, split in zip(names, ("train", "test"), strict=True))
    files = {f"{name}.jpg": name.encode() for name in names}
    root = a_folder(tmp_path / "test" / "raw", {**files, "labels.csv": f"{columns}\n{rows}".encode()})

    assert description_findings(root) == expected
    assert description_findings(f"{root}/labels.csv") == expected


def test_split_tables_may_have_folders_with_equal_file_names(tmp_path: Path) -> None:
    files = {f"{split}/0.jpg": split.encode() for split in ("train", "val")}
    tables = {f"{split}.csv": b"image,n\n0.jpg,1\n" for split in ("train", "val")}
    root = a_folder(tmp_path, {**files, **tables})

    assert sorted(parts["jpg"] for parts in read_samples(root).values()) == [b"train", b"val"]


def test_split_tables_are_preferred_over_table_of_all_rows(tmp_path: Path) -> None:
    tables = {f"fr/{name}.tsv": f"path\ttext\n{n}.mp3\t{n}\n".encode() for n, name in enumerate(("train", "dev"))}
    tables["fr/validated.tsv"] = b"path\ttext\n0.mp3\t0\n1.mp3\t1\n"
    root = a_folder(tmp_path / "raw", {**tables, "fr/clips/0.mp3": b"0", "fr/clips/1.mp3": b"1"})

    assert importers.best_importer(root)[1].reason == (
        "fr/dev.tsv, fr/train.tsv, fr/validated.tsv name the folder's files"
    )
    assert description_findings(root) == [("WDS239", "warning", 1)]
    a_folder(tmp_path / "raw", {"fr/clips/2.mp3": b"2", "fr/clips/3.mp3": b"3", "fr/clips/\udcff.mp3": b"4"})
    a_folder(tmp_path / "raw", {"fr/validated.tsv": b"path\ttext\n0.mp3\t0\n2.mp3\t2\n"})
    # 2.mp3 is in a table that is left out; nothing names the others.
    assert description_findings(root) == [("WDS239", "warning", 1), ("WDS239", "warning", 1), ("WDS239", "error", 2)]
    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 1, "val": 1}


@pytest.mark.parametrize(
    "names", [("x/a.csv", "y/b.csv"), ("a.csv", "b.jsonl"), ("a.json", "b.json"), ("x/a.csv", "b.tsv")]
)
def test_unrelated_tables_are_refused_with_command_for_each(tmp_path: Path, names: tuple[str, str]) -> None:
    def rows(name: str) -> bytes:
        field = name.replace("/", "_")
        if name.endswith("csv"):
            return f"image,{field}\n0.jpg,1\n".encode()
        if name.endswith("tsv"):
            return f"image\t{field}\n0.jpg\t1\n".encode()
        row = json.dumps({"image": "0.jpg", field: 1})
        return f"[{row}]".encode() if name.endswith(".json") else row.encode()

    root = a_folder(tmp_path, {"0.jpg": b"one", **{name: rows(name) for name in names}})

    error = open_error(root)

    assert error.code == "WDS252"
    for name in names:
        below = {"base": root} if "/" in name else {}
        options = f" -O base={root}" if below else ""
        assert f"`wdsctl convert {root}/{name} DEST{options}`" in error.hint
        assert list(read_samples(f"{root}/{name}", below)) == ["0"]


@pytest.mark.parametrize("reference", ["0.jpg", "../0.jpg", "images/0.jpg"])
def test_table_with_files_outside_its_folder_is_refused_with_command(tmp_path: Path, reference: str) -> None:
    place = "images/0.jpg" if "images" in reference else "0.jpg"
    root = a_folder(tmp_path, {"tables/t.csv": f"image\n{reference}\n".encode(), place: b"x"})

    error = open_error(f"{root}/tables/t.csv")

    assert error.code == "WDS230"
    assert f"`wdsctl convert {root}/tables/t.csv DEST -O base={root}`" in error.hint
    assert [parts["jpg"] for parts in read_samples(f"{root}/tables/t.csv", {"base": root}).values()] == [b"x"]


def test_table_that_names_no_file_does_not_block_other_table(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**PICTURES, "train.csv": TABLE, "sample_submission.csv": b"id,label\n7,x\n"})

    (others,) = [found for found in describe(root).findings if "sample_submission" in found.message]

    assert len(read_samples(root)) == 4
    assert (others.code, others.severity) == ("WDS239", "error")


def test_files_that_no_row_names_are_counted_by_kind(tmp_path: Path) -> None:
    more = {"extra/5.png": b"x", "notes.npy": b"y", "README.md": b"z", ".hidden.jpg": b"h", "Thumbs.db": b"t"}
    root = a_folder(tmp_path / "in", {**PICTURES, **more, "t.csv": TABLE})

    report = convert_path(root, tmp_path / "out")
    found = [(each.code, each.severity, each.count) for each in report.findings]

    assert found == [("WDS239", "error", 2), ("WDS239", "error", 1), ("WDS239", "warning", 1)]
    assert "4.jpg" in report.findings[0].message
    assert "notes.npy" in report.findings[1].message


def test_unreferenced_media_next_to_given_table_are_warning(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**PICTURES, "t.csv": TABLE, "README.md": b"x"})

    (found,) = describe(f"{root}/t.csv").findings

    assert (found.code, found.severity, found.count) == ("WDS239", "warning", 1)
    assert "4.jpg" in found.message


def test_rows_that_share_file_get_unique_keys_and_are_counted(tmp_path: Path) -> None:
    rows = b"image,question\n0.jpg,a\n1.jpg,b\n0.jpg,c\n0.png,d\n"
    root = a_folder(tmp_path / "in", {**PICTURES, "0.png": b"p", "t.csv": rows})

    report = convert_path(f"{root}/t.csv", tmp_path / "out")
    files = read_tars(tmp_path / "out")

    assert {name: data for name, data in files.items() if name.endswith("json")} == {
        "0-000000000.json": b'{"question":"a"}',
        "1.json": b'{"question":"b"}',
        "0-000000002.json": b'{"question":"c"}',
        "0-000000003.json": b'{"question":"d"}',
    }
    assert files["0-000000002.jpg"] == PICTURES["0.jpg"]
    assert files["0-000000003.png"] == b"p"
    (repeated,) = [found for found in report.findings if found.code == "WDS250"]
    assert (repeated.severity, repeated.count) == ("note", 1)
    assert "0.jpg" in repeated.message


def test_rows_without_file_and_rows_with_missing_file_differ(tmp_path: Path) -> None:
    rows = b"image,n\n0.jpg,1\n,2\n1.jpg,3\n9.jpg,4\n"
    root = a_folder(tmp_path / "in", {"0.jpg": b"a", "1.jpg": b"b", "t.csv": rows})

    report = convert_path(root, tmp_path / "out")

    assert {(found.code, found.severity, found.count) for found in report.findings} == {
        ("WDS251", "warning", 1),
        ("WDS231", "error", 1),
    }
    assert report.failed == 1


def test_describe_lists_every_column(tmp_path: Path) -> None:
    rows = b"id,image,mask,caption,n\nx,0.jpg,m/0.png,hello,1\n"
    root = a_folder(tmp_path, {"0.jpg": b"a", "m/0.png": b"b", "t.csv": rows})

    assert field_uses(f"{root}/t.csv", {"key": "id", "text": "caption"}) == {
        "id": "json[id]",
        "image": "image.jpg",
        "mask": "mask.png",
        "caption": "txt",
        "n": "json[n]",
    }
    assert read_samples(f"{root}/t.csv", {"key": "id", "text": "caption"}) == {
        "x": {"image.jpg": b"a", "mask.png": b"b", "txt": b"hello", "json": b'{"id":"x","n":1}'}
    }


def test_describe_lists_fields_of_late_rows(tmp_path: Path) -> None:
    lines = [{"image": "0.jpg"}] * 200 + [{"image": "1.jpg", "late": {"a": [1]}}]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    root = a_folder(tmp_path, {"0.jpg": b"a", "1.jpg": b"b", "t.jsonl": data})

    assert field_uses(root) == {"image": "jpg", "late": "json[late]"}


def test_lists_of_files_are_described_by_part_numbers(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**PICTURES, "t.jsonl": b'{"images": ["0.jpg", "1.jpg"], "n": 1}\n'})

    assert field_uses(f"{root}/t.jsonl")["images"] == "0.jpg, 1.jpg"
    assert list(read_samples(f"{root}/t.jsonl")) == ["0"]


@pytest.mark.parametrize("source", ["in/t.jsonl", "in"])
def test_indexed_jsonl_has_same_samples(tmp_path: Path, source: str) -> None:
    lines = b'{"image": "0.jpg", "n": 1}\n{"image": "1.jpg", "n": 2}\n'
    a_folder(tmp_path / "in", {"0.jpg": b"one", "1.jpg": b"two", "t.jsonl": lines})
    before = read_samples(tmp_path / source)

    index(str(tmp_path / source))

    assert any("wdsctl" in path.name for path in (tmp_path / "in").iterdir())
    assert importers.best_importer(str(tmp_path / source))[0].name == "jsonl"
    assert read_samples(tmp_path / source) == before
    assert [parts["jpg"] for parts in before.values()] == [b"one", b"two"]


def test_conversations_in_folder_keep_their_media(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "That."}]
    rows = [{"id": f"a{i}", "image": "0.jpg", "conversations": turns} for i in range(2)]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    root = a_folder(tmp_path, {"images/0.jpg": b"one", "images/1.jpg": b"two", "t.jsonl": data})

    description = describe(root)

    assert {key: parts["jpg"] for key, parts in read_samples(root).items()} == {"a0": b"one", "a1": b"one"}
    assert description.config is not None
    assert description.config.sample_type == "ConversationSample"
    assert [(found.code, found.count) for found in description.findings] == [("WDS250", 1), ("WDS239", 1)]


def test_table_refuses_links_outside_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    root = a_folder(tmp_path / "in", {"0.jpg": b"a", "t.csv": b"image\n0.jpg\nlink.jpg\n"})
    (tmp_path / "in" / "link.jpg").symlink_to("../secret.jpg")

    report = convert_path(root, tmp_path / "out")

    assert b"secret" not in read_tars(tmp_path / "out").values()
    assert {found.code for found in report.findings if found.severity == "error"} == {"WDS230", "WDS239"}


def test_table_recognition_never_raises(tmp_path: Path) -> None:
    odd = {"a.csv": b"\0\xff", "b.jsonl": b"{", "c.json": b"[", "d.parquet": b"PAR1", "e.csv": b'"', "0.jpg": b"x"}
    root = a_folder(tmp_path, odd)

    for name in ("csv", "jsonl", "json", "parquet"):
        importers.get_importer(name).recognise(root)
    assert importers.best_importer(root)[0].name in importers.IMPORT_FORMATS


def test_folder_without_table_is_refused(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"0.jpg": b"x"})

    for name in ("csv", "json"):
        with pytest.raises(InputError, match="the folder has no file that ends in"):
            importers.get_importer(name).open(root, {})
