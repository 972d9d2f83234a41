"""Folders and names of shards tell splits: `prepare` in place and with a destination makes the same ones."""

from __future__ import annotations

import gzip
import itertools
import json
import shlex
from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import Finding
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import PrepareReport, prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.split.report import show_splits
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset

UNSURE = PrepareRequest(accept_type=True)

HIVE = {"split=train/part-0-a1": 2, "split=train/part-1-b2": 1, "split=val/part-0": 1}
CONFIGURATIONS = {
    "en/train-00000-of-00002": 2,
    "en/train-00001-of-00002": 1,
    "en/test-00000-of-00001": 1,
    "de/train-00000-of-00001": 1,
    "de/test-00000-of-00001": 2,
}
CONFIGURATION_FOLDERS = {"a/train/0": 2, "a/test/0": 1, "b/train/0": 2, "b/test/0": 1}
NUMBERED = {"train-0001": 2, "train-0002": 1, "val-0001": 1}


def lines(name: str, count: int) -> bytes:
    return "".join(f"{json.dumps({'text': f'{name} {i}'})}\n" for i in range(count)).encode()


def a_folder_of_lines(root: Path, counts: dict[str, int]) -> str:
    return a_folder(root, {f"{name}.jsonl": lines(name, count) for name, count in counts.items()})


def sizes(report: PrepareReport) -> dict[str, int]:
    assert report.split is not None
    return {split.name: split.samples for split in report.split.splits}


@pytest.mark.parametrize("dest", [None, "out"])
@pytest.mark.parametrize(
    ("counts", "splits"),
    [
        (HIVE, {"train": 3, "val": 1}),
        (CONFIGURATIONS, {"train": 4, "test": 3}),
        (CONFIGURATION_FOLDERS, {"train": 4, "test": 2}),
        (NUMBERED, {"train": 3, "val": 1}),
        ({"photos-train-0": 1, "photos-train-1": 1, "photos-dev-0": 1}, {"train": 2, "val": 1}),
        ({"train/a": 1, "train/b": 1, "val/c": 1}, {"train": 2, "val": 1}),
        ({"split=test/a": 2}, {"test": 2}),
        ({"train": 3, "val": 1, "other": 5}, {"train": 3, "val": 1}),
        ({"train/a": 3, "val/a": 1, "extra/a": 5}, {"train": 3, "val": 1}),
    ],
)
def test_paths_of_lines_tell_splits(
    tmp_path: Path, counts: dict[str, int], splits: dict[str, int], dest: str | None
) -> None:
    root = a_folder_of_lines(tmp_path / "in", counts)
    assert sizes(prepare(root, dest and str(tmp_path / dest), UNSURE)) == splits


@pytest.mark.parametrize(
    ("counts", "splits"),
    [
        (HIVE, {"train": 3, "val": 1}),
        (CONFIGURATIONS, {"train": 4, "test": 3}),
        (CONFIGURATION_FOLDERS, {"train": 4, "test": 2}),
        ({"train": 3, "val": 1, "other": 5}, {"train": 3, "val": 1}),
    ],
)
@pytest.mark.parametrize("is_compressed", [False, True])
def test_paths_of_tars_tell_splits(
    tmp_path: Path, counts: dict[str, int], splits: dict[str, int], *, is_compressed: bool
) -> None:
    shards = {
        f"{name}.tar": {f"{name.replace('/', '_')}_{i}.txt": b"x" for i in range(count)}
        for name, count in counts.items()
    }
    root = a_dataset(tmp_path / "in", shards)
    if is_compressed:
        for tar in Path(root).rglob("*.tar"):
            tar.with_suffix(".tar.gz").write_bytes(gzip.compress(tar.read_bytes()))
            tar.unlink()
    assert sizes(prepare(root, str(tmp_path / "out") if is_compressed else None, UNSURE)) == splits


def findings_of(report: PrepareReport) -> list[Finding]:
    assert report.index is not None
    return [*report.index.findings, *(report.conversion.findings if report.conversion else ())]


@pytest.mark.parametrize("dest", [None, "out"])
@pytest.mark.parametrize(
    ("counts", "code"),
    [({"train": 3, "val": 1, "other": 5}, "WDS213"), ({"val": 1, "other": 5}, "WDS258"), ({"other": 5}, "")],
)
def test_prepare_reports_lines_without_split(
    tmp_path: Path, counts: dict[str, int], code: str, dest: str | None
) -> None:
    root = a_folder_of_lines(tmp_path / "in", counts)
    report = prepare(root, dest and str(tmp_path / dest), UNSURE)
    assert [finding.code for finding in findings_of(report)] == ([code] if code else [])


@pytest.mark.parametrize(
    ("counts", "splits"),
    [({"train": 3, "val": 1, "other": 5}, {"train": 8, "val": 1}), ({"val": 1, "other": 5}, {"train": 5, "val": 1})],
)
def test_command_of_finding_makes_splits(tmp_path: Path, counts: dict[str, int], splits: dict[str, int]) -> None:
    root = a_folder_of_lines(tmp_path / "in", counts)
    [finding] = findings_of(prepare(root, None, UNSURE))
    words = shlex.split(finding.message.split("`")[1])
    assert words[:3] == ["wdsctl", "split", root]
    patterns = [after for word, after in itertools.pairwise(words) if word == "--pattern"]
    split_dataset(root, parse_split_request(SplitOptions(pattern=tuple(patterns), rest=words[-1])))

    assert {split.name: split.samples for split in show_splits(root).sets[0].splits} == splits


def test_request_of_splits_ignores_names(tmp_path: Path) -> None:
    root = a_folder_of_lines(tmp_path / "in", {"train": 3, "val": 1, "other": 4})
    request = PrepareRequest(accept_type=True, split={"train": 1.0})
    for dest in (str(tmp_path / "out"), None):
        report = prepare(root, dest, request)
        assert (sizes(report), findings_of(report)) == ({"train": 8}, [])


@pytest.mark.parametrize(
    ("counts", "splits", "codes"),
    [
        (NUMBERED, {"train": 3, "val": 1}, []),
        ({"train": 3, "val": 1, "other": 5}, {"train": 3, "val": 1}, ["WDS213"]),
        ({"val": 1, "other": 5}, {"train": 6}, ["WDS258"]),
    ],
)
def test_convert_takes_splits_of_unprepared_lines(
    tmp_path: Path, counts: dict[str, int], splits: dict[str, int], codes: list[str]
) -> None:
    root, dest = a_folder_of_lines(tmp_path / "in", counts), str(tmp_path / "out")
    report = convert([root], dest, ConvertRequest())
    assert {split.name: split.samples for split in show_splits(dest).sets[0].splits} == splits
    assert [finding.code for finding in report.findings] == codes


def test_convert_takes_splits_that_unprepared_lines_name(tmp_path: Path) -> None:
    rows = b'{"text": "a", "split": "train"}\n{"text": "b", "split": "test"}\n'
    root, dest = a_folder(tmp_path / "in", {"a.jsonl": rows}), str(tmp_path / "out")
    assert not convert([root], dest, ConvertRequest()).findings
    assert {split.name: split.samples for split in show_splits(dest).sets[0].splits} == {"train": 1, "test": 1}


def test_convert_reports_field_that_names_splits_of_unprepared_tars(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "in", {"a.tar": {"0.json": b'{"split": "train"}', "1.json": b'{"split": "val"}'}})
    [finding] = convert([root], str(tmp_path / "out"), ConvertRequest()).findings
    assert finding.code == "WDS259"
    assert "`wdsctl split DEST --by-value json:split`" in finding.message


@pytest.mark.parametrize(
    ("folders", "words"),
    [(("train", "val", "extra"), "--rest none`"), (("val", "extra"), "--rest train`"), (("train", "extra"), "")],
)
def test_raw_folders_named_like_splits_are_reported(tmp_path: Path, folders: tuple[str, ...], words: str) -> None:
    root = a_folder(
        tmp_path / "in", {f"{name}/{i}.{part}": b"x" for name in folders for i in "ab" for part in ("txt", "y")}
    )
    prepared = findings_of(prepare(root, str(tmp_path / "prepared"), UNSURE))
    converted = convert([root], str(tmp_path / "converted"), ConvertRequest()).findings
    for finding in (*prepared, *converted):
        assert finding.code == "WDS258"
        assert words in finding.message
    assert len(prepared) == len(converted) == bool(words)


@pytest.mark.parametrize(
    ("counts", "later"),
    [
        (HIVE, "split=val/part-7-ff"),
        (CONFIGURATIONS, "en/test-00001-of-00002"),
        (CONFIGURATION_FOLDERS, "b/test/other"),
        (NUMBERED, "val-0002"),
    ],
)
def test_later_shard_is_in_split_of_its_path(tmp_path: Path, counts: dict[str, int], later: str) -> None:
    root = a_folder_of_lines(tmp_path / "in", counts)
    before = sizes(prepare(root, None, UNSURE))
    (tmp_path / "in" / f"{later}.jsonl").write_bytes(lines(later, 5))
    index(root)

    after = {split.name: split.samples for split in show_splits(root).sets[0].splits}
    [name] = set(before) - {"train"}
    assert after == before | {name: before[name] + 5}


@pytest.mark.parametrize("dest", [None, "out"])
def test_prepare_names_joined_configurations(tmp_path: Path, dest: str | None) -> None:
    root = a_folder_of_lines(tmp_path / "in", CONFIGURATIONS)
    report = prepare(root, dest and str(tmp_path / dest), UNSURE)
    assert report.index is not None
    findings = [*report.index.findings, *(report.conversion.findings if report.conversion else ())]

    assert [finding.code for finding in findings] == ["WDS260"]
    command = f"wdsctl prepare {root}/de" if dest is None else f"wdsctl prepare {root}/de DEST"
    assert f"de/ and en/; to take one, pass its folder: `{command}`" in findings[0].message


def test_field_decides_if_paths_tell_one_split_only(tmp_path: Path) -> None:
    rows = b'{"text": "a", "split": "train"}\n{"text": "b", "split": "test"}\n'
    root = a_folder(tmp_path / "in", {"train/a.jsonl": rows, "train/b.jsonl": rows})
    assert sizes(prepare(root, None, UNSURE)) == {"train": 2, "test": 2}
