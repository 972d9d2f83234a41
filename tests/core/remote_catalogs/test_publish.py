"""Publishing catalogs: what is published, which of several publishers wins, and what the others keep."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests import children
from tests.build import a_shard, samples, some_shards, split_by_ratios
from tests.core.dumps import query
from tests.core.index.test_remote import RangeRequestHandler
from tests.machines import Machines, Notes, fetch_catalog, machines_in, run_until_killed
from tests.remote import FaultyFileSystem, s3_server, upload_shards
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import lock_dataset, publish_changes
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.opened.history import read_log
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.remote_catalogs.publish import GRACE_SECONDS
from wdsctl.core.validate.validate import validate
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.show import list_views
from wdsctl.core.views.views import create_view, delete_view

URL = "faulty://store/shards"
META = "/store/shards/.wdsctl"
TABLES = ("shard", "ext", "sample", "shard_part", "split", "split_shard")
pytestmark = pytest.mark.usefixtures("faulty_store")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return machines_in(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


def publish_dataset(tmp_path: Path, machine: Machines) -> str:
    machine("one")
    upload_shards(some_shards(tmp_path / "local", 3), URL)
    prepare(URL, None, PrepareRequest(accept_type=True, split={"train": 3, "val": 1}))
    return URL


def pointer() -> dict[str, object]:
    return json.loads(store().cat_file(f"{META}/current.json"))  # type: ignore[no-any-return]


def store() -> fsspec.AbstractFileSystem:
    return fsspec.filesystem("faulty")


def add_shard(number: int) -> None:
    store().pipe_file(f"/store/shards/shard-{number:03d}.tar", a_shard(samples(number * 5, 5)))


def dump(url: str) -> dict[str, list[object]]:
    path = fetch_catalog(url).catalog_path
    columns = {"shard": "id, path, size, samples, parts, status, code, layout_hash, added, removed"}
    return {table: query(path, f"SELECT {columns.get(table, '*')} FROM {table} ORDER BY 1, 2") for table in TABLES}


def test_every_writing_command_publishes_to_all_machines(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    machine("two")
    split_by_ratios(url, {"a": 1, "b": 1}, by="sample", seed=3, allow_split_changes=True)
    create_view(url, "half", ViewDefinition(sample="50%"))
    create_view(url, "tenth", ViewDefinition(sample="10%"))
    validate(url)
    add_shard(10)
    index(url)
    delete_view(url, "tenth")
    rows = dump(url)

    machine("three")
    assert dump(url) == rows
    assert inspect(url).samples == 20
    assert [view.name for view in list_views(url).views] == ["half"]
    commands = [run.command for run in read_log(url).runs]
    assert commands == ["view delete", "index", "validate", "view create", "view create", "split", "prepare"]
    assert pointer()["revision"] == 7
    assert pointer()["generation"] == 2


def test_published_rows_equal_local_rows(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    local = str(tmp_path / "local")
    prepare(local, None, PrepareRequest(accept_type=True, split={"train": 3, "val": 1}))
    machine("two")

    assert dump(url) == dump(local)
    assert Path(fetch_catalog(url).offsets_path(1)).read_bytes() == Path(locate(local).offsets_path(1)).read_bytes()


def test_local_dataset_and_custom_catalog_publish_nothing(tmp_path: Path, machine: Machines) -> None:
    machine("one")
    local = some_shards(tmp_path / "local", 1)
    upload_shards(local, URL)
    index(local)
    index(URL, catalog=str(tmp_path / "mine"))

    assert not (tmp_path / "local" / ".wdsctl" / ".published").exists()
    assert not store().exists(META)
    assert not (tmp_path / "mine" / ".published").exists()


def test_failed_command_publishes_nothing_until_next_command(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    revision = pointer()["revision"]
    location = fetch_catalog(url)
    with pytest.raises(RuntimeError), lock_dataset(location):  # noqa: PT012 - the block is what fails
        Path(location.meta, "added.yaml").write_text("x", "utf-8")
        raise RuntimeError
    assert pointer()["revision"] == revision

    index(url)
    machine("two")
    assert Path(fetch_catalog(url).meta, "added.yaml").read_text("utf-8") == "x"


def test_second_publisher_gets_conflict_error_and_keeps_its_changes(
    tmp_path: Path, machine: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    url = publish_dataset(tmp_path, machine)
    two = machine("two")
    add_shard(10)
    location = fetch_catalog(url)
    first = pytest.raises(CatalogError, match="published a catalog of this dataset first: process")
    with first as caught, lock_dataset(location):
        machine("one")
        split_by_ratios(url, {"a": 1, "b": 1}, allow_split_changes=True)
        machine("two")
        Path(location.meta, "added.yaml").write_text("x", "utf-8")
    assert (caught.value.code, caught.value.exit_code) == ("WDS308", 6)
    assert os.uname().nodename in caught.value.message

    machine("two")
    report = index(url)
    assert (report.added, report.samples) == (1, 20)
    assert query(location.catalog_path, "SELECT name FROM split ORDER BY 1") == [("a",), ("b",)]
    assert "moved the unpublished changes of this machine to" in caplog.text
    [backup] = two.glob("wdsctl/*/unpublished-*")
    assert (backup / "added.yaml").read_text("utf-8") == "x"


def test_finished_units_are_kept_until_publication(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    machine("two")
    add_shard(10)
    location = fetch_catalog(url)
    with pytest.raises(CatalogError, match="first"), publish_changes(location):  # noqa: PT012 - two machines
        index(url)
        machine("one")
        create_view(url, "half", ViewDefinition(sample="50%"))
        machine("two")
    assert os.listdir(location.work_folder)

    FaultyFileSystem.reads.clear()
    assert index(url).added == 1
    assert not [path for path, _, _ in FaultyFileSystem.reads if path.endswith("shard-010.tar")], "scanned once"
    assert not os.path.exists(location.work_folder)


def test_record_only_run_tolerates_publication_conflict(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    location = fetch_catalog(url)
    notes: list[str] = []
    with publish_changes(location, notes.append, is_record=True):
        Path(location.meta, "added.yaml").write_text("x", "utf-8")
        machine("two")
        create_view(url, "half", ViewDefinition(sample="50%"))
        machine("one")

    [note] = notes
    assert "its changes are only on this machine" in note


def test_lost_response_for_pointer_is_not_a_conflict(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    write = MemoryFileSystem.pipe_file
    failed_paths: list[str] = []

    def lose_answer(self: MemoryFileSystem, path: str, value: bytes, **named: object) -> object:
        result = write(self, path, value, **named)
        if path.endswith("current.json") and not failed_paths:
            failed_paths.append(path)
            raise ConnectionError("the answer was lost")
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFileSystem, "pipe_file", lose_answer)
        create_view(url, "half", ViewDefinition(sample="50%"))
    assert failed_paths
    machine("two")
    assert [view.name for view in list_views(url).views] == ["half"]


@pytest.mark.parametrize("has_catalog", [False, True])
def test_read_only_store_keeps_catalog_local_with_one_note(
    tmp_path: Path,
    machine: Machines,
    monkeypatch: pytest.MonkeyPatch,
    has_catalog: bool,
) -> None:
    if has_catalog:
        publish_dataset(tmp_path, machine)
    else:
        upload_shards(some_shards(tmp_path / "local", 3), URL)
    machine("two")
    add_shard(10)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Forbidden")

    monkeypatch.setattr(FaultyFileSystem, "pipe_file", refuse)
    notes = Notes()
    assert index(URL, progress=notes).samples == 20
    assert len([line for line in notes.lines if "its changes are only on this machine" in line]) == 1
    assert inspect(URL).samples == 20
    assert store().exists(f"{META}/current.json") == has_catalog


def test_web_server_serves_published_catalog_read_only(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    for path in store().find("/store/shards"):
        copy = tmp_path / "web" / path.removeprefix("/store/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(store().cat_file(path))
    machine("two")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(RangeRequestHandler, directory=str(tmp_path / "web"))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        web = f"http://127.0.0.1:{server.server_port}/shards"
        notes = Notes()
        assert inspect(web).samples == 15
        assert len(dump(web)["shard"]) == 3
        index(web, progress=notes)
        server.shutdown()

    assert [line for line in notes.lines if "its changes are only on this machine" in line]
    machine("one")
    assert dump(url)["shard"]


def test_unreferenced_objects_are_removed_after_grace_period(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    first = {name for name in store().find(META) if "/files/" in name}
    create_view(url, "half", ViewDefinition(sample="50%"))
    assert first < set(store().find(META)), "the ledger of the first revision may still be fetched"

    for name in first:
        MemoryFileSystem.store[name].modified -= timedelta(seconds=GRACE_SECONDS + 60)
    create_view(url, "tenth", ViewDefinition(sample="10%"))
    remaining = {name for name in store().find(META) if "/files/" in name}
    named = {f"{META}/{file['object']}" for file in pointer()["files"]}  # type: ignore[attr-defined]
    assert named <= remaining
    assert [name for name in first - remaining if not name.endswith("ledger.sqlite")] == []
    assert len([name for name in first - remaining if name.endswith("ledger.sqlite")]) == 1
    machine("two")
    assert inspect(url).samples == 15


def test_objects_of_pointer_before_are_kept_whatever_their_age(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    first = {name for name in store().find(META) if "/files/" in name}
    for name in first:
        MemoryFileSystem.store[name].modified -= timedelta(seconds=GRACE_SECONDS + 60)
    create_view(url, "half", ViewDefinition(sample="50%"))
    assert first < set(store().find(META)), "a reader of the pointer before may be fetching them"


def test_missing_object_is_uploaded_by_next_publication(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    [path] = [name for name in store().find(META) if name.endswith("offsets-1.bin")]
    store().rm_file(path)
    create_view(url, "half", ViewDefinition(sample="50%"))

    machine("two")
    assert inspect(url).samples == 15


def test_publish_excludes_unfinished_ledger_transaction(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    location = fetch_catalog(url)
    with closing(sqlite3.connect(location.ledger_path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE run SET command = 'unfinished'")
        with publish_changes(location):
            Path(location.meta, "added.yaml").write_text("x", "utf-8")
        writer.execute("ROLLBACK")

    machine("two")
    assert [run.command for run in read_log(url).runs] == ["prepare"]


def test_password_in_url_is_neither_published_nor_stored(tmp_path: Path, machine: Machines) -> None:
    machine("one")
    url = "faulty://ann:secret@store/shards"
    upload_shards(some_shards(tmp_path / "local", 1), url)
    index(url)

    assert not [name for name in store().find("/") if b"secret" in store().cat_file(name)]
    assert not [
        path for path in Path(fetch_catalog(url).meta).rglob("*") if path.is_file() and b"secret" in path.read_bytes()
    ]


_STORE = "wdsctl.core.remote_catalogs.store:CatalogStore"
_PUBLISH_MOMENTS = [
    f"{_STORE} put_file 1 before",
    f"{_STORE} put_file 1 after",
    f"{_STORE} put_file 3 before",
    f"{_STORE} put_pointer 1 before",
    f"{_STORE} put_pointer 1 after",
    "wdsctl.core.remote_catalogs.mirror:Mirror write_record 1 before",
]
_FETCH_MOMENTS = [
    f"{_STORE} fetch 1 before",
    f"{_STORE} fetch 2 after",
    "wdsctl.core.remote_catalogs.mirror:Mirror write_applying 1 before",
    "wdsctl.core.remote_catalogs.mirror:Mirror write_applying 1 after",
    "wdsctl.core.remote_catalogs.pull _move_into_place 1 after",
    "os replace 8 before",
    "wdsctl.core.remote_catalogs.mirror:Mirror write_record 1 after",
]


@pytest.mark.parametrize("moment", _PUBLISH_MOMENTS)
def test_killed_publisher_leaves_consistent_catalog_and_continues(
    tmp_path: Path, machine: Machines, endpoint: str, moment: str
) -> None:
    name = f"killed-{abs(hash(moment))}"
    url = upload_shards(some_shards(tmp_path / "local", 2), f"s3://bucket/{name}")
    assert run_until_killed(tmp_path / "one", moment, "index", url)
    objects = fsspec.filesystem("s3").find(f"bucket/{name}/.wdsctl")
    is_published = f"bucket/{name}/.wdsctl/current.json" in objects
    assert is_published == (moment.startswith((f"{_STORE} put_pointer 1 after", "wdsctl.core.remote_catalogs.mirror")))
    if is_published:
        machine("two")
        assert inspect(url).samples == 10

    machine("one")
    index(url)
    machine("three")
    assert inspect(url).samples == 10


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> str:
    """The URL of a dataset in S3 with a published catalog, which tests only read."""
    folder = tmp_path_factory.mktemp("published")
    url = upload_shards(some_shards(folder / "local", 2), "s3://bucket/fetched")
    with pytest.MonkeyPatch.context() as patched:
        machines_in(folder, patched)("one")
        index(url)
    return url


@pytest.mark.parametrize("moment", _FETCH_MOMENTS)
def test_killed_reader_continues_its_fetch(
    tmp_path: Path, machine: Machines, published: str, moment: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_until_killed(tmp_path / "two", moment, "inspect", published)

    machine("two")
    assert inspect(published).samples == 10
    assert "unpublished" not in caplog.text
    assert not list((tmp_path / "two").glob("wdsctl/*/unpublished-*"))
    assert not list((tmp_path / "two").glob("wdsctl/*/.published/incoming/*"))


def test_concurrent_publishers_are_serialized(tmp_path: Path, machine: Machines, endpoint: str) -> None:
    url = upload_shards(some_shards(tmp_path / "local", 2), "s3://bucket/racing")
    machine("seed")
    index(url)
    writers = [
        children.Popen(
            [sys.executable, "-m", "wdsctl", "view", "create", url, f"view{i}", "--sample", "50%"],
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path / f"home{i}")},
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(3)
    ]
    ends = [(child.communicate()[1], child.returncode) for child in writers]
    for i, (error, code) in enumerate(ends):
        assert code in (0, 6), error
        if code:
            assert "WDS308" in error
            assert "wdsctl view create" in error or "__main__.py view create" in error
            machine(f"home{i}")
            create_view(url, f"view{i}", ViewDefinition(sample="50%"))
    assert 0 in [code for _, code in ends]
    machine("last")
    assert {view.name for view in list_views(url).views} == {"view0", "view1", "view2"}
