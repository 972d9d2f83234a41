"""Conversions into a store write the same files as on a disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.build import some_shards
from tests.core.conversions import a_prepared_dataset, files, splits
from tests.remote import FaultyFileSystem, read_objects, upload_shards
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import DatasetError, StorageError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.progress import SilentProgress
from wdsctl.core.storage.objects import ObjectStore


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A prepared dataset that no test changes."""
    return a_prepared_dataset(tmp_path_factory.mktemp("source"), 4, 5)


# A store in memory is not shared by processes, so only S3 is written by several workers.
@pytest.mark.parametrize(
    ("dest", "workers", "options"),
    [
        ("memory", 2, {"order": "shuffle", "seed": 1}),
        ("memory", 1, {"apart": "split"}),
        ("memory", 1, {"to_format": "mds"}),
        ("memory", 1, {"compress": "gz"}),
        ("memory", 1, {"to_format": "parquet"}),
        ("memory", 1, {"to_format": "folder", "apart": "split"}),
        ("memory", 1, {"to_format": "jsonl", "apart": "split"}),
        ("s3", 2, {"order": "shuffle", "seed": 1}),
        ("s3", 1, {"apart": "split"}),
        ("s3", 1, {"compress": "gz"}),
        ("s3", 1, {"to_format": "mds", "apart": "split"}),
        ("s3", 1, {"to_format": "parquet"}),
        ("s3", 2, {"to_format": "folder"}),
        ("s3", 1, {"to_format": "jsonl"}),
    ],
    indirect=["dest"],
)
def test_convert_writes_same_files_into_store_as_on_disk(
    tmp_path: Path, source: str, dest: str, workers: int, options: dict[str, Any]
) -> None:
    request = ConvertRequest(**options, shard_samples=7, workers=workers)
    local = convert([source], str(tmp_path / "local"), request)

    report = convert([source], dest, request)

    assert read_objects(dest) == files(tmp_path / "local")
    assert [each.splits for each in report.datasets] == [each.splits for each in local.datasets]
    assert convert([source], dest, request).up_to_date


def test_second_run_compares_content_of_remote_shards_with_new_etags(
    tmp_path: Path, use_store: Callable[[str], str]
) -> None:
    url, dest = f"{use_store('moto')}/shards", str(tmp_path / "dest")
    local = some_shards(tmp_path / "local", 2)
    upload_shards(local, url)
    index(url)
    convert([url], dest)
    assert convert([url], dest).up_to_date

    tar = tmp_path / "local" / "shard-001.tar"
    before = tar.read_bytes()
    tar.write_bytes(before.replace(b" txt ", b" TXT "))  # the same size and layout
    upload_shards(local, url)
    with pytest.raises(UsageError, match="the same names and sizes, and other content"):
        convert([url], dest)
    tar.write_bytes(before)
    upload_shards(local, url)
    assert convert([url], dest).up_to_date


def test_splits_are_copied_into_store(source: str, dest: str) -> None:
    convert([source], dest, ConvertRequest(shard_samples=7))
    with Catalog.open(locate(dest).catalog_path) as catalog:
        assert {split.name: split.samples for split in catalog.splits()} == splits(Path(source))


def test_index_of_converted_shards_reads_no_shard(source: str, dest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wdsctl.core.index.merge.run_scan_unit", None)
    assert convert([source], dest, ConvertRequest(shard_samples=7, finish=False)).samples == 20


def test_killed_conversion_into_store_is_continued(
    tmp_path: Path, source: str, dest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ConvertRequest(shard_samples=7)
    convert([source], str(tmp_path / "local"), request)
    put = ObjectStore.put
    left = [2]

    def fail(store: ObjectStore, url: str, data: bytes, **options: Any) -> Any:
        left[0] -= url.endswith(".tar")
        if left[0] < 0 and url.endswith(".tar"):
            raise StorageError("cut", hint="x")
        return put(store, url, data, **options)

    monkeypatch.setattr(ObjectStore, "put", fail)
    with pytest.raises(StorageError, match="cut"):
        convert([source], dest, request)
    monkeypatch.setattr(ObjectStore, "put", put)
    assert len(read_objects(dest)) == 2

    report = convert([source], dest, request)

    assert report.kept_files == 2
    assert read_objects(dest) == files(tmp_path / "local")


def test_convert_refuses_non_empty_destination_in_store(source: str, dest: str) -> None:
    ObjectStore(dest).put(f"{dest}/a.txt", b"")
    with pytest.raises(UsageError, match=r"not empty: a\.txt"):
        convert([source], dest, ConvertRequest())


def test_polylithic_layout_is_refused_in_store(source: str, dest: str) -> None:
    with pytest.raises(UsageError) as caught:
        convert([source], dest, ConvertRequest(layout="polylithic"))
    assert "disk" in caught.value.hint


def test_overwrite_in_store_is_refused_only_for_other_dataset(source: str, dest: str) -> None:
    convert([source], dest, ConvertRequest(overwrite=True))
    before = read_objects(dest)
    assert convert([source], dest, ConvertRequest(overwrite=True)).up_to_date

    with pytest.raises(UsageError, match="cannot replace") as caught:
        convert([source], dest, ConvertRequest(overwrite=True, shard_samples=3))

    assert "another DEST" in caught.value.hint
    assert read_objects(dest) == before


def test_source_inside_destination_url_is_refused() -> None:
    with pytest.raises(UsageError, match="overlap"):
        convert(["s3://bucket/a/b"], "s3://bucket/a", ConvertRequest())


def test_prepare_writes_table_into_store(tmp_path: Path, dest: str) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    for i in range(5):
        (folder / f"{i}.jpg").write_bytes(bytes([255, 216, 255, i]) * 100)
    (folder / "labels.csv").write_text("file,caption\n" + "".join(f"{i}.jpg,number {i}\n" for i in range(5)))

    report = prepare(str(folder / "labels.csv"), dest, PrepareRequest(accept_type=True))

    assert report.index is not None
    assert report.index.samples == 5
    assert [name for name in read_objects(dest) if name.endswith(".tar")]


@pytest.mark.parametrize("form", ["folder", "jsonl", "csv"])
def test_killed_conversion_to_files_in_store_is_continued(
    form: str, tmp_path: Path, source: str, dest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ConvertRequest(to_format=form, shard_samples=7)
    convert([source], str(tmp_path / "local"), request)
    open_upload = ObjectStore.open_upload
    moments = (15, 40) if dest.startswith("s3") else (0, 15, 39, 40, 41, 43)
    for allowed in moments:
        left = [allowed]

        def fail(store: ObjectStore, url: str, left: list[int] = left, **options: Any) -> Any:
            left[0] -= ".wdsctl" not in url
            if left[0] < 0 and ".wdsctl" not in url:
                raise StorageError("cut", hint="x")
            return open_upload(store, url, **options)

        monkeypatch.setattr(ObjectStore, "open_upload", fail)
        with suppress(StorageError):
            convert([source], dest, request)
        monkeypatch.setattr(ObjectStore, "open_upload", open_upload)

    convert([source], dest, request)

    assert read_objects(dest) == files(tmp_path / "local")
    assert convert([source], dest, request).up_to_date


def test_second_run_refuses_export_in_store_that_lacks_objects(source: str, dest: str) -> None:
    request = ConvertRequest(to_format="folder", shard_samples=7)
    convert([source], dest, request)
    ObjectStore(dest).delete([f"{dest}/{next(name for name in read_objects(dest) if name.endswith('.jpg'))}"])

    with pytest.raises(UsageError, match="1 file of the finished conversion is missing"):
        convert([source], dest, request)


def test_objects_deleted_during_conversion_to_files_are_reported(tmp_path: Path, source: str) -> None:
    FaultyFileSystem.reset()
    dest = f"memory://{tmp_path.name}/dest"

    class RemoveObjects(SilentProgress):
        def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
            objects = [name for name in read_objects(dest) if name.endswith(".jpg")]
            ObjectStore(dest).delete([f"{dest}/{objects[0]}"] if objects else [])

    with pytest.raises(DatasetError) as caught:
        convert(
            [source], dest, ConvertRequest(to_format="folder", shard_samples=7, workers=1), progress=RemoveObjects()
        )
    assert caught.value.code == "WDS237"


def test_unfinished_conversion_to_files_in_store_is_not_replaced(
    source: str, dest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("wdsctl.core.convert.convert.finish_export", _raise_storage_error)
        with pytest.raises(StorageError, match="cut"):
            convert([source], dest, ConvertRequest(to_format="folder"))
    before = read_objects(dest)

    with pytest.raises(UsageError) as caught:
        convert([source], dest, ConvertRequest(to_format="jsonl", restart=True))

    assert "remove the objects" in caught.value.hint
    assert read_objects(dest) == before


def _raise_storage_error(*_: object) -> None:
    raise StorageError("cut", hint="x")
