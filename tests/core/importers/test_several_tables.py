"""Several tables about the same files: every file, column and value is in the samples, or is named.

What a sample must hold is read here from the tables, by code that shares nothing with the importers.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder
from tests.core.formats import open_error, read_samples
from tests.printed import follow, unaccounted
from tests.several_tables import SEVERAL_TABLES
from wdsctl import Dataset
from wdsctl.cli.main import main
from wdsctl.core import importers
from wdsctl.core.importers.protocol import DescribedSource

Run = Callable[[Sequence[str]], tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)

    def call(words: Sequence[str]) -> tuple[int, str]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main([*words])
        return code, output.getvalue()

    return call


def samples_of(dest: str) -> dict[str, dict[str, Any]]:
    """The last component of a sample's key -> the values of its json."""
    found = {}
    for sample in Dataset(dest, decode=False):
        values: dict[str, Any] = dict(sample)
        found[values["__key__"].rpartition("/")[2]] = json.loads(bytes(values["json"]))
    return found


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file, with numbers for the cells that are numbers."""

    def value(cell: str) -> Any:
        for convert in (int, float):
            with contextlib.suppress(ValueError):
                return convert(cell)
        return cell or None

    with path.open(newline="") as file:
        return [{name: value(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize("name", [name for name in SEVERAL_TABLES if name not in ("msrvtt", "aclimdb")])
def test_all_files_and_values_are_written_or_named(name: str, run: Run) -> None:
    SEVERAL_TABLES[name](Path("raw"))

    ends = 0
    for end in follow(run, ["prepare", "raw", "dest", "--no-input"], Path("dest")):
        assert end.code in {0, 5}, end
        takes_files = not end.commands[-1].endswith("files=")  # else it prepares "the rows without the files"
        assert not takes_files or not unaccounted(Path("raw"), Path("dest"), end.output), end
        ends += takes_files
    assert ends


def test_columns_of_all_tables_are_in_one_sample(run: Run) -> None:
    SEVERAL_TABLES["celeba_csv"](Path("raw"))

    code, output = run(["prepare", "raw", "dest", "--no-input", "--sample-type", "CrudeSample"])

    assert code == 0
    (command,) = re.findall(r"`wdsctl (split DEST [^`]*)`", output)  # `partition` has numbers
    assert run(shlex.split(command.replace("DEST", "dest")))[0] == 0
    assert [len(list(Dataset("dest", name, decode=False))) for name in ("0", "1")] == [3, 3]
    expected: dict[str, dict[str, Any]] = {}
    for path in Path("raw").glob("*.csv"):
        for row in rows_of(path):
            expected.setdefault(row.pop("image_id")[:-4], {}).update(row)
    assert samples_of("dest") == expected
    assert len(expected) == 6
    assert len(expected["000001"]) == 12


def test_rows_of_table_with_several_for_a_file_are_one_column(run: Run) -> None:
    SEVERAL_TABLES["chestxray14"](Path("raw"))

    code, output = run(["prepare", "raw", "dest", "--no-input", "--sample-type", "CrudeSample"])

    boxes = [line.split(",") for line in Path("raw/BBox_List_2017.csv").read_text("utf-8").splitlines()[1:]]
    found = samples_of("dest")
    assert code == 5  # the lists of splits are named
    assert "test_list.txt" in output
    assert sum(len(each["BBox_List_2017"]) for each in found.values()) == len(boxes) == 3
    for image, label, left, *_ in boxes:
        rows = found[image[:-4]]["BBox_List_2017"]
        assert (label, float(left)) in [(row["Finding Label"], row["Bbox [x"]) for row in rows]


def test_tables_of_splits_are_joined_by_split(run: Run) -> None:
    SEVERAL_TABLES["clotho"](Path("raw"))

    assert run(["prepare", "raw", "dest", "--no-input"])[0] == 0

    found = samples_of("dest")
    for split, name in (("train", "development"), ("evaluation", "evaluation")):
        keys = {sample["__key__"].rpartition("/")[2] for sample in Dataset("dest", split, decode=False)}
        assert keys == {path.stem for path in Path("raw", name).iterdir()}
        for kind in ("captions", "metadata"):
            for row in rows_of(Path("raw", f"clotho_{kind}_{name}.csv")):
                assert row.items() <= {**found[row["file_name"][:-4]], "file_name": row["file_name"]}.items()


def test_train_and_dev_files_of_one_list_are_splits(run: Run) -> None:
    SEVERAL_TABLES["squad"](Path("raw"))

    assert run(["prepare", "raw", "dest", "--no-input", "--sample-type", "CrudeSample"])[0] == 0

    for split, name in (("train", "train"), ("val", "dev")):
        found = [json.loads(bytes(sample["json"])) for sample in Dataset("dest", split, decode=False)]
        assert found == json.loads(Path(f"raw/{name}-v1.1.json").read_text("utf-8"))["data"]


def test_columns_of_one_name_and_rows_without_a_file_are_named(tmp_path: Path) -> None:
    files = {f"{i}.jpg": b"picture %d" % i for i in range(3)}
    tables = {
        "a.csv": b"file,note\n0.jpg,a0\n1.jpg,a1\n2.jpg,a2\n",
        "b.csv": b"file,note,size\n1.jpg,b1,5\n2.jpg,b2,\n9.jpg,b9,7\n",
    }
    root = a_folder(tmp_path / "raw", {**files, **tables})

    found = {key: json.loads(parts["json"]) for key, parts in read_samples(root).items()}
    assert found["0"] == {"note": "a0", "b_note": None, "size": None}
    assert found["1"] == {"note": "a1", "b_note": "b1", "size": 5}
    with importers.open_source("csv", root, {}) as source:
        assert isinstance(source, DescribedSource)
        (finding,) = source.describe().findings
    assert (finding.code, finding.severity, finding.count) == ("WDS268", "error", 1)
    assert finding.message.startswith("b.csv names 1 file that a.csv does not name, such as 9.jpg")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"file,a\n0.jpg,1\n1.jpg,2\n", b"file,a\n0.jpg,3\n1.jpg,4\n"),  # two versions of one table
        (b"file,a\n0.jpg,1\n", b"file,b\n1.jpg,2\n"),  # about other files
    ],
)
def test_tables_that_are_not_about_the_same_files_are_refused(tmp_path: Path, first: bytes, second: bytes) -> None:
    root = a_folder(tmp_path / "raw", {"0.jpg": b"0", "1.jpg": b"1", "a.csv": first, "b.csv": second})

    assert open_error(root).code == "WDS252"


def follow_python(run: Run, name: str) -> dict[str, dict[str, Any]]:
    """The samples after both commands of the error, the first of which is one of Python."""
    SEVERAL_TABLES[name](Path("raw"))
    code, output = run(["prepare", "raw", "dest", "--no-input"])
    assert code == 3
    script, again = re.findall("`([pw][^`]*)`", output[output.index("help:") :])
    subprocess.run([sys.executable, *shlex.split(script)[1:]], check=True)
    code, output = run([*shlex.split(again.replace("DEST", "dest"))[1:], "--no-input"])
    assert code == 0, output
    assert not unaccounted_media(output)
    return samples_of("dest")


def unaccounted_media(output: str) -> list[str]:
    lost = unaccounted(Path("raw"), Path("dest"), output)
    return [name for name in lost if name.endswith(("mp4", "wav"))]


def test_msrvtt_is_refused_with_commands_that_join_sentences(run: Run) -> None:
    found = follow_python(run, "msrvtt")

    infos = [json.loads(path.read_text("utf-8")) for path in Path("raw").glob("*_videodatainfo.json")]
    videos = [video for info in infos for video in info["videos"]]
    sentences = [sentence for info in infos for sentence in info["sentences"]]
    assert found.keys() == {video["video_id"] for video in videos}
    for video in videos:
        here = found[video["video_id"]]
        assert video | {"split": here["split"]} | here == here
        assert here["split"] == {"validate": "val"}.get(video["split"], video["split"])
        own = [each for each in sentences if each["video_id"] == video["video_id"]]
        assert here["captions"] == [each["caption"] for each in own]
        assert here["sen_ids"] == [each["sen_id"] for each in own]


def test_aclimdb_is_refused_with_commands_that_keep_labels(run: Run) -> None:
    found = follow_python(run, "aclimdb")

    texts = list(Path("raw").glob("t*/*/*.txt"))
    assert len(found) <= len(texts) == 15
    rows = {sample["__key__"]: json.loads(bytes(sample["json"])) for sample in Dataset("dest", decode=False)}
    for path in texts:
        split, kind, stem = path.parts[1], path.parent.name, path.stem
        row = rows[f"{split}/{kind}/{stem}"]
        number, rating = stem.split("_")
        assert (row["text"], row["label_name"], row["rating"]) == (path.read_text("utf-8"), kind, int(rating))
        assert row["url"] == Path("raw", split, f"urls_{kind}.txt").read_text("utf-8").splitlines()[int(number)]
        assert row.get("label") == {"pos": 1, "neg": 0}.get(kind)
        assert row.get("split") == (None if kind == "unsup" else split)
    for split in ("train", "test"):
        assert len(list(Dataset("dest", split, decode=False))) == 6
