"""JSONL in the commands: a file, or a folder of files, is a dataset like any other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.build import RecordingProgress, a_dataset, a_folder, codes, rewrite_shard, split_by_ratios, tree
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.source import recognise_format
from wdsctl.core.validate.validate import validate


def make_lines(first: int, count: int) -> bytes:
    return b"".join(
        json.dumps({"id": f"q{i}", "text": "t" * (i % 7)}).encode() + b"\n" for i in range(first, first + count)
    )


def a_file(folder: Path, data: bytes, name: str = "qa.jsonl") -> str:
    return f"{a_folder(folder, {name: data})}/{name}"


def offsets(place: DatasetLocation) -> Offsets:
    with Catalog.open(place.catalog_path) as catalog:
        return Offsets(place.offsets_path(catalog.generation))


def keys(root: str) -> list[str]:
    found = offsets(locate(root))
    return [found.key(row) for row in range(found.samples)]


def splits(root: str) -> dict[str, list[str]]:
    """The keys of every split of a dataset with one shard."""
    found = offsets(locate(root))
    with Catalog.open(locate(root).catalog_path) as catalog:
        [membership] = catalog.split_membership([found.shards[0].id]).values()
    keys_by_split = {}
    for name, (samples, bits) in membership.splits.items():
        flags = (
            np.ones(found.samples) if bits is None else np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
        )
        rows = np.flatnonzero(flags[: found.samples])
        assert len(rows) == samples
        keys_by_split[name] = [found.key(int(row)) for row in rows]
    return keys_by_split


def test_jsonl_file_is_prepared_in_place_with_catalog_next_to_it(tmp_path: Path) -> None:
    root = a_file(tmp_path, make_lines(0, 40))
    report = prepare(root, request=PrepareRequest(split={"train": 3, "val": 1}))
    assert recognise_format(root).name == "shards"
    assert (report.from_folder, report.source) == (False, root)
    assert report.index is not None
    assert (report.index.samples, report.index.parts, report.index.findings) == (40, 40, ())
    assert sorted(os.listdir(tmp_path)) == [".wdsctl-qa.jsonl", "qa.jsonl"]
    assert keys(root) == [str(i) for i in range(40)]
    assert {name: len(membership) for name, membership in splits(root).items()} == {"train": 30, "val": 10}
    assert prepare(root).up_to_date


def test_jsonl_files_in_one_folder_are_separate_datasets(tmp_path: Path) -> None:
    first, second = a_file(tmp_path, make_lines(0, 3), "a.jsonl"), a_file(tmp_path, make_lines(0, 5), "b.jsonl")
    index(first)
    index(second)
    assert (inspect(first).samples, inspect(second).samples) == (3, 5)


def test_jsonl_folder_is_one_dataset_split_by_file_or_line(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {f"part-{i}.jsonl": make_lines(i * 10, 10) for i in range(4)})
    report = index(root, workers=2)
    assert (report.shards, report.samples) == (4, 40)
    assert keys(root)[9:12] == ["part-0/9", "part-1/0", "part-1/1"]
    assert {each.name: each.shards for each in split_by_ratios(root, {"train": 3, "val": 1}).splits} == {
        "train": 3,
        "val": 1,
    }
    by_line = split_by_ratios(root, {"train": 3, "val": 1}, by="sample", allow_split_changes=True)
    assert {each.name: each.samples for each in by_line.splits} == {"train": 30, "val": 10}


def test_index_reads_only_new_and_changed_jsonl_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.jsonl": make_lines(0, 3), "b.jsonl": make_lines(3, 3)})
    index(root)
    a_folder(tmp_path, {"c.jsonl": make_lines(6, 3)})
    rewrite_shard(tmp_path / "b.jsonl", make_lines(3, 4))
    report = index(root)
    assert (report.added, report.changed, report.unchanged, report.samples) == (1, 1, 1, 10)


def test_jsonl_offsets_are_independent_of_worker_count(tmp_path: Path) -> None:
    roots = [a_folder(tmp_path / name, {f"{i}.jsonl": make_lines(i, 5) for i in range(5)}) for name in "ab"]
    for root, workers in zip(roots, (1, 3), strict=True):
        index(root, workers=workers)
    first, second = (Path(locate(root).offsets_path(1)).read_bytes() for root in roots)
    assert first == second


def test_grown_jsonl_file_keeps_numbers_and_splits(tmp_path: Path) -> None:
    root = a_file(tmp_path, make_lines(0, 100))
    prepare(root, request=PrepareRequest(split={"train": 8, "val": 2}))
    before = splits(root)
    rewrite_shard(root, make_lines(0, 150))
    report = index(root)
    after = splits(root)
    assert (report.changed, report.samples) == (1, 150)
    assert keys(root) == [str(i) for i in range(150)]
    assert {name: len(membership) for name, membership in after.items()} == {"train": 120, "val": 30}
    assert all(set(before[name]) <= set(after[name]) for name in before)


def test_replaced_jsonl_file_is_split_again(tmp_path: Path) -> None:
    root = a_file(tmp_path, make_lines(0, 100))
    prepare(root, request=PrepareRequest(split={"train": 8, "val": 2}))
    rewrite_shard(root, make_lines(50, 110))
    index(root)
    assert {name: len(membership) for name, membership in splits(root).items()} == {"train": 88, "val": 22}


def test_shard_is_renamed_while_the_key_field_changes(tmp_path: Path) -> None:
    root = a_dataset(
        tmp_path, {name: b'{"id": "a", "name": "a"}\n' * n for n, name in ((1, "a.jsonl"), (2, "b.jsonl"))}
    )
    index(root, key="name")
    (tmp_path / "b.jsonl").rename(tmp_path / "c.jsonl")

    report = index(root, key="id")

    assert [(each.was, each.now) for each in report.renamed] == [("b.jsonl", "c.jsonl")]
    assert (report.changed, report.samples) == (2, 3)


def test_option_key_of_jsonl_persists_until_reset(tmp_path: Path) -> None:
    root = a_file(tmp_path, make_lines(0, 3))
    index(root)
    report = index(root, key="id")
    assert (report.changed, keys(root)) == (1, ["q0", "q1", "q2"])
    rewrite_shard(root, make_lines(0, 4))
    index(root)
    assert keys(root) == ["q0", "q1", "q2", "q3"]
    assert index(root, rebuild=True).samples == 4
    assert keys(root) == ["q0", "q1", "q2", "q3"]
    split_by_ratios(root, {"train": 1, "val": 1})
    assert index(root).up_to_date
    index(root, key="")
    assert keys(root) == ["0", "1", "2", "3"]


def test_jsonl_line_without_key_is_finding(tmp_path: Path) -> None:
    root = a_file(tmp_path, make_lines(0, 2) + b'{"id": null}\n')
    report = index(root, key="id")
    assert (codes(report), keys(root)) == (["WDS126"], ["q0", "q1", "2"])


def test_option_key_is_refused_for_tars_and_empty_names(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.txt": b"x"}})
    with pytest.raises(UsageError, match="--key only applies to JSONL"):
        index(root, key="id")
    with pytest.raises(UsageError, match="a name is empty"):
        index(a_file(tmp_path / "b", make_lines(0, 2)), key="a..b")


@pytest.mark.parametrize("name", ["qa.jsonl.gz", "qa.ndjson.xz"])
def test_prepare_of_compressed_jsonl_needs_destination(tmp_path: Path, name: str) -> None:
    root = a_file(tmp_path, b"\x1f\x8b\x08", name)
    with pytest.raises(UsageError, match="missing DEST") as caught:
        prepare(root)
    assert caught.value.hint == f"`wdsctl prepare {root} DEST`"


def test_index_refuses_folder_of_compressed_jsonl_and_writes_nothing(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.jsonl.gz": b"x"})
    with pytest.raises(InputError, match="compressed tar"):
        index(root)
    assert tree(tmp_path).keys() == {"a.jsonl.gz"}


def test_mixed_tars_and_jsonl_are_refused_with_exclude_hint(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.txt": b"x"}, "b.jsonl": make_lines(0, 2)})
    with pytest.raises(InputError, match="a dataset has one format") as caught:
        prepare(root)
    assert "--exclude '*.jsonl'" in caught.value.hint
    assert index(root, exclude=["*.jsonl"]).samples == 1
    assert index(f"{root}/b.jsonl").samples == 2


def test_jsonl_added_to_tar_dataset_is_skipped(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.txt": b"x"}})
    index(root)
    a_folder(tmp_path, {"notes.jsonl": b"{}\n"})
    report = index(root)
    assert (report.samples, codes(report), report.up_to_date) == (1, ["WDS127"], True)


def test_jsonl_among_raw_files_keeps_folder_format(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"0.jpg": b"x", "labels.jsonl": make_lines(0, 1)})
    assert recognise_format(root).name == "folder"
    with pytest.raises(UsageError, match="missing DEST") as caught:
        prepare(root)
    assert f"wdsctl prepare {root}/labels.jsonl" in caught.value.hint
    report = prepare(f"{root}/labels.jsonl", str(tmp_path / "out"), PrepareRequest(format_options={"files": ""}))
    assert (report.form and report.form.name, report.index and report.index.samples) == ("jsonl", 1)


def test_bad_jsonl_files_do_not_stop_index(tmp_path: Path) -> None:
    root = a_folder(
        tmp_path, {"a.jsonl": make_lines(0, 3), "b.jsonl": b"\0binary", "c.jsonl": b'{"a": 1}\n{"cut', "d.jsonl": b""}
    )
    report = index(root)
    assert report.samples == 4
    assert sorted(codes(report)) == ["WDS115", "WDS120", "WDS122"]
    status = {line.path: line.status for line in inspect(root).shard_list}
    assert status == {"a.jsonl": "ok", "b.jsonl": "bad", "c.jsonl": "partial", "d.jsonl": "ok"}


def test_validate_parses_every_line(tmp_path: Path) -> None:
    data = b'{"a": 1}\n[1]\n{"a": nope}\n{"a": "\xff"}\n{"a": 2}\n{"b": nope}\n'
    root = a_file(tmp_path, data)
    index(root)
    report = validate(root)
    found = {(each.code, each.key): each for each in report.findings}
    assert list(found) == [("WDS121", "1"), ("WDS123", "2"), ("WDS123", "5"), ("WDS124", "3")]
    assert all(each.count == 1 for each in report.findings)
    assert "at character 6 of the line" in found["WDS123", "2"].message
    assert found["WDS124", "3"].offset == data.index(b'{"a": "\xff')


def test_validate_has_no_findings_for_valid_jsonl_except_bom(tmp_path: Path) -> None:
    root = a_folder(
        tmp_path, {"a.jsonl": b"\xef\xbb\xbf" + make_lines(0, 9), "b.jsonl": make_lines(9, 9).replace(b"\n", b"\r\n")}
    )
    prepare(root)
    assert [each.code for each in validate(root, workers=2).findings] == ["WDS125"]


def test_validate_reports_jsonl_changed_with_same_mtime(tmp_path: Path) -> None:
    root = a_file(tmp_path, b'{"a": 1}\n{"b": 22}\n')
    index(root)
    stat = os.stat(root)
    Path(root).write_bytes(b'{"a": 11}\n{"b": 2}\n')
    os.utime(root, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert [each.code for each in validate(root).findings] == ["WDS305"]


def test_prepare_detects_text_samples_but_not_with_media_names(tmp_path: Path) -> None:
    text, labels = (
        a_file(tmp_path / "a", make_lines(0, 9)),
        a_file(tmp_path / "b", b'{"image": "x.jpg", "text": "x"}\n' * 9),
    )
    prepare(text)
    prepare(labels)
    assert load_config(locate(text).config_path).field_map == {"text": "json[text]"}
    assert load_config(locate(labels).config_path).sample_type == "CrudeSample"


@pytest.mark.parametrize("data", [b'{"a": 1}\n[1]\n"x"\nword\n', b'"x"\n"y"\n'])
def test_jsonl_lines_without_text_field_are_crude_samples(tmp_path: Path, data: bytes) -> None:
    root = a_file(tmp_path, data)
    prepare(root)
    assert load_config(locate(root).config_path).sample_type == "CrudeSample"


def test_inspect_shows_first_jsonl_lines(tmp_path: Path) -> None:
    root = a_file(tmp_path, make_lines(0, 5))
    index(root)
    report = inspect(root, samples=2)
    assert (report.root, report.samples, report.stale) == (root, 5, ())
    assert [(each.key, each.parts[0].preview) for each in report.first] == [
        ("0", '{"id": "q0", "text": ""}'),
        ("1", '{"id": "q1", "text": "t"}'),
    ]


def test_column_is_computed_from_jsonl_field(tmp_path: Path) -> None:
    root = a_file(tmp_path, make_lines(0, 20))
    report = index(root, columns={"letters": "json:json:text", "bytes": "size:json"})
    letters = sum(i % 7 for i in range(20))
    assert {each.name: each.total for each in report.columns} == {
        "letters": letters,
        "bytes": len(make_lines(0, 20)) - 20,
    }


def test_jsonl_catalog_may_be_elsewhere_and_missing_one_is_reported(tmp_path: Path) -> None:
    root = a_file(tmp_path / "data", make_lines(0, 2))
    with pytest.raises(CatalogError, match="no catalog") as caught:
        inspect(root)
    assert f"wdsctl prepare {root}" in caught.value.hint
    index(root, catalog=str(tmp_path / "elsewhere"))
    assert os.listdir(tmp_path / "data") == ["qa.jsonl"]
    assert inspect(root, catalog=str(tmp_path / "elsewhere")).samples == 2


def test_interrupted_jsonl_index_is_continued(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {f"{i}.jsonl": make_lines(i, 5) for i in range(4)})

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(root, progress=RecordingProgress(at_advance=stop))
    assert os.listdir(locate(root).work_folder)
    assert index(root).samples == 20
