"""Datasets at URLs in the commands: the same catalog as on a disk, for every storage."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest

from tests import children
from tests.build import a_shard, rewrite_shard, samples, some_shards, split_by_ratios
from tests.core.dumps import query
from tests.remote import FaultyFileSystem, OnceEach, remove_retry_pauses, s3_server, upload_shards
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, StorageDown, StorageError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.shards.list import list_shards
from wdsctl.core.storage.remote import FsspecStorage
from wdsctl.core.validate.validate import validate

URL = "faulty://store/shards"
COMPARABLE_COLUMNS = {
    "shard": "id, path, size, samples, parts, status, code, layout_hash, added, removed"
}  # all columns but the mtime
pytestmark = pytest.mark.usefixtures("faulty_store")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


def rows(root: str, catalog: str | None = None) -> dict[str, list[object]]:
    path = locate(root, catalog).catalog_path
    tables = ("shard", "ext", "sample", "shard_part", "split", "split_shard")
    return {
        table: query(path, f"SELECT {COMPARABLE_COLUMNS.get(table, '*')} FROM {table} ORDER BY 1, 2")
        for table in tables
    }


def prepare_local_and_remote(tmp_path: Path, *, shards: int = 4) -> tuple[str, str]:
    """The same shards on a disk and in remote storage, both prepared: (path, URL)."""
    local = some_shards(tmp_path / "local", shards)
    upload_shards(local, URL)
    options = PrepareRequest(accept_type=True, split={"train": 3, "val": 1})
    prepare(local, None, options)
    prepare(URL, None, options)
    return local, URL


def test_remote_catalog_has_same_rows_as_local_one(tmp_path: Path) -> None:
    local, url = prepare_local_and_remote(tmp_path)

    assert rows(url) == rows(local)
    assert Path(locate(url).config_path).read_text("utf-8") == Path(locate(local).config_path).read_text("utf-8")
    assert Path(locate(url).offsets_path(1)).read_bytes() == Path(locate(local).offsets_path(1)).read_bytes()


def test_remote_catalog_is_in_data_home_or_given_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload_shards(some_shards(tmp_path / "local", 1), URL)

    assert os.path.dirname(index(URL).catalog).startswith(str(tmp_path / "data-home" / "wdsctl" / "shards-"))
    assert index(URL, catalog=str(tmp_path / "mine")).catalog == str(tmp_path / "mine" / "catalog.sqlite")
    monkeypatch.setenv("WDSCTL_CATALOG", str(tmp_path / "shared"))
    assert index(URL).catalog.startswith(str(tmp_path / "shared" / "shards-"))
    with pytest.raises(InputError, match="the catalog folder is a URL"):
        index(URL, catalog="s3://bucket/catalogs")


def test_only_catalog_is_written_into_remote_storage(tmp_path: Path) -> None:
    _, url = prepare_local_and_remote(tmp_path)
    validate(url)
    inspect(url)

    filesystem, base = fsspec.url_to_fs(url)
    others = [path for path in sorted(filesystem.find(base)) if not path.startswith("/store/shards/.wdsctl/")]
    assert others == [f"/store/shards/shard-00{i}.tar" for i in range(4)]


def test_remote_index_reads_only_new_and_changed_shards(tmp_path: Path) -> None:
    local, url = prepare_local_and_remote(tmp_path)
    FaultyFileSystem.reads.clear()
    assert index(url).up_to_date
    assert not [path for path, _, _ in FaultyFileSystem.reads if path.endswith(".tar")]

    filesystem, base = fsspec.url_to_fs(url)
    rewrite_shard(Path(local, "shard-001.tar"), samples(100, 7))
    filesystem.pipe_file(f"{base}/shard-001.tar", Path(local, "shard-001.tar").read_bytes())
    filesystem.pipe_file(f"{base}/shard-009.tar", a_shard(samples(200, 2)))
    report = index(url)

    assert (report.added, report.changed, report.unchanged) == (1, 1, 3)
    read = {path for path, _, _ in FaultyFileSystem.reads if path.endswith(".tar")}
    assert read == {f"{base}/shard-001.tar", f"{base}/shard-009.tar"}


def test_vanished_remote_shards_are_reported(tmp_path: Path) -> None:
    _, url = prepare_local_and_remote(tmp_path)
    filesystem, base = fsspec.url_to_fs(url)
    filesystem.rm(f"{base}/shard-002.tar")

    with pytest.raises(InputError, match="1 of 4 shards has vanished"):
        index(url)
    found = inspect(url, samples=11)
    assert [finding.message for finding in found.stale] == ["is in the catalog, but its file is missing"]
    assert [part.preview for part in found.first[10].parts] == ["missing", "missing"]
    assert index(url, missing="drop").shards == 3


def test_prepare_and_index_refuse_empty_remote_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        prepare(URL, request=PrepareRequest(accept_type=True))
    assert caught.value.code == "WDS003"
    with pytest.raises(InputError, match="found no shards"):
        index(URL)
    assert not Path(locate(URL).meta).exists()


def test_unreadable_remote_shard_is_recorded_and_others_indexed(tmp_path: Path) -> None:
    upload_shards(some_shards(tmp_path / "local", 3), URL)

    def fail_shard(path: str, start: int, stop: int, data: bytes) -> bytes:
        if path.endswith("shard-001.tar"):
            raise PermissionError("Forbidden")
        return data

    FaultyFileSystem.fault.append(fail_shard)
    report = index(URL)
    assert [(finding.code, finding.shard) for finding in report.findings] == [("WDS402", "shard-001.tar")]
    assert report.samples == 10

    FaultyFileSystem.fault.clear()
    assert (index(URL).samples, index(URL).findings) == (15, ())


def test_index_is_unaffected_by_interrupted_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove_retry_pauses(monkeypatch)
    local = some_shards(tmp_path / "local", 3)
    index(local)
    FaultyFileSystem.fault.append(OnceEach(lambda _path, _start, _stop, data: data[: len(data) // 2]))

    index(upload_shards(local, URL))

    assert rows(URL) == rows(local)


def test_inspect_and_validate_of_remote_dataset_equal_local(tmp_path: Path) -> None:
    local, url = prepare_local_and_remote(tmp_path)

    assert inspect(url, samples=7).first == inspect(local, samples=7).first
    assert inspect(url).stale == ()
    assert validate(url).findings == validate(local).findings


def test_inspect_reads_samples_with_one_request_per_shard(tmp_path: Path) -> None:
    _, url = prepare_local_and_remote(tmp_path)
    FaultyFileSystem.reads.clear()
    FaultyFileSystem.metadata_requests.clear()
    inspect(url, samples=8)

    pointer, *shards = [path for path, _, _ in FaultyFileSystem.reads]
    assert pointer == "/store/shards/.wdsctl/current.json", "whether the catalog is current"
    assert sorted(shards) == ["/store/shards/shard-000.tar", "/store/shards/shard-001.tar"]
    assert FaultyFileSystem.metadata_requests == ["/store/shards"], "the listing, and nothing else"


def test_remote_split_equals_local_split(tmp_path: Path) -> None:
    local, url = prepare_local_and_remote(tmp_path)
    split_by_ratios(local, {"a": 1, "b": 1}, by="sample", seed=3, allow_split_changes=True)
    split_by_ratios(url, {"a": 1, "b": 1}, by="sample", seed=3, allow_split_changes=True)

    assert rows(url) == rows(local)


def test_password_of_url_is_neither_shown_nor_stored(tmp_path: Path) -> None:
    url = "memory://ann:secret@store/shards"
    upload_shards(some_shards(tmp_path / "local", 1), url)
    report = prepare(url, request=PrepareRequest(accept_type=True))

    assert report.source == report.dest == "memory://store/shards"
    assert "secret" not in f"{report}{inspect(url)}{validate(url)}{index(url)}{split_by_ratios(url, {'a': 1})}"
    assert "secret" not in locate(url).meta
    ledger = Ledger.open(locate(url).ledger_path)
    ledger.close()
    assert b"secret" not in Path(locate(url).ledger_path).read_bytes()
    assert locate("memory://store/shards").meta == locate(url).meta


def test_file_url_is_local_dataset(tmp_path: Path) -> None:
    local = some_shards(tmp_path / "local", 1)

    assert index(f"file://{local}").catalog == os.path.join(local, ".wdsctl", "catalog.sqlite")


def test_prepare_of_s3_by_two_workers_has_same_rows_as_local(tmp_path: Path, endpoint: str) -> None:
    local = some_shards(tmp_path / "local", 5)
    prepare(local, None, PrepareRequest(accept_type=True, split={"train": 3, "val": 1}))
    url = upload_shards(local, "s3://bucket/five")
    command = [sys.executable, "-m", "wdsctl", "prepare", url, "--split", "3,1", "--yes", "--workers", "2", "--json"]
    command += ["--catalog", str(tmp_path / "catalog")]

    done = children.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dest"] == url
    assert rows(url, str(tmp_path / "catalog")) == rows(local)


def test_s3_object_uploaded_again_with_same_bytes_is_unchanged(tmp_path: Path, endpoint: str) -> None:
    local = some_shards(tmp_path / "local", 2)
    url = upload_shards(local, "s3://bucket/again")
    index(url)
    upload_shards(local, url)
    report = index(url)
    assert (report.unchanged, report.up_to_date) == (2, True)

    rewrite_shard(Path(local, "shard-001.tar"), samples(100, 5))
    upload_shards(local, url)
    assert index(url).changed == 1


class RangeRequestHandler(SimpleHTTPRequestHandler):
    """Python's file server, with support for ranges."""

    def do_GET(self) -> None:
        requested_range, path = self.headers.get("Range"), Path(self.translate_path(self.path))
        if requested_range is None or not path.is_file():
            return super().do_GET()
        first, last = map(int, requested_range.removeprefix("bytes=").split("-"))
        data = path.read_bytes()[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return None

    def log_message(self, *_: object) -> None: ...


class PlainRequestHandler(SimpleHTTPRequestHandler):
    """Python's file server, which sends whole files for ranges."""

    def log_message(self, *_: object) -> None: ...


@contextmanager
def http_server(handler: type[SimpleHTTPRequestHandler], folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_dataset_on_http_server_with_listings_is_indexed(tmp_path: Path) -> None:
    local = some_shards(tmp_path / "local", 2)
    some_shards(tmp_path / "local" / "more", 2, first=5)
    index(local)
    with http_server(RangeRequestHandler, tmp_path) as address:
        url = f"{address}/local"
        index(url)
        found = inspect(url)
        with pytest.raises(InputError, match="no such bucket or folder"):
            index(f"{url}-not")
        found_rows = rows(url)

    assert found_rows == rows(local)
    assert found.first == inspect(local).first


def test_http_server_without_ranges_is_refused_before_catalog_exists(tmp_path: Path) -> None:
    some_shards(tmp_path / "local", 2)
    with http_server(PlainRequestHandler, tmp_path) as address:
        url = f"{address}/local"
        with pytest.raises(StorageDown, match=r"ignores range requests: it sends [\d,]+ bytes instead of 1"):
            prepare(url)
        with pytest.raises(CatalogError, match="the dataset has no catalog") as caught:
            inspect(url)

    assert f"wdsctl prepare {url}`" in caught.value.hint


def test_http_server_that_lost_ranges_is_reported_by_inspect_and_validate(tmp_path: Path) -> None:
    some_shards(tmp_path / "local", 2)
    with http_server(RangeRequestHandler, tmp_path) as address:
        url = f"{address}/local"
        index(url)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(RangeRequestHandler, "do_GET", SimpleHTTPRequestHandler.do_GET)
            report = inspect(url)
            with pytest.raises(StorageDown, match="ignores range requests"):
                validate(url)

    assert [(each.code, each.severity, each.shard) for each in report.stale] == [("WDS408", "error", "shard-000.tar")]
    assert report.first[0].parts[0].preview == "cannot be read"


def test_range_of_large_file_is_refused_before_server_sends_all_of_it(tmp_path: Path) -> None:
    size = 64 << 20
    with open(tmp_path / "a.tar", "wb") as file:
        file.truncate(size)
    with http_server(PlainRequestHandler, tmp_path) as address:
        storage = FsspecStorage(address)
        with pytest.raises(StorageDown, match=r"it sends 67,108,864 bytes instead of 512"):
            storage.read(f"{address}/a.tar", 0, 512)
        counts = storage.take_counts()

    assert counts.bytes == 0


def test_list_shards_raises_if_server_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_retry_pauses(monkeypatch)
    with pytest.raises(StorageError, match="does not respond"):
        list_shards("http://127.0.0.1:1/shards")


def test_missing_bucket_is_reported(endpoint: str) -> None:
    with pytest.raises(InputError, match="no such bucket") as caught:
        index("s3://no-such-bucket/shards")
    assert caught.value.where == "s3://no-such-bucket/shards"


def test_s3_without_credentials_hints_at_aws_profile(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    fsspec.get_filesystem_class("s3").clear_instance_cache()

    with pytest.raises(PermissionDenied, match="no credentials") as caught:
        index("s3://bucket/shards")
    assert "AWS_PROFILE" in caught.value.hint
    fsspec.get_filesystem_class("s3").clear_instance_cache()
