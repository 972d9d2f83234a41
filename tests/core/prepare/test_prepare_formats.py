"""`prepare` recognises other formats than raw files and shards, writes them to DEST, and sets type and splits."""

from __future__ import annotations

import gzip
import json
import shlex
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, a_shard, samples, some_shards, tree
from tests.prepare_requests import prepare_request
from wdsctl.cli.main import main
from wdsctl.core import importers
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.importers.protocol import FormatMatch
from wdsctl.core.index.index import index
from wdsctl.core.index.write_dataset_yaml import UnsureTypeError
from wdsctl.core.prepare import prepare as module
from wdsctl.core.prepare.prepare import PrepareReport, prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.source import AmbiguousFormatError, recognise_format
from wdsctl.core.samples.detect import Detection
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.views.sql import sql

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + b"\0" * 40


def pictures(count: int, folder: str = "") -> dict[str, bytes]:
    return {f"{folder}{i}.jpg": JPEG + bytes([i]) for i in range(count)}


def a_table(root: Path, count: int = 10) -> str:
    rows = "".join(f'{i}.jpg,"a picture, number {i}"\n' for i in range(count))
    return a_folder(root, {**pictures(count), "labels.csv": f"file,caption\n{rows}".encode()})


def class_folders(root: Path) -> str:
    names = [f"{split}/{label}/{label}" for split in ("train", "val") for label in ("cat", "dog")]
    return a_folder(root, {name: data for prefix in names for name, data in pictures(3, prefix).items()})


def lines_with_media(root: Path) -> str:
    lines = "".join(json.dumps({"image": f"{i}.jpg", "text": f"words {i}"}) + "\n" for i in range(6))
    a_folder(root, {**pictures(6), "labels.jsonl": lines.encode()})
    return str(root / "labels.jsonl")


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def splits(report: PrepareReport) -> dict[str, int]:
    assert report.split is not None
    return {split.name: split.samples for split in report.split.splits}


def test_every_table_row_becomes_sample_with_file_and_fields(tmp_path: Path) -> None:
    source = a_table(tmp_path / "photos")
    report = prepare(f"{source}/labels.csv", str(tmp_path / "made"), PrepareRequest(split={"train": 8, "val": 2}))

    assert report.form is not None
    assert (report.form.name, report.from_folder, splits(report)) == ("csv", False, {"train": 8, "val": 2})
    assert report.detection is not None
    assert report.detection.field_map == {"image": "jpg", "caption": "json[caption]"}
    tar_members = members(tmp_path / "made" / "shard-000000.tar")
    assert {name: data for name, data in tar_members.items() if name.endswith(".jpg")} == pictures(10)
    captions = {name: json.loads(data) for name, data in tar_members.items() if name.endswith(".json")}
    assert captions == {f"{i}.json": {"caption": f"a picture, number {i}"} for i in range(10)}


def test_class_folders_keep_labels_and_splits(tmp_path: Path) -> None:
    report = prepare(class_folders(tmp_path / "net"), str(tmp_path / "made"))

    assert report.form is not None
    assert (report.form.name, splits(report)) == ("imagefolder", {"train": 6, "val": 6})
    config = load_config(locate(str(tmp_path / "made")).config_path)
    assert (config.sample_type, set(config.field_map)) == (
        "ImageClassificationSample",
        {"image", "label", "label_name"},
    )


def test_redetect_finds_type_of_shards_from_class_folders(tmp_path: Path) -> None:
    dest = str(tmp_path / "made")
    prepare(class_folders(tmp_path / "raw"), dest)
    written = load_config(locate(dest).config_path)

    report = prepare(dest, None, prepare_request(redetect=True))

    assert (report.detection is not None, load_config(locate(dest).config_path).field_map) == (True, written.field_map)


def test_compressed_tars_are_unpacked(tmp_path: Path) -> None:
    convert([some_shards(tmp_path / "a", 2, 4)], str(tmp_path / "gz"), ConvertRequest(compress="gz"))
    report = prepare(str(tmp_path / "gz"), str(tmp_path / "made"), PrepareRequest(accept_type=True))
    assert report.form is not None
    assert report.index is not None
    assert (report.form.name, report.index.samples) == ("packed", 8)


def test_jsonl_with_media_paths_is_recognised_despite_existing_catalog(tmp_path: Path) -> None:
    source = lines_with_media(tmp_path / "data")
    before = recognise_format(source)
    prepare(source, request=PrepareRequest(from_format="shards", accept_type=True))
    assert Path(locate(source).catalog_path).exists()

    assert recognise_format(source) == before
    assert before.name == "jsonl"
    report = prepare(source, str(tmp_path / "made"))
    assert report.detection is not None
    assert report.detection.field_map == {"image": "jpg", "caption": "json[text]"}


def test_text_jsonl_is_prepared_in_place(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "texts", {"a.jsonl": b'{"text": "some words"}\n' * 5})
    assert recognise_format(root).name == recognise_format(f"{root}/a.jsonl").name == "shards"
    report = prepare(f"{root}/a.jsonl")
    assert (report.conversion, report.form and report.form.name) == (None, "shards")


def test_second_run_changes_nothing(tmp_path: Path) -> None:
    source, dest = class_folders(tmp_path / "net"), str(tmp_path / "made")
    prepare(source, dest)
    before = {name: stat for name, stat in tree(dest).items() if name.endswith((".tar", ".sqlite", ".bin", ".yaml"))}
    assert prepare(source, dest).up_to_date
    after = tree(dest)
    assert {name: after[name] for name in before if "ledger" not in name} == {
        name: stat for name, stat in before.items() if "ledger" not in name
    }


def test_prepare_continues_after_stop_between_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, dest = a_table(tmp_path / "photos") + "/labels.csv", str(tmp_path / "made")
    request = PrepareRequest(split={"train": 8, "val": 2})

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_dataset_yaml", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(source, dest, request)
    assert not Path(locate(dest).config_path).exists()

    report = prepare(source, dest, request)
    assert report.conversion is not None
    assert report.conversion.up_to_date
    assert (report.up_to_date, splits(report)) == (False, {"train": 8, "val": 2})
    assert report.detection is not None
    assert report.detection.sample_type == "CaptioningSample"


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    source = a_table(tmp_path / "photos")
    request = PrepareRequest()
    before = tree(tmp_path)
    dry = PrepareRequest(index=replace(request.index, dry_run=True))
    report = prepare(f"{source}/labels.csv", str(tmp_path / "made"), dry)
    assert report.conversion is not None
    assert (report.conversion.samples, report.dry_run, tree(tmp_path)) == (10, True, before)


@pytest.mark.parametrize("name", ["photos/labels.csv", "net"])
def test_missing_destination_is_refused_with_command(tmp_path: Path, name: str) -> None:
    a_table(tmp_path / "photos")
    class_folders(tmp_path / "net")
    before = tree(tmp_path)
    with pytest.raises(UsageError, match="missing DEST") as caught:
        prepare(str(tmp_path / name))
    assert caught.value.hint == f"`wdsctl prepare {tmp_path / name} DEST`"
    assert tree(tmp_path) == before


def test_ambiguous_formats_are_refused_with_both_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = a_table(tmp_path / "photos")
    both = [(importers.get_importer(name), FormatMatch(0.6, f"looks like {name}")) for name in ("coco", "csv")]
    monkeypatch.setattr(importers, "find_importers", lambda _: both)

    with pytest.raises(AmbiguousFormatError, match="several formats fit") as caught:
        prepare(source, "made")
    assert [form.name for form in caught.value.forms] == ["coco", "csv"]
    assert f"wdsctl prepare {source} made --from coco" in caught.value.hint
    assert f"wdsctl prepare {source} made --from csv" in caught.value.hint


def test_from_format_option_overrides_recognition(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "net")
    report = prepare(source, str(tmp_path / "made"), PrepareRequest(from_format="folder", accept_type=True))
    assert (report.from_folder, report.index and report.index.samples) == (True, 12)
    assert report.form is not None
    assert report.form.reason == "chosen by the user"
    with pytest.raises(UsageError, match="cannot read the format 'fodler'"):
        prepare(source, str(tmp_path / "other"), PrepareRequest(from_format="fodler"))


@pytest.mark.parametrize(
    ("request_", "option"),
    [(PrepareRequest(parts=("jpg",)), "--parts"), (PrepareRequest(on_missing="skip"), "--on-missing")],
)
def test_raw_file_options_are_refused_for_other_formats(tmp_path: Path, request_: PrepareRequest, option: str) -> None:
    source = a_table(tmp_path / "photos")
    before = tree(tmp_path)
    with pytest.raises(UsageError, match=f"{option} applies to raw files") as caught:
        prepare(f"{source}/labels.csv", str(tmp_path / "made"), request_)
    assert "--from folder" in caught.value.hint
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (PrepareRequest(format_options={"key": "id"}), "pass `--key` instead"),
        (PrepareRequest(format_options={"text": "id"}), "omit -O"),
        (PrepareRequest(parts=("jpg",)), "omit --parts"),
        (PrepareRequest(on_missing="skip"), "omit --on-missing"),
    ],
)
def test_options_without_effect_on_shards_are_refused(tmp_path: Path, request_: PrepareRequest, words: str) -> None:
    lines = a_folder(tmp_path / "lines", {"t.jsonl": b'{"id": "a", "text": "x"}\n'})
    before = tree(tmp_path)
    for source in (f"{lines}/t.jsonl", lines):
        with pytest.raises(UsageError) as caught:
            prepare(source, None, request_)
        assert words in caught.value.hint
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format_options": {"parts": "jpg"}}, "pass `--parts` instead"),
        ({"format_options": {"columns": "a"}}, "omit -O"),
        ({"exclude": ("val/*",)}, "omit --exclude"),
        ({"key": "id"}, "omit --key"),
    ],
)
def test_options_without_effect_on_raw_files_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    source = a_folder(tmp_path / "raw", pictures(3))
    before = tree(tmp_path)
    with pytest.raises(UsageError) as caught:
        prepare(source, str(tmp_path / "made"), prepare_request(from_format="folder", **options))
    assert words in caught.value.hint
    assert tree(tmp_path) == before


def test_split_column_with_commas_gives_these_splits(tmp_path: Path) -> None:
    rows = "".join(f'{i}.jpg,"{name}"\n' for i, name in enumerate(("x,y", "-z", "x,y", "all: [1]")))
    source = a_folder(tmp_path / "photos", {**pictures(4), "l.csv": f"file,fold\n{rows}".encode()})
    request = prepare_request(format_options={"split": "fold"}, sample_type="CrudeSample")

    assert splits(prepare(f"{source}/l.csv", str(tmp_path / "made"), request)) == {"x,y": 2, "-z": 1, "all: [1]": 1}
    assert prepare(f"{source}/l.csv", str(tmp_path / "made"), request).up_to_date


@pytest.mark.parametrize("value", ["a/b", "a\u2028b", "\ud83d"])
def test_split_column_with_value_that_names_no_split_is_refused(tmp_path: Path, value: str) -> None:
    lines = "".join(json.dumps({"image": f"{i}.jpg", "fold": each}) + "\n" for i, each in enumerate(("a", value)))
    source = a_folder(tmp_path / "photos", {**pictures(2), "l.jsonl": lines.encode()})
    before = tree(tmp_path)

    with pytest.raises(UsageError, match="cannot name a split"):
        prepare(f"{source}/l.jsonl", str(tmp_path / "made"), prepare_request(format_options={"split": "fold"}))
    assert tree(tmp_path) == before


def test_format_options_are_passed_to_importer(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "photos", {**pictures(3), "l.csv": b"0.jpg;one\n1.jpg;two\n2.jpg;three\n"})
    request = PrepareRequest(format_options={"columns": "file,caption", "delimiter": "semicolon"})
    report = prepare(f"{source}/l.csv", str(tmp_path / "made"), request)
    assert report.index is not None
    assert report.index.samples == 3


def test_row_without_file_is_counted_and_reported(tmp_path: Path) -> None:
    source = a_table(tmp_path / "photos")
    (tmp_path / "photos" / "3.jpg").unlink()
    report = prepare(f"{source}/labels.csv", str(tmp_path / "made"))
    assert report.conversion is not None
    assert (report.conversion.failed, [tar_members.code for tar_members in report.conversion.findings]) == (
        1,
        ["WDS231"],
    )


def test_unknown_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.bin").write_bytes(b"\0\1\2")
    with pytest.raises(InputError, match="cannot recognise the format"):
        recognise_format(str(tmp_path / "notes.bin"))


def test_unsure_type_error_and_accepting_run_report_conversion_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Detection, "is_sure", property(lambda _: False))
    source = a_table(tmp_path / "photos")
    (tmp_path / "photos" / "3.jpg").unlink()
    dest = str(tmp_path / "made")
    with pytest.raises(UnsureTypeError) as caught:
        prepare(f"{source}/labels.csv", dest)
    error = caught.value
    assert error.hint.startswith(
        f"to accept this sample type, run `wdsctl prepare {source}/labels.csv {dest} --sample-type"
    )
    assert error.report.conversion.failed == 1
    assert [
        tar_members.code for tar_members in error.report.conversion.findings if tar_members.severity == "error"
    ] == ["WDS231"]
    accepted = prepare(f"{source}/labels.csv", dest, PrepareRequest(sample_type="CrudeSample"))
    assert accepted.conversion is not None
    assert [tar_members.code for tar_members in accepted.conversion.findings if tar_members.severity == "error"] == [
        "WDS231"
    ]


def test_table_with_caption_and_label_asks_since_either_would_be_unread(tmp_path: Path) -> None:
    rows = "".join(f"{i}.jpg,a picture,{i % 2}\n" for i in range(8))
    source = a_folder(tmp_path / "photos", {**pictures(8), "l.csv": f"file,caption,label\n{rows}".encode()})
    with pytest.raises(UnsureTypeError, match=r"CaptioningSample.* would leave json\[label\] unused") as raised:
        prepare(f"{source}/l.csv", str(tmp_path / "made"))
    reasons = raised.value.detection.reasons
    assert any("ImageClassificationSample would fit nearly as well" in reason for reason in reasons)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_splits_of_exported_rows_are_restored(tmp_path: Path, form: str) -> None:
    source = a_dataset(
        tmp_path / "tars", {f"{name}/a.tar": {f"{name}{i}.txt": b"x" for i in range(3)} for name in ("train", "val")}
    )
    prepare(str(source), None, prepare_request(sample_type="CrudeSample"))
    convert([str(source)], str(tmp_path / "rows"), ConvertRequest(to_format=form, apart="split"))

    report = prepare(str(tmp_path / "rows"), str(tmp_path / "back"), prepare_request(sample_type="CrudeSample"))

    assert report.split is not None
    assert {split.name: split.samples for split in report.split.splits} == {"train": 3, "val": 3}


def test_shard_folders_named_like_splits_become_splits(tmp_path: Path) -> None:
    shards = {f"{name}/a.tar": {f"{name}{i}.txt": b"x" for i in range(3)} for name in ("train", "val_small")}
    report = prepare(str(a_dataset(tmp_path / "a", shards)), None, prepare_request(sample_type="CrudeSample"))
    assert report.split is not None
    assert {split.name: split.samples for split in report.split.splits} == {"train": 3, "val_small": 3}
    without_train = {name.replace("train", "test"): data for name, data in shards.items()}
    report = prepare(str(a_dataset(tmp_path / "b", without_train)), None, prepare_request(sample_type="CrudeSample"))
    assert report.split is not None
    assert [split.name for split in report.split.splits] == ["train"]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("train.jsonl", "validation.jsonl", "test.jsonl"), {"train": 2, "val": 2, "test": 2}),
        (
            ("data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl", "data/dev.jsonl"),
            {"train": 4, "val": 2},
        ),
        (("train-00000.jsonl", "train-00001.jsonl", "dev-00000.jsonl"), {"train": 4, "val": 2}),
        (("a/train/0000.jsonl", "a/train/0001.jsonl", "a/test/0000.jsonl"), {"train": 4, "test": 2}),
        (("train-00000-of-00001.jsonl", "extra-00000-of-00001.jsonl"), {"train": 2, "extra": 2}),
        (("train.jsonl", "more.jsonl"), {"train": 4}),
    ],
)
def test_jsonl_files_named_like_splits_become_splits(
    tmp_path: Path, names: tuple[str, ...], expected: dict[str, int], in_place: bool
) -> None:
    lines = "".join(json.dumps({"text": f"the words of line {i}"}) + "\n" for i in range(2)).encode()
    source = a_folder(tmp_path / "texts", dict.fromkeys(names, lines))

    report = prepare(source, None if in_place else str(tmp_path / "made"), prepare_request(sample_type="CrudeSample"))

    assert splits(report) == expected


@pytest.mark.parametrize(
    ("names", "added", "count"),
    [
        (("train-0-of-2.jsonl", "test.jsonl"), "train-1-of-2.jsonl", 2),
        (("train-00000.jsonl", "train-00001.jsonl", "test.jsonl"), "train-00002.jsonl", 3),
    ],
)
def test_numbered_file_that_is_added_in_place_is_in_split_of_its_name(
    tmp_path: Path, names: tuple[str, ...], added: str, count: int
) -> None:
    source = a_folder(tmp_path, dict.fromkeys(names, b'{"text": "a"}\n'))
    prepare(source, None, prepare_request(sample_type="CrudeSample"))
    a_folder(tmp_path, {added: b'{"text": "c"}\n'})

    assert splits(prepare(source, None, prepare_request())) == {"train": count, "test": 1}


@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("train-000000", "train-000001", "val-000000"), {"train": 4, "val": 2}),
        (
            ("photos-training-00000-of-00001", "photos-validation-00000-of-00001", "photos-test"),
            {"train": 2, "val": 2, "test": 2},
        ),
        (("data/train_0", "data/dev_0"), {"train": 2, "val": 2}),
        (("train-000000", "train-000001"), {"train": 4}),
        (("val-000000", "test-000000"), {"train": 4}),
        (("train-000000", "val-000000", "more-000000"), {"train": 2, "val": 2}),
        (("train-a-000000", "val-000000"), {"train": 4}),
        (("train-000000", "val-000000", "validation-000000"), {"train": 6}),
        (("cats-train-0", "dogs-val-0"), {"train": 4}),
    ],
)
def test_tars_named_like_splits_become_splits(
    tmp_path: Path, names: tuple[str, ...], expected: dict[str, int], ending: str
) -> None:
    tars = [a_shard(samples(2 * i, 2, "txt")) for i in range(len(names))]
    files = {
        f"{name}{ending}": gzip.compress(tar) if ending == ".tar.gz" else tar
        for name, tar in zip(names, tars, strict=True)
    }
    source = a_folder(tmp_path / "tars", files)
    dest = str(tmp_path / "dest") if ending == ".tar.gz" else None

    assert splits(prepare(source, dest, prepare_request(sample_type="CrudeSample"))) == expected


def test_numbered_tar_added_in_place_is_in_split_of_its_name(tmp_path: Path) -> None:
    source = some_shards(tmp_path, 2, 3)
    for i, name in enumerate(("train-0.tar", "val-0.tar")):
        (tmp_path / f"shard-{i:03d}.tar").rename(tmp_path / name)
    prepare(source, None, prepare_request(sample_type="CrudeSample"))
    a_folder(tmp_path, {"train-1.tar": a_shard(samples(6, 3)), "val-10.tar": a_shard(samples(9, 1))})

    assert splits(prepare(source, None, prepare_request())) == {"train": 6, "val": 4}


def test_split_option_overrides_names_of_tars(tmp_path: Path) -> None:
    files = {name: a_shard(samples(10 * i, 10)) for i, name in enumerate(("train-0.tar", "val-0.tar"))}
    source = a_folder(tmp_path, files)

    report = prepare(source, None, prepare_request(sample_type="CrudeSample", split={"train": 1.0}))

    assert splits(report) == {"train": 20}


def split_folder_warnings(root: Path, files: list[str], **options: Any) -> list[str]:
    a_folder(root / "raw", dict.fromkeys(files, b"x"))
    options = {"sample_type": "CrudeSample", "on_missing": "keep"} | options
    report = prepare(str(root / "raw"), str(root / "out"), prepare_request(from_format="folder", **options))
    assert report.index is not None
    return [each.message for each in report.index.findings if (each.code, each.severity) == ("WDS258", "warning")]


@pytest.mark.parametrize("prefix", ["", "data/"])
def test_raw_folders_named_like_splits_give_warning(tmp_path: Path, prefix: str) -> None:
    (warning,) = split_folder_warnings(tmp_path, [f"{prefix}train/a.txt", f"{prefix}val/b.txt", "extra/c.txt"])

    assert f"folders {prefix}train and {prefix}val are named like splits, but all 2 samples are for training" in warning
    assert "classes" not in warning
    command = f"wdsctl split {tmp_path}/out --by-value 'key:^{prefix}(train|val)/' --rest none"
    assert warning.endswith(f"`{command}`")


def test_split_folder_warning_mentions_class_folders_inside(tmp_path: Path) -> None:
    (warning,) = split_folder_warnings(tmp_path, ["train/a/1.txt", "train/b/2.txt", "val/b/3.txt", "extra/4.txt"])

    assert "The folders inside are not classes, either." in warning
    assert "wdsctl prepare" not in warning


@pytest.mark.parametrize(
    "folders", [("train", "val"), ("split=train", "split=val"), ("v1.0/x (new)/train", "v1.0/x (new)/split=val")]
)
def test_command_of_split_folder_warning_makes_the_splits(tmp_path: Path, folders: tuple[str, str]) -> None:
    files = [f"{folders[0]}/a.txt", f"{folders[1]}/b.txt", f"{folders[1]}/c.txt", "extra/d.txt"]
    (warning,) = split_folder_warnings(tmp_path, files)

    command = shlex.split(warning.rpartition("To make them splits, run `")[2].removesuffix("`"))

    assert main(command[1:]) == 0
    with Catalog.open(locate(str(tmp_path / "out")).catalog_path) as catalog:
        assert {split.name: split.samples for split in catalog.splits()} == {"train": 1, "val": 2}


def test_dry_run_warns_about_folders_named_like_splits(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"train/a.txt": b"x", "val/b.txt": b"x"})
    more = a_folder(tmp_path / "more", {"train/a.txt": b"x", "val/b.txt": b"x", "extra/c.txt": b"x"})

    reports = [prepare(each, str(tmp_path / "out"), prepare_request(dry_run=True)) for each in (more, root)]

    assert [[each.code for each in report.folder.findings] for report in reports if report.folder] == [["WDS258"], []]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["train/1.jpg", "train/1.txt", "val/1.jpg", "val/1.txt"], {"train": 1, "val": 1}),
        (["x/Training/a/1.txt", "x/Training/b/1.txt", "x/dev/b/1.txt", "x/testing/1.txt"],
         {"train": 2, "val": 1, "test": 1}),
        (["split=train/1.txt", "split=extra/1.txt"], {"train": 1, "extra": 1}),
        # Not all samples are in such folders, two folders mean one split, none is for training.
        (["train/1.txt", "val/1.txt", "2.txt"], {"train": 3}),
        (["train/1.txt", "dev/1.txt", "val/1.txt"], {"train": 3}),
        (["test/1.txt", "val/1.txt"], {"train": 2}),
        (["train/1.txt", "val_small/1.txt"], {"train": 2}),
    ],
)  # fmt: skip
def test_folders_of_raw_files_named_after_splits_are_splits(
    tmp_path: Path, files: list[str], expected: dict[str, int]
) -> None:
    root = a_folder(tmp_path / "raw", {path: path.encode() for path in files})
    request = prepare_request(sample_type="CrudeSample")

    report = prepare(root, str(tmp_path / "out"), request)

    assert splits(report) == expected
    assert report.index is not None
    codes = [each.code for each in report.index.findings]
    assert codes == ([] if len(expected) > 1 else ["WDS258"])
    assert prepare(root, str(tmp_path / "out"), request).up_to_date
    converted = convert([root], str(tmp_path / "converted"), ConvertRequest(from_format="folder"))
    assert converted.datasets[0].splits == expected


def test_files_added_to_split_folders_join_their_splits(tmp_path: Path) -> None:
    request = prepare_request(sample_type="CrudeSample")
    root = a_folder(tmp_path / "raw", {"train/1.txt": b"1", "val/1.txt": b"2"})
    prepare(root, str(tmp_path / "out"), request)

    a_folder(tmp_path / "raw", {"val/2.txt": b"3", "val/3.txt": b"4", "train/2.txt": b"5"})

    assert splits(prepare(root, str(tmp_path / "out"), request)) == {"train": 2, "val": 3}


def test_requested_split_overrides_split_folders(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {f"{split}/{i}.txt": b"x" for split in ("train", "val") for i in range(5)})

    report = prepare(root, str(tmp_path / "out"), prepare_request(sample_type="CrudeSample", split={"all": 1.0}))

    assert splits(report) == {"all": 10}


@pytest.mark.parametrize(
    ("files", "options"),
    [
        (["train/a.txt", "val/b.txt"], {"split": {"train": 1.0, "val": 1.0}}),
        (["train/a.txt", "plane/b.txt"], {}),
        (["test_1/a.txt", "test_2/b.txt"], {}),
    ],
)
def test_split_folder_warning_needs_two_split_names_and_no_request(
    tmp_path: Path, files: list[str], options: dict[str, Any]
) -> None:
    assert split_folder_warnings(tmp_path, files, **options) == []


def test_split_folder_warning_ends_when_dataset_has_splits(tmp_path: Path) -> None:
    files = ["train/a.txt", "val/b.txt", "c.txt"]
    assert len(split_folder_warnings(tmp_path, files)) == len(split_folder_warnings(tmp_path, files)) == 1

    keys = {}
    for name in ("train", "val"):
        keys[name] = str(tmp_path / f"{name}.txt")
        Path(keys[name]).write_text(f"{name}/{'a' if name == 'train' else 'b'}\n")
    split_dataset(str(tmp_path / "out"), SplitRequest(rule=SplitRule({}, keys=keys, rest="none")))

    assert split_folder_warnings(tmp_path, files) == []


def test_label_column_missing_in_test_table_is_optional_field(tmp_path: Path) -> None:
    train = "image,label\n" + "".join(f"{i}.jpg,{i % 3}\n" for i in range(6))
    test = "image\n" + "".join(f"{i}.jpg\n" for i in range(6, 9))
    tables = {"train.csv": train.encode(), "test.csv": test.encode()}
    source = a_folder(tmp_path / "raw", {**pictures(9), **tables})

    report = prepare(source, str(tmp_path / "out"))

    config = load_config(locate(str(tmp_path / "out")).config_path)
    assert (config.sample_type, config.field_map) == (
        "ImageClassificationSample",
        {"image": "jpg", "label": "json[label]"},
    )
    assert config.optional == ("label",)
    assert splits(report) == {"test": 3, "train": 6}


def test_field_map_with_unknown_json_key_is_refused(tmp_path: Path) -> None:
    source = a_table(tmp_path / "raw")

    with pytest.raises(UsageError, match="no sample that was examined has the key 'captoin' in json") as caught:
        prepare(source, str(tmp_path / "out"), PrepareRequest(field_map={"image": "jpg", "caption": "json[captoin]"}))
    assert (caught.value.code, caught.value.hint) == ("WDS220", "did you mean caption?")


@pytest.mark.parametrize(
    ("image", "mask", "key"),
    [
        ("images/{}.jpg", "masks/mask_{}.png", "{}"),
        ("images/{}.jpg", "annotations/trimaps/{}.png", "{}"),
        ("{}_sat.jpg", "{}_mask.png", "{}"),
        ("train/{}.jpg", "train_masks/{}_mask.png", "train/{}"),
    ],
)
def test_images_are_paired_with_their_masks(tmp_path: Path, image: str, mask: str, key: str) -> None:
    masks = {mask.format(n): b"\x89PNG\r\n\x1a\n" + bytes([n]) for n in range(12)}
    images = {image.format(n): JPEG + bytes([n]) for n in range(12)}
    source = a_folder(tmp_path / "raw", {**images, **masks})

    report = prepare(source, str(tmp_path / "made"), PrepareRequest())

    config = load_config(locate(str(tmp_path / "made")).config_path)
    assert (config.sample_type, config.field_map) == ("SegmentationSample", {"image": "jpg", "mask": "mask.png"})
    assert splits(report) == {"train": 12}
    assert {key.format(n) for n in range(12)} == {name.partition(".")[0] for name in members_of(tmp_path / "made")}
    for n in range(12):
        assert members_of(tmp_path / "made")[f"{key.format(n)}.mask.png"] == masks[mask.format(n)]
        assert members_of(tmp_path / "made")[f"{key.format(n)}.jpg"] == images[image.format(n)]


def members_of(root: Path) -> dict[str, bytes]:
    """The members of all shards below a folder."""
    return {name: data for path in root.rglob("*.tar") for name, data in members(path).items()}


def members_of_splits(root: str) -> dict[str, set[str]]:
    keys: dict[str, set[str]] = {}
    with sql(root, "SELECT split, key FROM v_sample_split") as answer:
        for split, key in answer.rows:
            keys.setdefault(split, set()).add(key)
    return keys


def remove_catalog(root: Path) -> None:
    for path in (root / ".wdsctl").glob("catalog*"):
        path.unlink()
    for path in (root / ".wdsctl").glob("offsets*"):
        path.unlink()


@pytest.mark.parametrize("is_table", [False, True])
def test_rebuilt_catalog_has_splits_of_source(tmp_path: Path, is_table: bool) -> None:
    if is_table:
        rows = "".join(f"{i}.jpg,words {i},{('val', 'train', 'train')[i % 3]}\n" for i in range(12))
        source = a_folder(tmp_path / "in", {**pictures(12), "labels.csv": f"file,caption,split\n{rows}".encode()})
        source += "/labels.csv"
    else:
        source = class_folders(tmp_path / "in")
    dest = tmp_path / "made"
    prepare(source, str(dest), PrepareRequest())
    before = members_of_splits(str(dest))
    assert set(before) == {"train", "val"}

    remove_catalog(dest)
    index(str(dest))

    assert members_of_splits(str(dest)) == before
    assert not split_dataset(str(dest), SplitRequest(again=True), dry_run=True).moved


def test_samples_without_split_in_source_stay_without_one_in_rebuilt_catalog(tmp_path: Path) -> None:
    rows = "".join(f"{i}.jpg,words {i},{('val', 'train', '')[i % 3]}\n" for i in range(12))
    source = a_folder(tmp_path / "in", {**pictures(12), "labels.csv": f"file,caption,split\n{rows}".encode()})
    dest = tmp_path / "made"
    prepare(f"{source}/labels.csv", str(dest), PrepareRequest())
    before = members_of_splits(str(dest))
    assert {name: len(keys) for name, keys in before.items()} == {"val": 4, "train": 4}

    remove_catalog(dest)
    index(str(dest))

    assert members_of_splits(str(dest)) == before


def test_requested_split_replaces_splits_of_source(tmp_path: Path) -> None:
    source, dest = class_folders(tmp_path / "in"), str(tmp_path / "made")
    report = prepare(source, dest, PrepareRequest(split={"train": 8, "val": 2, "test": 2}))
    assert splits(report) == {"train": 8, "val": 2, "test": 2}


@pytest.mark.parametrize("is_raw", [False, True])
def test_split_of_written_shards_assigns_samples(tmp_path: Path, is_raw: bool) -> None:
    files = {f"{label}/{label}{i}.jpg": JPEG + bytes([i]) for label in "abcde" for i in range(10)}
    request = PrepareRequest(
        split={"train": 8, "val": 1, "test": 1}, shard_samples=5, from_format="folder" if is_raw else ""
    )
    report = prepare(a_folder(tmp_path / "in", files), str(tmp_path / "made"), request)

    assert report.split is not None
    assert (report.split.by, splits(report)) == ("sample", {"train": 40, "val": 5, "test": 5})
    for keys in members_of_splits(str(tmp_path / "made")).values():
        assert {key[0] for key in keys} == set("abcde")


def captions_of_pictures(root: Path) -> str:
    rows = "".join(f"{i}.jpg,caption {n} of {i}\n" for i in range(40) for n in range(3))
    a_folder(root, {**pictures(40), "captions.csv": f"file,caption\n{rows}".encode()})
    return str(root / "captions.csv")


def questions_about_pictures(root: Path) -> str:
    """As LLaVA has them: the keys are ids, and only the bytes of the pictures show which questions share one."""
    turns = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A square."}]
    rows = [{"id": f"q{i}-{n}", "image": f"{i}.jpg", "conversations": turns} for i in range(40) for n in range(3)]
    a_folder(root, {**pictures(40), "questions.json": json.dumps(rows).encode()})
    return str(root / "questions.json")


@pytest.mark.parametrize("make_source", [captions_of_pictures, questions_about_pictures])
@pytest.mark.parametrize("layout", ["monolithic", "polylithic"])
def test_ratios_warn_if_rows_of_one_file_may_be_separated(
    tmp_path: Path, make_source: Callable[[Path], str], layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, dest = make_source(tmp_path / "raw"), str(tmp_path / "out")

    assert main(["prepare", source, dest, "--split", "6,2,2", "--layout", layout, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["index"]["findings"]
    [warning] = [each for each in findings if each["code"] == "WDS216"]
    assert (warning["severity"], warning["count"]) == ("warning", 40)
    command = warning["message"].partition("run `")[2].partition("`")[0]
    assert main(shlex.split(command)[1:]) == 0
    root = shlex.split(command)[2]
    pictures_of: dict[str, set[str]] = {}
    for split in ("train", "val", "test"):
        capsys.readouterr()
        main(["ls", root, "--samples", "--split", split])
        pictures_of[split] = {key.rpartition("-")[0] for key in capsys.readouterr().out.split()}
    assert sum(map(len, pictures_of.values())) == len(set().union(*pictures_of.values())) == 40


@pytest.mark.parametrize("options", [[], ["--split", "1"]])
def test_rows_of_one_file_need_no_warning_in_one_split(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", captions_of_pictures(tmp_path / "raw"), str(tmp_path / "out"), *options]) == 0
    output = capsys.readouterr()
    assert "WDS250" in output.out
    assert "WDS216" not in output.out
