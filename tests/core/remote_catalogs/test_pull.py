"""Readers of a published catalog: what they fetch, what they keep, and what they refuse."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from tests.build import a_shard, samples, some_shards
from tests.machines import Machines, Notes, fetch_catalog, machines_in
from tests.remote import FaultyFileSystem, remove_retry_pauses, upload_shards
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, StorageError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.opened.history import read_log
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.show import list_views
from wdsctl.core.views.views import create_view

URL = "faulty://store/shards"
META = "/store/shards/.wdsctl"
pytestmark = pytest.mark.usefixtures("faulty_store")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return machines_in(tmp_path, monkeypatch)


def publish_dataset(tmp_path: Path, machine: Machines, shards: int = 3) -> str:
    """Prepares a dataset on the machine `writer`, then switches to the machine `reader`."""
    machine("writer")
    upload_shards(some_shards(tmp_path / "local", shards), URL)
    prepare(URL, None, PrepareRequest(accept_type=True, split={"train": 3, "val": 1}))
    machine("reader")
    FaultyFileSystem.reads.clear()
    return URL


def take_fetched_names() -> list[str]:
    """The names of the catalog objects that were read since the last call."""
    names = [path.removeprefix(f"{META}/") for path, _, _ in FaultyFileSystem.reads if path.startswith(META)]
    FaultyFileSystem.reads.clear()
    return [name.removeprefix("files/")[65:] if name.startswith("files/") else name for name in names]


def store() -> fsspec.AbstractFileSystem:
    return fsspec.filesystem("faulty")


def add_shard(number: int) -> None:
    store().pipe_file(f"/store/shards/shard-{number:03d}.tar", a_shard(samples(number * 5, 5)))


def test_reader_with_only_url_gets_whole_catalog(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)

    assert inspect(url).samples == 15
    mirror = fetch_catalog(url).meta
    machine("writer")
    for name in ("catalog.sqlite", "dataset.yaml", "offsets-1.bin", "ledger.sqlite"):
        assert Path(mirror, name).read_bytes() == Path(fetch_catalog(url).meta, name).read_bytes()


def test_unchanged_catalog_needs_only_pointer_request(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    fetch_catalog(url)
    assert sorted(take_fetched_names()) == [
        "catalog.sqlite",
        "current.json",
        "dataset.yaml",
        "ledger.sqlite",
        "offsets-1.bin",
    ]

    fetch_catalog(url)
    assert take_fetched_names() == ["current.json"]


def test_command_asks_store_once_and_writer_once_more_under_lock(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    inspect(url)
    take_fetched_names()
    for requests, command in (
        (1, lambda: inspect(url)),
        (1, lambda: list_views(url)),
        (1, lambda: read_log(url)),
        (2, lambda: index(url)),
        (2, lambda: create_view(url, "half", ViewDefinition(sample="50%"))),
    ):
        command()
        assert take_fetched_names().count("current.json") == requests


def test_open_dataset_keeps_its_catalog_while_newer_one_is_fetched(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    with open_dataset(url) as first:
        assert first.state() == {"generation": 1, "shards": 3, "samples": 15}
        machine("writer")
        add_shard(10)
        index(url)
        machine("reader")
        with open_dataset(url) as second:
            assert second.state() == {"generation": 2, "shards": 4, "samples": 20}
            assert (second.offsets().samples, first.offsets().samples) == (20, 15)
        assert first.catalog.generation == 1
        first.refresh()
        assert first.catalog.generation == 2


def test_only_changed_files_are_fetched(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    fetch_catalog(url)
    machine("writer")
    create_view(url, "half", ViewDefinition(sample="50%"))
    machine("reader")
    take_fetched_names()

    assert [view.name for view in list_views(url).views] == ["half"]
    assert take_fetched_names() == ["current.json", "ledger.sqlite"]


def test_offsets_of_last_three_generations_are_kept(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    location = fetch_catalog(url)
    for number in (10, 11):
        machine("writer")
        add_shard(number)
        index(url)
        machine("reader")
        fetch_catalog(url)

    assert os.path.exists(location.offsets_path(1)), "the last three generations stay"
    assert inspect(url).samples == 25
    machine("writer")
    add_shard(12)
    index(url)
    machine("reader")
    fetch_catalog(url)
    assert not os.path.exists(location.offsets_path(1))


@pytest.mark.parametrize("damage", [lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[:-9], None])
def test_damaged_or_missing_object_is_refused(tmp_path: Path, machine: Machines, damage: object) -> None:
    url = publish_dataset(tmp_path, machine)
    [path] = [name for name in store().find(META) if name.endswith("-catalog.sqlite")]
    data = store().cat_file(path)
    if callable(damage):
        store().pipe_file(path, damage(data))
    else:
        store().rm_file(path)

    with pytest.raises(CatalogError, match=r"catalog\.sqlite (does not match|is missing)") as caught:
        fetch_catalog(url)
    assert caught.value.code == "WDS302"
    assert path in caught.value.where

    store().pipe_file(path, data)
    assert inspect(url).samples == 15


def test_catalog_over_limit_or_free_space_is_not_fetched(
    tmp_path: Path, machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = publish_dataset(tmp_path, machine)
    pointer = json.loads(store().cat_file(f"{META}/current.json"))
    pointer["files"][0]["size"] = 1 << 37
    store().pipe_file(f"{META}/current.json", json.dumps(pointer).encode())
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=1 << 36))
    with pytest.raises(StorageError, match="has 68,719,476,736 left") as caught:
        fetch_catalog(url)
    assert caught.value.code == "WDS401"

    pointer["files"][0]["size"] = 1 << 61
    store().pipe_file(f"{META}/current.json", json.dumps(pointer).encode())
    with pytest.raises(InputError, match="fetches up to 274,877,906,944") as refused:
        fetch_catalog(url)
    assert refused.value.code == "WDS421"
    assert set(take_fetched_names()) == {"current.json"}


def test_object_damaged_in_transfer_is_fetched_again(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    damaged_paths: list[str] = []

    def inject_fault(path: str, start: int, stop: int, data: bytes) -> bytes:
        if path.endswith("offsets-1.bin") and not damaged_paths:
            damaged_paths.append(path)
            return bytes(len(data))
        return data

    FaultyFileSystem.fault.append(inject_fault)
    assert inspect(url).samples == 15
    assert damaged_paths


def test_pointer_of_newer_wdsctl_is_refused_by_readers_and_writers(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    newer = json.loads(store().cat_file(f"{META}/current.json"))
    newer["format"] = 2
    store().pipe_file(f"{META}/current.json", json.dumps(newer).encode())
    before = store().cat_file(f"{META}/current.json")

    for name in ("reader", "writer"):
        machine(name)
        for call in (inspect, index):
            with pytest.raises(CatalogError, match="written by a newer wdsctl") as caught:
                call(url)
            assert caught.value.code == "WDS303"
    assert store().cat_file(f"{META}/current.json") == before


def test_unresponsive_store_raises_instead_of_using_old_catalog(
    tmp_path: Path, machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_retry_pauses(monkeypatch)
    url = publish_dataset(tmp_path, machine)
    fetch_catalog(url)

    def inject_fault(path: str, start: int, stop: int, data: bytes) -> bytes:
        raise ConnectionError("no route")

    FaultyFileSystem.fault.append(inject_fault)
    with pytest.raises(StorageError, match="does not respond"):
        fetch_catalog(url)


def test_forbidden_pointer_counts_as_missing_unless_read_before(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)

    def inject_fault(path: str, start: int, stop: int, data: bytes) -> bytes:
        if path.endswith("current.json"):
            raise PermissionError("Forbidden")
        return data

    FaultyFileSystem.fault.append(inject_fault)
    assert not os.path.exists(fetch_catalog(url).catalog_path), "some stores deny access to what does not exist"
    FaultyFileSystem.fault.clear()
    fetch_catalog(url)
    FaultyFileSystem.fault.append(inject_fault)
    with pytest.raises(PermissionDenied):
        fetch_catalog(url)


def test_unpublished_changes_are_kept_until_other_machine_publishes(
    tmp_path: Path, machine: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    url = publish_dataset(tmp_path, machine)
    settings = Path(fetch_catalog(url).config_path)
    settings.write_text(settings.read_text("utf-8") + "# edited here\n", "utf-8")
    assert "# edited here" in Path(fetch_catalog(url).config_path).read_text("utf-8")

    machine("writer")
    add_shard(10)
    index(url)
    machine("reader")
    assert "# edited here" not in Path(fetch_catalog(url).config_path).read_text("utf-8")
    [backup] = Path(fetch_catalog(url).meta).glob("unpublished-*")
    assert "# edited here" in (backup / "dataset.yaml").read_text("utf-8")
    assert str(backup) in caplog.text
    assert inspect(url).samples == 20


def test_edited_dataset_yaml_is_published_by_next_command(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    settings = Path(fetch_catalog(url).config_path)
    settings.write_text(settings.read_text("utf-8") + "# edited here\n", "utf-8")
    notes = Notes()
    index(url, progress=notes)
    assert any(line.startswith("published the catalog to faulty://store/shards/.wdsctl: ") for line in notes.lines)

    machine("third")
    assert "# edited here" in Path(fetch_catalog(url).config_path).read_text("utf-8")


def test_files_removed_from_mirror_are_fetched_again(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    location = fetch_catalog(url)
    os.remove(location.offsets_path(1))
    settings = Path(location.config_path)
    settings.write_text(settings.read_text("utf-8") + "# edited here\n", "utf-8")
    take_fetched_names()

    fetch_catalog(url)
    assert take_fetched_names() == ["current.json", "offsets-1.bin"]
    assert "# edited here" in settings.read_text("utf-8")
    fetch_catalog(url)
    assert take_fetched_names() == ["current.json"]


def test_damaged_record_file_causes_no_fetch_and_no_backup(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    record = Path(fetch_catalog(url).meta, ".published", "record.json")
    record.write_bytes(b"\0" * 10)
    take_fetched_names()

    assert inspect(url).samples == 15
    assert take_fetched_names() == ["current.json"]
    assert not list(Path(fetch_catalog(url).meta).glob("unpublished-*"))
    assert record.read_bytes() != b"\0" * 10, "the record is written again"


def test_stale_ledger_journal_is_not_applied_to_newer_ledger(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    ledger = fetch_catalog(url).ledger_path
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE run SET command = 'x' || hex(zeroblob(100000))")
        journal = Path(f"{ledger}-journal").read_bytes()
        connection.execute("ROLLBACK")
    Path(f"{ledger}-journal").write_bytes(journal)
    machine("writer")
    create_view(url, "half", ViewDefinition(sample="50%"))
    machine("reader")

    assert [view.name for view in list_views(url).views] == ["half"]
    assert not os.path.exists(f"{ledger}-journal")


def _read_in_child(url: str, results: multiprocessing.Queue[object]) -> None:
    FaultyFileSystem.reads.clear()
    samples = inspect(url).samples
    results.put((samples, take_fetched_names()))


def test_processes_of_one_machine_fetch_files_once(tmp_path: Path, machine: Machines) -> None:
    url = publish_dataset(tmp_path, machine)
    context = multiprocessing.get_context("fork")  # the children share the store of their parent
    results: multiprocessing.Queue[object] = context.Queue()
    children = [context.Process(target=_read_in_child, args=(url, results)) for _ in range(4)]
    for child in children:
        child.start()
    found = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join()

    assert [each[0] for each in found] == [15] * 4  # type: ignore[index]
    names = [name for each in found for name in each[1] if name != "current.json"]  # type: ignore[index]
    assert sorted(names) == ["catalog.sqlite", "dataset.yaml", "ledger.sqlite", "offsets-1.bin"]
