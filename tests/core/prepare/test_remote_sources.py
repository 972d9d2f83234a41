"""`prepare` makes the same shards and catalogs from files in a store as from the same files on a disk."""

from __future__ import annotations

import bz2
import gzip
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.build import a_folder, a_shard, an_image, samples
from tests.core.dumps import query
from tests.core.importers.annotations.test_coco import a_whole_coco
from tests.prepare_requests import prepare_request
from tests.remote import FaultyFileSystem, upload_shards
from tests.stores.servers import web_server
from wdsctl.cli.errors import PARTIAL, convert_exit_code, index_exit_code
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, PermissionDenied, UsageError, WdsctlError
from wdsctl.core.prepare.prepare import PrepareReport, prepare
from wdsctl.core.prepare.source import recognise_format
from wdsctl.core.progress import SilentProgress
from wdsctl.core.storage import source_files

OPTIONS = {"shard_samples": 4, "accept_type": True, "split": {"train": 3, "val": 1}}
PICTURES = {f"images/{i}.jpg": an_image("JPEG") + b"%d" % i for i in range(9)}
TALK = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "It."}]

SOURCES: dict[str, Mapping[str, bytes]] = {
    "folder": {**samples(0, 9), "empty/0.jpg": b"", "empty/0.txt": b"", ".git/config": b"", "README": b"x"},
    "imagefolder": {f"train/{c}/{c}{i}.jpg": an_image("JPEG") for c in "ab" for i in range(5)},
    "csv": {"t.csv": b"file,n\n" + b"".join(b"images/%d.jpg,%d\n" % (i, i) for i in range(9)), **PICTURES},
    "json": {
        "talks.json": json.dumps(
            [{"id": f"t{i}", "image": f"images/{i}.jpg", "conversations": TALK} for i in range(9)]
        ).encode(),
        **PICTURES,
    },
    "packed": {
        "a.tar.gz": gzip.compress(a_shard(samples(0, 3))),
        "b/b.tar.bz2": bz2.compress(a_shard(samples(10, 3))),
    },
}


def shards(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.tar")}


def run_prepare(source: str, dest: Path, **options: Any) -> PrepareReport:
    return prepare(source, str(dest), prepare_request(**{**OPTIONS, **options}))


def assert_same_datasets(one: Path, other: Path) -> None:
    assert shards(one) == shards(other) != {}
    for table in ("sample", "shard_part", "split", "split_shard", "ext"):
        rows = [query(locate(str(root)).catalog_path, f"SELECT * FROM {table}") for root in (one, other)]
        assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("name", "workers"),
    [("folder", 2), ("imagefolder", 1), ("csv", 1), ("json", 1), ("packed", 2), ("coco", 1)],
)
def test_remote_source_gives_shards_and_catalog_of_local_source(
    name: str, workers: int, tmp_path: Path, use_store: Callable[[str], str]
) -> None:
    raw = tmp_path / "raw"
    source = a_whole_coco(raw) if name == "coco" else a_folder(raw, SOURCES[name])
    url = upload_shards(raw, f"{use_store('rclone')}/raw", "*")

    local, remote = run_prepare(source, tmp_path / "here"), run_prepare(url, tmp_path / "there", workers=workers)

    assert local.form is not None
    assert remote.form == local.form
    assert_same_datasets(tmp_path / "there", tmp_path / "here")
    assert run_prepare(url, tmp_path / "there").up_to_date


def test_every_store_gives_shards_of_local_source(tmp_path: Path, store_folder: str) -> None:
    for name in ("folder", "csv"):
        source = a_folder(tmp_path / name, SOURCES[name])
        url = upload_shards(tmp_path / name, f"{store_folder}/{name}", "*")
        run_prepare(source, tmp_path / "here" / name)
        run_prepare(url, tmp_path / "there" / name)
        assert_same_datasets(tmp_path / "there" / name, tmp_path / "here" / name)


def test_web_server_gives_shards_of_local_source(tmp_path: Path) -> None:
    for name in ("folder", "imagefolder", "csv"):
        a_folder(tmp_path / "www" / name, SOURCES[name])
    with web_server(tmp_path / "www") as url:
        for name in ("folder", "imagefolder", "csv", "csv/t.csv"):
            local, remote = (tmp_path / place / name.replace("/", "-") for place in ("here", "there"))
            run_prepare(str(tmp_path / "www" / name), local)
            run_prepare(f"{url}/{name}", remote)
            assert_same_datasets(remote, local)


def test_raw_files_in_store_are_prepared_to_store(tmp_path: Path, use_store: Callable[[str], str]) -> None:
    from wdsctl.core.storage.objects import ObjectStore

    root = use_store("moto")
    source = a_folder(tmp_path / "raw", SOURCES["folder"])
    url = upload_shards(tmp_path / "raw", f"{root}/raw", "*")
    run_prepare(source, tmp_path / "here")

    prepare(url, f"{root}/made", prepare_request(**OPTIONS))

    store = ObjectStore(root)
    written_shards = {name: store.get(f"{root}/made/{name}")[0] for name in shards(tmp_path / "here")}
    assert written_shards == shards(tmp_path / "here")


def test_store_listing_has_counts_of_local_folder(tmp_path: Path) -> None:
    FaultyFileSystem.reset()
    files = {**samples(0, 9), "d/lone.jpg": b"1", "noextension": b"", ".hidden/x.jpg": b"", "d/.y.jpg": b""}
    source = a_folder(tmp_path / "raw", files)
    url = upload_shards(tmp_path / "raw", f"faulty://{tmp_path.name}/raw", "*")

    reports = [
        run_prepare(each, tmp_path / name, on_missing="skip", dry_run=True).folder
        for each, name in ((source, "here"), (url, "there"))
    ]

    counts = [(each.incomplete, each.strays, each.ignored, each.samples, each.examples) for each in reports if each]
    assert counts[0] == counts[1]
    assert counts[0][:3] == (1, 1, 2)


@pytest.mark.parametrize("name", ["d//x.jpg", "../x.jpg", "d/../x.jpg"])
def test_object_names_impossible_in_folders_are_skipped(tmp_path: Path, name: str) -> None:
    FaultyFileSystem.reset()
    files = SOURCES["imagefolder"]
    url = f"faulty://{tmp_path.name}/raw"
    filesystem, base = fsspec.url_to_fs(url)
    for each, data in {**{path.replace("/", "-"): data for path, data in files.items()}, name: b"1"}.items():
        filesystem.store[f"{base}/{each}"] = fsspec.implementations.memory.MemoryFile(
            filesystem, f"{base}/{each}", data
        )

    report = run_prepare(url, tmp_path / "made", on_missing="skip")

    assert report.index is not None
    assert report.index.samples == len(files)


class _ChangingProgress(SilentProgress):
    """Calls a function when shards are about to be written."""

    def __init__(self, change: Callable[[], None]) -> None:
        self._change = change

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        if name in ("write", "convert"):
            self._change()


@pytest.mark.parametrize("data", [None, b"", b"much longer than before"])
def test_object_changed_after_listing_is_skipped_and_reported(tmp_path: Path, data: bytes | None) -> None:
    FaultyFileSystem.reset()
    a_folder(tmp_path / "raw", samples(0, 9))
    url = upload_shards(tmp_path / "raw", f"faulty://{tmp_path.name}/raw", "*")
    filesystem, base = fsspec.url_to_fs(url)

    def change() -> None:
        if data is not None:
            filesystem.pipe_file(f"{base}/000002.jpg", data)
        elif filesystem.exists(f"{base}/000002.jpg"):
            filesystem.rm_file(f"{base}/000002.jpg")

    report = prepare(url, str(tmp_path / "made"), prepare_request(**OPTIONS), progress=_ChangingProgress(change))

    assert report.index is not None
    found = [finding for finding in report.index.findings if finding.code == "WDS202"]
    assert [each.count for each in found] == [1]
    assert "000002.jpg" in found[0].message
    assert index_exit_code(report.index) == PARTIAL
    assert report.index.samples == 8


def test_deleted_file_of_table_is_counted_and_reported(tmp_path: Path) -> None:
    FaultyFileSystem.reset()
    a_folder(tmp_path / "raw", SOURCES["csv"])
    url = upload_shards(tmp_path / "raw", f"faulty://{tmp_path.name}/raw", "*")
    filesystem, base = fsspec.url_to_fs(url)
    progress = _ChangingProgress(lambda: filesystem.rm_file(f"{base}/images/3.jpg"))

    report = convert([f"{url}/t.csv"], str(tmp_path / "made"), ConvertRequest(workers=1), progress=progress)

    assert (report.failed, convert_exit_code(report)) == (1, PARTIAL)
    assert any("images/3.jpg" in finding.message for finding in report.findings)


def test_replaced_object_rewrites_its_shard(tmp_path: Path, use_store: Callable[[str], str]) -> None:
    a_folder(tmp_path / "raw", samples(0, 9))
    url = upload_shards(tmp_path / "raw", f"{use_store('moto')}/raw", "*")
    run_prepare(url, tmp_path / "made")
    before = shards(tmp_path / "made")

    fsspec.filesystem("s3").pipe_file(f"{url}/000001.txt", b"X" * len(samples(1, 1)["000001.txt"]))
    report = run_prepare(url, tmp_path / "made")

    assert report.folder is not None
    assert report.folder.written == 1
    assert [name for name, data in shards(tmp_path / "made").items() if data != before[name]] == ["shard-000000.tar"]


def test_local_copy_continues_run_from_store(tmp_path: Path, use_store: Callable[[str], str]) -> None:
    source = a_folder(tmp_path / "raw", samples(0, 9))
    url = upload_shards(tmp_path / "raw", f"{use_store('rclone')}/raw", "*")
    run_prepare(url, tmp_path / "made")

    report = run_prepare(source, tmp_path / "made")

    assert report.folder is not None
    assert (report.folder.written, report.folder.kept) == (0, 3)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("s3://nowhere/raw", InputError),
        ("{root}/nothing", InputError),
        ("https://host/t.csv?X-Amz-Signature=a", InputError),
        ("simplecache::{root}/raw/t.csv", UsageError),
    ],
)
def test_unreadable_remote_sources_are_refused(
    tmp_path: Path, use_store: Callable[[str], str], url: str, kind: type[WdsctlError]
) -> None:
    root = use_store("moto")
    a_folder(tmp_path / "raw", SOURCES["csv"])
    upload_shards(tmp_path / "raw", f"{root}/raw", "*")

    with pytest.raises(kind):
        run_prepare(url.format(root=root), tmp_path / "made")


def test_wrong_credentials_raise_permission_denied(
    tmp_path: Path, use_store: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.stores.servers import forget_filesystems

    root = use_store("rclone")
    a_folder(tmp_path / "raw", SOURCES["csv"])
    url = upload_shards(tmp_path / "raw", f"{root}/raw", "*")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-another")
    forget_filesystems()

    with pytest.raises(PermissionDenied):
        run_prepare(url, tmp_path / "made")


def test_remote_file_of_unknown_format_is_refused(tmp_path: Path) -> None:
    FaultyFileSystem.reset()
    a_folder(tmp_path / "raw", {"x.bin": b"\0\1\2"})
    url = upload_shards(tmp_path / "raw", f"faulty://{tmp_path.name}/raw", "*")

    with pytest.raises(InputError) as caught:
        recognise_format(f"{url}/x.bin", str(tmp_path / "made"))
    assert caught.value.code == "WDS235"


def test_rows_of_remote_table_cannot_read_outside_their_folder(tmp_path: Path) -> None:
    FaultyFileSystem.reset()
    rows = ["../secret.jpg", "faulty://other/secret.jpg", "/secret.jpg", "images/../../secret.jpg", "images/1.jpg"]
    a_folder(tmp_path / "raw", {"t.csv": "\n".join(["file,n", *(f"{row},1" for row in rows)]).encode(), **PICTURES})
    url = upload_shards(tmp_path / "raw", f"faulty://{tmp_path.name}/raw", "*")
    for secret in (f"{url}/../secret.jpg", "faulty://other/secret.jpg"):
        filesystem, path = fsspec.url_to_fs(source_files.absolute(secret))
        filesystem.pipe_file(path, b"secret")

    report = convert([f"{url}/t.csv"], str(tmp_path / "made"), ConvertRequest(workers=1))

    assert [(finding.code, finding.count) for finding in report.findings if finding.severity == "error"] == [
        ("WDS230", 4)
    ]
    assert b"secret" not in b"".join(shards(tmp_path / "made").values())


def test_files_shared_by_rows_of_remote_table_are_stored_once(tmp_path: Path) -> None:
    FaultyFileSystem.reset()
    rows = "".join(f"images/{i % 3}.jpg,{i}\n" for i in range(9))
    source = a_folder(tmp_path / "raw", {"t.csv": f"file,n\n{rows}".encode(), **PICTURES})
    url = upload_shards(tmp_path / "raw", f"faulty://{tmp_path.name}/raw", "*")

    for root, name in ((source, "here"), (url, "there")):
        convert([f"{root}/t.csv"], str(tmp_path / name), ConvertRequest(layout="polylithic", workers=1))

    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    assert len(shards(tmp_path / "here")) == 2


class _NoListingHandler(BaseHTTPRequestHandler):
    """Serves JSONL files and refuses to list folders."""

    def do_GET(self) -> None:
        data = b'{"text": "a"}\n' if self.path.endswith(".jsonl") else b""
        self.send_response(200 if data else 403)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Suppresses log output."""


def test_jsonl_url_of_server_without_listings_is_recognised_as_shards(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _NoListingHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/d"

        assert recognise_format(f"{url}/x.jsonl", str(tmp_path)).name == "shards"
        with pytest.raises(PermissionDenied):
            recognise_format(f"{url}/x.csv", str(tmp_path))
        server.shutdown()
