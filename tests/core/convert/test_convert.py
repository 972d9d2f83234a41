from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_shard, some_shards
from tests.core.conversions import a_prepared_dataset, content, convert_to, files, keys, members, splits
from tests.remote import upload_shards
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.parts import PartRules
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


@pytest.mark.usefixtures("place")
def test_resharding_keeps_samples_and_their_order(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 3, 5)

    report = convert_to(tmp_path / "b", source, shard_samples=4)

    assert members(tmp_path / "b") == members(tmp_path / "a")
    assert (report.samples, report.files, report.written_files) == (15, 4, 4)
    assert report.datasets[0].splits == {"train": 15}


def test_shards_do_not_exceed_shard_size(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2, 20)

    convert_to(tmp_path / "b", source, shard_size=10_000)

    sizes = [path.stat().st_size for path in (tmp_path / "b").glob("*.tar")]
    assert max(sizes) <= 10_000
    assert len(sizes) == 10  # five samples of 2 KiB leave no room for the end-of-archive blocks


def test_second_run_is_up_to_date(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2)
    first = convert_to(tmp_path / "b", source)
    before = {path: os.stat(tmp_path / "b" / path).st_mtime_ns for path in files(tmp_path / "b")}

    repeated = convert_to(tmp_path / "b", source)

    assert repeated.up_to_date
    assert not first.up_to_date
    assert repeated.samples == first.samples
    assert before == {path: os.stat(tmp_path / "b" / path).st_mtime_ns for path in files(tmp_path / "b")}


def test_destination_of_other_conversion_is_refused(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2)
    convert_to(tmp_path / "b", source)

    with pytest.raises(UsageError, match="another conversion wrote the destination") as caught:
        convert_to(tmp_path / "b", source, shard_samples=3)
    assert caught.value.code == "WDS345"


def test_destination_with_foreign_files_is_refused(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 1)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("keep me")

    with pytest.raises(UsageError, match=r"not empty: mine\.txt"):
        convert_to(tmp_path / "b", source)
    assert files(tmp_path / "b") == {"mine.txt": b"keep me"}


@pytest.mark.parametrize("dest", ["a", "a/inside", "."])
def test_destination_that_overlaps_source_is_refused(tmp_path: Path, dest: str) -> None:
    source = some_shards(tmp_path / "a", 1)

    with pytest.raises(UsageError, match="overlap"):
        convert_to(tmp_path / dest, source)


def test_dry_run_refuses_destination_that_a_run_refuses(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        for is_dry in (True, False):
            with pytest.raises(UsageError, match=r"the destination is not empty: notes\.txt"):
                convert_to(tmp_path / "b", source, dry_run=is_dry, overwrite=overwrite)
    convert_to(tmp_path / "c", source)
    assert convert_to(tmp_path / "c", source, dry_run=True).samples == 10


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 2)
    before = sorted(str(path) for path in tmp_path.rglob("*"))

    report = convert_to(tmp_path / "b", source, shard_samples=3, dry_run=True)

    assert (report.dry_run, report.samples, report.files) == (True, 10, 4)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_order_key_sorts_all_samples_by_key(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"c.txt": b"c", "a.txt": b"a"}, "1.tar": {"b.txt": b"b"}})

    convert_to(tmp_path / "b", source, order="key", shard_samples=2)

    assert keys(tmp_path / "b") == ["a", "b", "c"]


@pytest.mark.usefixtures("place")
def test_order_shuffle_mixes_all_samples_and_follows_seed(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 4, 10)
    for name, seed in (("b", 1), ("c", 1), ("d", 2)):
        convert_to(tmp_path / name, source, order="shuffle", seed=seed, shard_samples=12)

    one, same, other = (keys(tmp_path / name) for name in "bcd")

    assert one == same != other
    assert sorted(one) == sorted(other) == keys(tmp_path / "a") != one
    # Every new shard has samples of every old one.
    assert {int(key) // 10 for key in one[:12]} == {0, 1, 2, 3}


def test_bytes_do_not_depend_on_number_of_workers(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a", 4, 12)
    for name, workers in (("b", 1), ("c", 4)):
        convert_to(tmp_path / name, source, order="shuffle", seed=9, shard_samples=7, workers=workers)

    assert files(tmp_path / "b") == files(tmp_path / "c")
    assert splits(tmp_path / "b") == splits(tmp_path / "c")


def test_splits_are_copied_per_sample(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a")
    convert_to(tmp_path / "val", source, split="val")
    convert_to(tmp_path / "b", source, order="shuffle", shard_samples=9)
    convert_to(tmp_path / "c", tmp_path / "b", split="val", order="key")

    assert splits(tmp_path / "b") == splits(tmp_path / "a") == {"train": 32, "val": 8}
    assert keys(tmp_path / "c") == sorted(keys(tmp_path / "val"))


@pytest.mark.usefixtures("place")
def test_apart_divides_dataset_by_split_key_prefix_and_field(tmp_path: Path) -> None:
    names = {
        f"{'cat' if i % 2 else 'dog'}/{i}.json": json.dumps({"m": {"of": f"x/{i % 3}"}}).encode() for i in range(12)
    }
    source = a_dataset(tmp_path / "a", {"0.tar": names})
    prepare(source, None, PrepareRequest(accept_type=True, split={"train": 3, "val": 1}, split_by="sample"))

    convert_to(tmp_path / "key", source, apart="key-prefix")
    convert_to(tmp_path / "split", source, apart="split")
    field = convert_to(tmp_path / "field", source, apart="json:m.of")

    assert sorted(path.name for path in (tmp_path / "key").glob("[!.]*")) == ["cat", "dog"]
    assert splits(tmp_path / "split" / "val") == {"val": 3}
    assert [os.path.basename(each.path) for each in field.datasets] == ["x%2F0", "x%2F1", "x%2F2"]
    for name in ("key", "split", "field"):
        assert content(tmp_path / name) == content(tmp_path / "a")


@pytest.mark.usefixtures("place")
def test_where_selects_converted_samples(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a")

    convert_to(tmp_path / "b", source, where="key < '000015'")

    assert keys(tmp_path / "b") == [f"{i:06d}" for i in range(15)]


@pytest.mark.usefixtures("place")
def test_compressed_shards_round_trip(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 3, 4)
    report = convert_to(tmp_path / "gz", source, compress="gz", shard_samples=5)
    repeated = convert_to(tmp_path / "gz2", source, compress="gz", shard_samples=5, workers=2)
    convert_to(tmp_path / "b", tmp_path / "gz", order="shuffle", shard_samples=5)

    assert sorted(files(tmp_path / "gz")) == [f"shard-00000{i}.tar.gz" for i in range(3)]
    assert files(tmp_path / "gz") == files(tmp_path / "gz2")
    assert "cannot read compressed shards" in report.notes[0]
    assert repeated.datasets[0].sample_type == ""
    assert content(tmp_path / "b") == content(tmp_path / "a")


def test_jsonl_is_converted_to_shards(tmp_path: Path) -> None:
    lines = tmp_path / "labels.jsonl"
    lines.write_text("".join(json.dumps({"id": f"k{i}", "n": i}) + "\n" for i in range(5)))
    prepare(str(lines), None, PrepareRequest(accept_type=True, index=IndexRequest(key="id")))

    convert_to(tmp_path / "b", lines)

    assert content(tmp_path / "b") == {f"k{i}.json": json.dumps({"id": f"k{i}", "n": i}).encode() for i in range(5)}


def test_unusual_names_are_preserved(tmp_path: Path) -> None:
    names = {
        "a b/ü.txt": b"1",
        "'; DROP TABLE entry; --.txt": b"2",
        f"{'n' * 300}.txt": b"3",
        "../../etc/passwd.txt": b"4",
    }
    source = a_dataset(tmp_path / "a", {"0.tar": a_shard(names, format=tarfile.PAX_FORMAT)})

    convert_to(tmp_path / "b", source, order="key")

    assert content(tmp_path / "b") == names


@pytest.mark.parametrize(
    "options",
    [
        {"template": "all.tar"},
        {"seed": 3},
        {"layout": "polylithic", "to_format": "folder"},
        {"media": ("jpg",)},
        {"compress": "gz", "to_format": "folder"},
        {"apart": "colour"},
        {"to_format": "floppy"},
        {"from_format": "floppy"},
        {"parts": PartRules(rename=(("a", "x"), ("b", "x")))},
    ],
)
def test_contradicting_options_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        convert_to(tmp_path / "b", some_shards(tmp_path / "a", 1), **options)


@pytest.mark.usefixtures("faulty_store")
def test_shards_in_store_are_converted(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 3, 4)
    upload_shards(source, "faulty://store/shards")

    convert_to(tmp_path / "b", "faulty://store/shards", order="shuffle", seed=2, shard_samples=5)
    convert_to(tmp_path / "c", source, order="shuffle", seed=2, shard_samples=5)

    assert files(tmp_path / "b") == files(tmp_path / "c")


def test_source_with_missing_shard_is_refused_and_shard_is_named(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "d", 2)
    index(root)
    os.unlink(f"{root}/shard-001.tar")
    for is_known in (False, True):
        if is_known:
            index(root, missing="keep")
        with pytest.raises(DatasetError, match="1 shard of the source missing: shard-001") as caught:
            convert([root], str(tmp_path / "out"))
        assert (caught.value.code, "--missing drop" in caught.value.hint) == ("WDS344", True)
