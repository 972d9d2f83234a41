"""A finished conversion is up to date for a copy of its source, and reports the differences of another source."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, a_shard, samples, some_shards
from tests.core.conversions import a_prepared_dataset, convert_to, files
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.parts import PartRules, parse_image
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import CatalogError, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


class RecordingProgress:
    def __init__(self) -> None:
        self.phases: list[str] = []
        self.notes: list[str] = []

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        self.phases.append(name)

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None: ...

    def note(self, message: str) -> None:
        self.notes.append(message)


def shards(root: Path) -> str:
    return some_shards(root, 3)


def raw_files(root: Path) -> str:
    return a_folder(root, samples(0, 6))


def labelled_images(root: Path) -> str:
    return a_folder(root, {f"{label}/{label}{i}.jpg": f"{label}{i}".encode() for label in "ab" for i in range(3)})


def packed(root: Path) -> str:
    import gzip

    return a_folder(root, {"x.tar.gz": gzip.compress(a_shard(samples(0, 6)))})


def prepared_shards(root: Path) -> str:
    prepare(some_shards(root, 3), None, PrepareRequest(accept_type=True, split={"a": 1, "b": 1}, split_by="sample"))
    return str(root)


def rows(root: Path) -> str:
    return a_folder(root, {"rows.csv": b"image,n\n1.jpg,1\n2.jpg,2\n", "1.jpg": b"one", "2.jpg": b"two"}) + "/rows.csv"


SOURCES: dict[str, Callable[[Path], str]] = {
    each.__name__: each for each in (shards, prepared_shards, raw_files, labelled_images, packed, rows)
}


def copy_source(tmp_path: Path, *, keep_times: bool) -> None:
    """Copies `a` to `b`: with its times like `cp -a`, or with new ones like `cp -r`."""
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for path in () if keep_times else (tmp_path / "b").rglob("*"):
        if path.is_file() and ".wdsctl" not in path.parts:
            os.utime(path, ns=(1, 1))


def run_convert(source: str, dest: Path, **options: Any) -> tuple[ConvertReport, RecordingProgress]:
    progress = RecordingProgress()
    return convert([source], str(dest), ConvertRequest(**options), progress=progress), progress


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("keep_times", [True, False])
def test_copy_of_source_is_up_to_date(tmp_path: Path, kind: str, keep_times: bool) -> None:
    source = SOURCES[kind](tmp_path / "a")
    first = convert_to(tmp_path / "out", source)
    before = {path: os.stat(tmp_path / "out" / path).st_mtime_ns for path in files(tmp_path / "out")}
    copy_source(tmp_path, keep_times=keep_times)
    copy = source.replace(str(tmp_path / "a"), str(tmp_path / "b"))

    report, progress = run_convert(copy, tmp_path / "out")
    repeated, repeated_progress = run_convert(copy, tmp_path / "out")

    assert report.up_to_date
    assert (report.samples, report.datasets) == (first.samples, first.datasets)
    assert "the source is a copy of the one that was converted: nothing to do" in progress.notes
    assert ("compare" in progress.phases) == (not keep_times or kind == "rows")
    assert repeated.up_to_date
    assert "compare" not in repeated_progress.phases
    assert before == {path: os.stat(tmp_path / "out" / path).st_mtime_ns for path in files(tmp_path / "out")}
    assert sorted(os.listdir(tmp_path / "out" / ".wdsctl" / "convert")) == sorted(
        ["finished.json", *(["source-0"] if kind == "shards" else [])]
    )


def test_source_with_other_mtimes_is_up_to_date(tmp_path: Path) -> None:
    source = raw_files(tmp_path / "a")
    convert_to(tmp_path / "out", source)
    for path in (tmp_path / "a").iterdir():
        os.utime(path, ns=(1, 1))

    report, progress = run_convert(source, tmp_path / "out")

    assert report.up_to_date
    assert progress.notes[0].startswith("the files of the source have been written or copied again: comparing")


def test_image_transcoding_accepts_copy_only_with_same_mtimes(tmp_path: Path) -> None:
    from tests.build import an_image

    source = a_dataset(tmp_path / "a", {"x.tar": {"1.png": an_image("PNG"), "1.txt": b"one"}})
    image = parse_image("jpeg:90", 0, "apply", ())
    convert_to(tmp_path / "out", source, image=image)
    copy_source(tmp_path, keep_times=True)
    assert convert_to(tmp_path / "out", tmp_path / "b", image=image).up_to_date

    os.utime(tmp_path / "b" / "x.tar", ns=(1, 1))
    with pytest.raises(UsageError, match="only a new conversion shows") as caught:
        convert_to(tmp_path / "out", tmp_path / "b", image=image)
    assert caught.value.code == "WDS345"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"000009.jpg": b"n", "000009.txt": b"n"}, r"2 files new \(such as 000009.jpg\)"),
        ({"000001.txt": b"longer than it was"}, r"1 file of another size \(000001.txt\)"),
        ({"000001.txt": b"1 TXT .."}, "and other content"),
    ],
)
def test_changed_raw_folder_is_refused_with_differences(tmp_path: Path, change: dict[str, bytes], words: str) -> None:
    source = raw_files(tmp_path / "a")
    convert_to(tmp_path / "out", source)
    before = files(tmp_path / "out")
    a_folder(tmp_path / "a", change)
    for name in change:
        os.utime(tmp_path / "a" / name, ns=(1, 1))

    with pytest.raises(UsageError, match=words) as caught:
        convert_to(tmp_path / "out", source)

    assert caught.value.code == "WDS345"
    assert caught.value.hint.startswith("choose another DEST and compare the two with `wdsctl diff")
    assert files(tmp_path / "out") == before
    assert not (tmp_path / "out" / ".wdsctl" / "convert" / "again").exists()


def test_renamed_raw_file_is_reported_as_new_and_missing(tmp_path: Path) -> None:
    source = raw_files(tmp_path / "a")
    convert_to(tmp_path / "out", source)
    for part in ("jpg", "txt"):
        os.rename(tmp_path / "a" / f"000001.{part}", tmp_path / "a" / f"x.{part}")

    with pytest.raises(UsageError, match=r"2 files new \(such as x.jpg\); 2 files missing \(such as 000001.jpg\)"):
        convert_to(tmp_path / "out", source)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shard_samples": 3}, "another --shard-samples"),
        ({"order": "shuffle"}, "another --sort or --shuffle"),
        ({"parts": PartRules(keep=("jpg",))}, "another --parts, --drop-parts or --rename-part"),
        ({"to_format": "jsonl"}, "another --to"),
    ],
)
def test_changed_option_is_named_with_hint_to_log(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    source = shards(tmp_path / "a")
    convert_to(tmp_path / "out", source)

    with pytest.raises(UsageError, match=f"another conversion wrote the destination: {words}\n") as caught:
        convert_to(tmp_path / "out", source, **options)
    assert f"wdsctl log {tmp_path}/out" in caught.value.hint


def test_changed_splits_are_reported(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a")
    convert_to(tmp_path / "out", source)
    split = {"train": 1, "val": 1}
    prepare(source, None, PrepareRequest(accept_type=True, split=split, split_by="sample", allow_split_changes=True))

    with pytest.raises(UsageError, match="other samples, or other splits"):
        convert_to(tmp_path / "out", source)


@pytest.mark.parametrize(
    "lacking", ["fingerprint", "files", "report.datasets", "report.layout", "made_from.plan", "made_from.sources", ""]
)
def test_damaged_record_of_finished_conversion_is_refused(tmp_path: Path, lacking: str) -> None:
    source = shards(tmp_path / "a")
    convert_to(tmp_path / "out", source)
    path = tmp_path / "out" / ".wdsctl" / "convert" / "finished.json"
    record = values = json.loads(path.read_text(encoding="utf-8"))
    *above, name = lacking.split(".")
    for each in above:
        values = values[each]
    values.pop(name, None)
    path.write_text(json.dumps(record) if lacking else "{", encoding="utf-8")
    before = files(tmp_path / "out")

    for overwrite in (False, True):
        with pytest.raises(CatalogError, match="the record of the finished conversion is damaged") as caught:
            convert_to(tmp_path / "out", source, overwrite=overwrite)
        assert (caught.value.code, caught.value.where) == ("WDS335", str(path))
    assert files(tmp_path / "out") == before


@pytest.mark.parametrize("form", ["folder", "jsonl", "csv", "tsv"])
def test_second_run_refuses_export_that_lacks_files(tmp_path: Path, form: str) -> None:
    source, dest = shards(tmp_path / "a"), tmp_path / "d"
    convert_to(dest, source, to_format=form)
    (dest / "mine.txt").write_text("a file of the user")
    assert convert_to(dest, source, to_format=form).up_to_date

    lost = sorted(path for path in dest.rglob("*.jpg") if path.is_file())
    lost[0].unlink()
    lost[1].write_bytes(b"of another size")
    with pytest.raises(UsageError, match="2 files of the finished conversion are missing"):
        convert_to(dest, source, to_format=form)


def test_dry_run_reports_same_as_second_run(tmp_path: Path) -> None:
    source, dest = shards(tmp_path / "a"), tmp_path / "d"
    convert_to(dest, source)
    for is_dry in (True, False):
        report = convert_to(dest, source, dry_run=is_dry)
        assert (report.up_to_date, report.dry_run, report.written_files) == (True, is_dry, 0)
        with pytest.raises(UsageError, match="another --shard-samples") as caught:
            convert_to(dest, source, dry_run=is_dry, shard_samples=2)
        assert caught.value.code == "WDS345"
