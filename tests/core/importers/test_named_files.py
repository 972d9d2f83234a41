"""How rows name files: by path, template or stem, in any folder and spelling. All files and labels are compared."""

from __future__ import annotations

import csv
import io
import json
import shlex
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder
from tests.core.formats import Samples, open_error, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers.protocol import DescribedSource

FORMATS = ("csv", "tsv", "json", "jsonl", "parquet")


def encode_table(rows: list[dict[str, Any]], form: str) -> bytes:
    if form == "json":
        return json.dumps(rows).encode()
    if form == "jsonl":
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), buffer)
        return buffer.getvalue()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter="\t" if form == "tsv" else ",", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def pairs_of(samples: Samples, field: str = "caption") -> dict[bytes, Any]:
    """The content of the medium of each sample -> its label."""
    found = {}
    for parts in samples.values():
        (medium,) = (data for name, data in parts.items() if name != "json")
        assert medium not in found
        found[medium] = json.loads(parts["json"])[field]
    return found


def commands_of(error: WdsctlError) -> list[dict[str, str]]:
    """The options of the format in each command of a hint."""
    commands = [text for i, text in enumerate((error.hint or "").split("`")) if i % 2 and text.startswith("wdsctl ")]
    words = [shlex.split(command) for command in commands]
    return [dict(each[i + 1].split("=", 1) for i, word in enumerate(each) if word == "-O") for each in words]


def picture(i: int) -> bytes:
    return b"\xff\xd8\xff\xe0 picture %d" % i


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("table", "folder", "value"),
    [
        ("labels", "", "{}.jpg"),
        ("labels", "pictures", "{}.jpg"),
        ("labels", "pictures", "{}"),
        ("labels", "deep/er/est", "{}.jpg"),
        ("meta/labels", "pictures/a", "a/{}.jpg"),
        ("meta/labels", "pictures", "{}"),
        ("meta/labels", "pictures", "../pictures/{}.jpg"),
    ],
)
def test_folder_table_and_option_base_give_same_samples(
    tmp_path: Path, form: str, table: str, folder: str, value: str
) -> None:
    rows = [{"file": value.format(f"p{i:03}"), "caption": f"a cat {i}"} for i in range(6)]
    files = {f"{folder}/p{i:03}.jpg".lstrip("/"): picture(i) for i in range(6)}
    root = a_folder(tmp_path / "raw", {**files, f"{table}.{form}": encode_table(rows, form)})
    expected = {picture(i): f"a cat {i}" for i in range(6)}

    whole = read_samples(root)
    named = read_samples(f"{root}/{table}.{form}", {"base": root})

    assert pairs_of(whole) == pairs_of(named) == expected
    assert whole.keys() == named.keys()
    if "/" not in table:
        assert read_samples(f"{root}/{table}.{form}") == whole
    else:
        error = open_error(f"{root}/{table}.{form}")
        assert error.code == "WDS230"
        options, *alone = commands_of(error)
        assert alone == ([{"files": ""}] if value == "{}" else [])
        assert pairs_of(read_samples(f"{root}/{table}.{form}", options)) == expected


@pytest.mark.parametrize(
    ("value", "file"),
    [
        ("a.jpg", "a.JPG"),
        ("Images/A.jpg", "images/a.jpg"),
        ("images\\a.jpg", "images/a.jpg"),
        ("./images/a.jpg", "images/a.jpg"),
        (" images/a.jpg ", "images/a.jpg"),
        ("a%20b.jpg", "a b.jpg"),
        ("a b.jpg", "a%20b.jpg"),
        (unicodedata.normalize("NFC", "é.jpg"), unicodedata.normalize("NFD", "é.jpg")),
        ("A", "a.jpg"),
    ],
)
def test_other_spelling_of_one_file_is_that_file(tmp_path: Path, value: str, file: str) -> None:
    row = json.dumps({"image": value, "caption": "one"}).encode()
    root = a_folder(tmp_path, {file: picture(1), "t.jsonl": row})

    assert pairs_of(read_samples(root)) == pairs_of(read_samples(f"{root}/t.jsonl")) == {picture(1): "one"}


def test_spellings_of_two_files_are_refused_with_both(tmp_path: Path) -> None:
    rows = [{"image": name, "caption": name} for name in ("b.jpg", "A.JPG", "a.jpg")]
    files = {"a.jpg": b"1", "A.jpg": b"2", "b.jpg": b"3"}
    root = a_folder(tmp_path, {**files, "t.jsonl": encode_table(rows, "jsonl")})

    (fault,) = read_errors(root).values()

    assert (fault.code, "A.jpg and a.jpg" in fault.message) == ("WDS231", True)


def test_columns_have_folders_of_their_own(tmp_path: Path) -> None:
    rows = [{"image": f"{i}.png", "mask": f"{i}.png", "n": i} for i in range(4)]
    files = {f"{kind}/{i}.png": f"{kind} {i}".encode() for kind in ("images", "masks") for i in range(4)}
    root = a_folder(tmp_path, {**files, "t.csv": encode_table(rows, "csv")})

    for source in (root, f"{root}/t.csv"):
        found = read_samples(source)
        assert {key: (parts["image.png"], parts["mask.png"]) for key, parts in found.items()} == {
            str(i): (b"images %d" % i, b"masks %d" % i) for i in range(4)
        }


def test_columns_that_name_different_files_are_refused_with_command_for_each(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"rank": 3 - i, "number": i, "caption": f"a cat {i}"} for i in range(4)]
    root = a_folder(tmp_path, {**{f"{i}.jpg": picture(i) for i in range(4)}, "t.csv": encode_table(rows, "csv")})

    for source in (root, f"{root}/t.csv"):
        error = open_error(source)
        assert "several columns name files: rank, number" in error.message
        assert commands_of(error) == [{"files": "rank"}, {"files": "number"}]
        assert pairs_of(read_samples(source, {"files": "number"})) == {picture(i): f"a cat {i}" for i in range(4)}
    named = [row | {"id": row["number"]} for row in rows]
    (tmp_path / "t.csv").write_bytes(encode_table(named, "csv"))
    assert pairs_of(read_samples(root)) == {picture(i): f"a cat {i}" for i in range(4)}


def test_half_of_the_files_missing_fails_their_rows_alone(tmp_path: Path) -> None:
    for value in ("{}.jpg", "{}"):
        rows = [{"image": value.format(i), "caption": f"a cat {i}"} for i in range(10, 20)]
        files = {f"pictures/{i}.jpg": picture(i) for i in range(10, 20, 2)}
        root = a_folder(tmp_path / value, {**files, "t.csv": encode_table(rows, "csv")})

        faults = read_errors(f"{root}/t.csv")

        assert {at: fault.code for at, fault in faults.items()} == dict.fromkeys(range(1, 10, 2), "WDS231")
        assert read_errors(root).keys() == faults.keys()


KINETICS = "{youtube_id}_{time_start:06}_{time_end:06}.mp4"


def kinetics(root: Path, form: str, kept: range = range(8)) -> str:
    rows = [
        {"label": "zumba", "youtube_id": f"-x_{i}Q", "time_start": 7 * i, "time_end": 7 * i + 10, "split": "train"}
        for i in range(8)
    ]
    files = {f"clips/-x_{i}Q_{7 * i:06}_{7 * i + 10:06}.mp4": picture(i) for i in kept}
    return a_folder(root, {**files, f"list.{form}": encode_table(rows, form)})


@pytest.mark.parametrize("form", FORMATS)
def test_template_joins_rows_and_files(tmp_path: Path, form: str) -> None:
    root = kinetics(tmp_path, form)
    expected = {picture(i): 7 * i for i in range(8)}

    for source in (root, f"{root}/list.{form}"):
        for template in (KINETICS, f"clips/{KINETICS}", KINETICS.replace(".mp4", ".*")):
            assert pairs_of(read_samples(source, {"files": template}, form=read_as(form)), "time_start") == expected
    error = open_error(f"{root}/list.{form}")
    assert error.code == "WDS239"
    joined, alone = commands_of(error)
    assert joined == {"files": f"clips/{KINETICS}"}
    assert alone == {"files": ""}
    assert [set(parts) for parts in read_samples(f"{root}/list.{form}", alone).values()] == [{"json"}] * 8


def test_template_keeps_all_digits_of_a_number(tmp_path: Path) -> None:
    numbers = [2**53, 2**53 + 1]  # one float stands for both
    rows = [{"n": number, "text": "t"} for number in numbers]
    root = a_folder(
        tmp_path, {"list.csv": encode_table(rows, "csv"), **{f"a/{n:020}.jpg": picture(n % 2) for n in numbers}}
    )

    found = read_samples(f"{root}/list.csv", {"files": "a/{n:020}.jpg"})

    assert pairs_of(found, "n") == {picture(n % 2): str(n) for n in numbers}


def read_as(form: str) -> str:
    return "csv" if form == "tsv" else form


def test_template_with_missing_files_fails_their_rows_alone(tmp_path: Path) -> None:
    root = kinetics(tmp_path, "csv", range(0, 8, 2))
    joined, _ = commands_of(open_error(f"{root}/list.csv"))

    faults = read_errors(f"{root}/list.csv", joined)

    assert {at: fault.code for at, fault in faults.items()} == dict.fromkeys((1, 3, 5, 7), "WDS231")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_folder_with_table_that_names_nothing_has_error_of_table(tmp_path: Path, form: str) -> None:
    root = kinetics(tmp_path / "raw", form)
    a_folder(tmp_path, {f"other/-x_{i}Q.mp4": b"x" for i in range(8)})  # what `youtube_id` names by chance

    error = open_error(root, form="folder")

    assert (error.code, error.message) == ("WDS239", open_error(f"{root}/list.{form}").message)
    assert commands_of(error) == [{"files": f"clips/{KINETICS}"}, {"files": ""}, {"on-missing": "skip"}]
    assert len(read_samples(root, {"on-missing": "skip"}, form="folder")) == 8


def test_templates_that_fit_equally_are_all_named(tmp_path: Path) -> None:
    rows = [{"a": i, "b": i, "label": "x"} for i in range(10, 14)]
    files = {f"{i}_clip.jpg": picture(i) for i in range(10, 14)}
    root = a_folder(tmp_path, {**files, "t.csv": encode_table(rows, "csv")})

    commands = commands_of(open_error(f"{root}/t.csv"))

    assert commands == [{"files": "{a}_clip.jpg"}, {"files": "{b}_clip.jpg"}, {"files": ""}]


def test_paths_of_another_machine_are_joined_by_their_names(tmp_path: Path) -> None:
    rows = [{"path": f"/data/u/{i}.wav", "text": f"so {i}"} for i in range(4)]
    root = a_folder(
        tmp_path, {**{f"wav/{i}.wav": picture(i) for i in range(4)}, "t.jsonl": encode_table(rows, "jsonl")}
    )

    joined, _ = commands_of(open_error(f"{root}/t.jsonl"))

    assert pairs_of(read_samples(f"{root}/t.jsonl", joined), "text") == {picture(i): f"so {i}" for i in range(4)}


@pytest.mark.parametrize("option", ["base", "files"])
def test_option_without_effect_is_refused(tmp_path: Path, option: str) -> None:
    rows = [{"image": f"{i}.jpg", "n": i} for i in range(4)]
    files = {f"pictures/{i}.jpg": picture(i) for i in range(4)}
    root = a_folder(tmp_path, {**files, "empty/x.txt": b"x", "t.csv": encode_table(rows, "csv")})
    options = {"base": f"{root}/empty"} if option == "base" else {"files": "clips/{image.stem}.mp4"}

    for source in (root, f"{root}/t.csv"):
        error = open_error(source, options, form="csv")
        assert (error.code, "has no effect" in error.message) == ("WDS001", True)
        assert commands_of(error) == [{}]
    assert open_error(f"{root}/t.csv", {"files": "{imag}.jpg"}).code == "WDS001"
    assert len(read_samples(f"{root}/t.csv")) == 4


def test_stems_of_few_media_do_not_make_a_folder_a_table(tmp_path: Path) -> None:
    rows = [{"id": i, "name": f"class {i}"} for i in range(3)]
    root = a_folder(tmp_path, {**{f"{i}.jpg": picture(i) for i in range(20)}, "classes.csv": encode_table(rows, "csv")})

    assert importers.best_importer(root)[0].name == "folder"


@pytest.mark.parametrize("others", [0, 30])
def test_template_over_columns_is_preferred_to_folders_of_classes(tmp_path: Path, others: int) -> None:
    rows = [{"page": f"p{i % 3}", "id": 900 + i, "name": f"a man {i}"} for i in range(12)]
    files = {f"videos/p{i % 3}/{900 + i}.mp4": picture(i) for i in range(12)}
    files |= {f"videos/p{i % 3}/{i:03}.mp4": b"x" for i in range(others)}
    root = a_folder(tmp_path, {**files, "results.csv": encode_table(rows, "csv")})

    importer, match = importers.best_importer(root)

    if others:  # the table is about some of the files
        assert importer.name == "imagefolder"
        return
    assert (importer.name, match.reason) == ("csv", "columns of results.csv name files as videos/{page}/{id}.mp4")
    joined, alone = commands_of(open_error(root))
    assert (joined, alone) == ({"files": "videos/{page}/{id}.mp4"}, {"files": ""})
    assert pairs_of(read_samples(root, joined), "name") == {picture(i): f"a man {i}" for i in range(12)}


def test_template_fails_only_rows_that_it_does_not_fit(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": "a", "n": 1}, {"id": "b", "n": "second"}, {"id": "c", "n": ""}]
    rows.append({"id": "d/../d", "n": 4})
    files = {f"{name}_{n:02}.jpg": name.encode() for name, n in (("a", 1), ("b", 2), ("c", 3), ("d", 4))}
    root = a_folder(tmp_path, {**files, "t.jsonl": encode_table(rows, "jsonl")})
    options = {"files": "{id}_{n:02}.jpg"}

    faults = read_errors(f"{root}/t.jsonl", options)

    assert {at: fault.code for at, fault in faults.items()} == {1: "WDS232", 3: "WDS230"}
    assert "{n:02} needs a whole number" in faults[1].message
    with pytest.raises(WdsctlError, match="brace that belongs to no column"):
        read_errors(f"{root}/t.jsonl", {"files": "{id}_{}.jpg"})


@pytest.mark.parametrize("ending", ["", ".jpg"])
@pytest.mark.parametrize("folder", ["images_{:03d}/images", "HAM10000_images_part_{}", "audio/fold{}"])
def test_rows_name_files_in_folders_that_differ_in_number(tmp_path: Path, folder: str, ending: str) -> None:
    rows = [{"image": f"ISIC_{i}{ending}", "caption": f"caption {i}"} for i in range(240)]
    files = {f"{folder.format(1 + i // 120)}/ISIC_{i}.jpg": picture(i) for i in range(240)}
    root = a_folder(tmp_path / "raw", {"labels.csv": encode_table(rows, "csv"), **files})

    assert pairs_of(read_samples(root)) == {picture(i): f"caption {i}" for i in range(240)}


def test_folders_of_equal_names_are_not_joined(tmp_path: Path) -> None:
    rows = [{"image": f"{i}.jpg", "caption": f"caption {i}"} for i in range(4)]
    files = {f"part_{n}/{i}.jpg": picture(4 * n + i) for n in (1, 2) for i in range(4)}
    root = a_folder(tmp_path / "raw", {"labels.csv": encode_table(rows, "csv"), **files})

    assert [each["base"].rpartition("/")[2] for each in commands_of(open_error(root))] == ["part_1", "part_2"]


def test_one_name_in_folders_of_many_rows_has_no_command_that_repeats_its_file(tmp_path: Path) -> None:
    rows = [{"image": "image.png", "caption": f"caption {i}"} for i in range(4)]  # as ScienceQA
    files = {f"images/{i}/image.png": picture(i) for i in range(4)}
    error = open_error(a_folder(tmp_path / "raw", {"labels.csv": encode_table(rows, "csv"), **files}))

    assert "rows name a file as image.png" in error.message
    assert commands_of(error) == []


def test_other_tables_of_the_folder_give_a_warning(tmp_path: Path) -> None:
    files = {f"{i}.jpg": b"x" for i in range(3)}
    tables = {name: b"file,n\n" + b"".join(b"%d.jpg,1\n" % i for i in range(3)) for name in ("a.csv", "b.csv", "c.tsv")}
    root = a_folder(tmp_path / "raw", {**files, **tables, "notes.txt": b"x"})

    with importers.open_source("csv", f"{root}/a.csv", {}) as source:
        assert isinstance(source, DescribedSource)
        [finding] = source.describe().findings
    assert (finding.severity, finding.count) == ("warning", 2)
    assert finding.message.startswith("2 files are in no sample (1 .csv and 1 .tsv), such as b.csv: only the table")
