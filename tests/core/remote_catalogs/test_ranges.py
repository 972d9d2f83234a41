"""Partially fetched offsets files: only the chunks in use are fetched, and they equal the published ones."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from pathlib import Path

import fsspec
import numpy as np
import pytest

from tests.build import split_by_ratios
from tests.core.catalog.readers import read_split
from tests.machines import Machines, fetch_catalog, machines_in
from tests.remote import FaultyFileSystem
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.offsets import read
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.remote_catalogs import mirror, ranges
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view

URL = "faulty://store/lines"
FILES, LINES = 8, 6_000
pytestmark = pytest.mark.usefixtures("faulty_store")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(ranges, "MIN_PARTIAL_BYTES", 1 << 20)
    monkeypatch.setattr(ranges, "CHUNK_BYTES", 1 << 14)
    return machines_in(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def indexed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local dataset of eight JSONL files, with an offsets file of 1.6 MB."""
    folder = tmp_path_factory.mktemp("lines")
    for i in range(FILES):
        lines = (json.dumps({"id": i * LINES + n, "text": "x" * (n % 50)}) for n in range(LINES))
        (folder / f"{i}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    index(str(folder))
    return folder


def publish_dataset(indexed_folder: Path, machine: Machines) -> DatasetLocation:
    """Publishes the dataset on the machine `writer`, and returns its location on `reader` before any read."""
    machine("writer")
    for path in indexed_folder.glob("*.jsonl"):
        fsspec.filesystem("faulty").pipe_file(f"/store/lines/{path.name}", path.read_bytes())
    index(URL)
    split_by_ratios(URL, {"train": 7, "val": 1})
    assert os.path.getsize(fetch_catalog(URL).offsets_path(1)) > 1 << 20
    machine("reader")
    FaultyFileSystem.reads.clear()
    return fetch_catalog(URL)


def take_fetched_bytes() -> int:
    found = sum(stop - start for path, start, stop in FaultyFileSystem.reads if path.endswith("-offsets-1.bin"))
    FaultyFileSystem.reads.clear()
    return found


def local_offsets(indexed_folder: Path) -> Offsets:
    return Offsets(str(indexed_folder / ".wdsctl" / "offsets-1.bin"))


def test_partial_suffix_size_is_equal_in_both_modules() -> None:
    assert read.PARTIAL_SUFFIX_BYTES == mirror.PARTIAL_SUFFIX_BYTES == len(b"WDSPART\n") + 32


def test_reading_some_samples_fetches_part_of_offsets_file(indexed_folder: Path, machine: Machines) -> None:
    location = publish_dataset(indexed_folder, machine)
    path = location.offsets_path(1)
    size = os.path.getsize(path)
    assert take_fetched_bytes() == 1 << 14
    assert os.stat(path).st_blocks * 512 < size / 4

    offsets, expected = Offsets(path), local_offsets(indexed_folder)
    assert offsets.is_partial
    rows = range(LINES, LINES + 300)
    assert [offsets.parts(row) for row in rows] == [expected.parts(row) for row in rows]
    assert [offsets.key(row) for row in rows] == [expected.key(row) for row in rows]
    assert take_fetched_bytes() < size / 4
    assert [offsets.key(row) for row in rows] == [expected.key(row) for row in rows]
    assert take_fetched_bytes() == 0

    again = Offsets(path)
    assert again.parts(LINES + 7) == expected.parts(LINES + 7)
    assert take_fetched_bytes() == 0, "what one process has fetched is there for all"


def test_partial_offsets_equal_published_offsets(indexed_folder: Path, machine: Machines) -> None:
    location = publish_dataset(indexed_folder, machine)
    offsets, expected = Offsets(location.offsets_path(1)), local_offsets(indexed_folder)

    assert offsets.shards == expected.shards
    for name in ("shard_row", "key_start", "keys", "part_offset", "part_size"):
        assert np.array_equal(getattr(offsets, name), getattr(expected, name)), name
    offsets.check_all()
    data = Path(location.offsets_path(1)).read_bytes()
    assert data[: -mirror.PARTIAL_SUFFIX_BYTES] == (indexed_folder / ".wdsctl" / "offsets-1.bin").read_bytes()


def test_fetch_groups_prefetches_rows_of_a_split(indexed_folder: Path, machine: Machines) -> None:
    from wdsctl.loader.reading.selection import SampleSelection

    location = publish_dataset(indexed_folder, machine)
    size = os.path.getsize(location.offsets_path(1))
    offsets = Offsets(location.offsets_path(1))
    parts = read_split(location.catalog_path, "val")
    selection = SampleSelection(offsets, parts)
    offsets.fetch_groups(selection.groups(offsets))
    assert 0 < take_fetched_bytes() < size / 2

    rows = selection.rows(np.arange(selection.n))
    offsets.check_rows(rows)
    assert take_fetched_bytes() == 0
    expected = local_offsets(indexed_folder)
    assert [offsets.parts(row) for row in rows.tolist()] == [expected.parts(row) for row in rows.tolist()]


def test_chunk_damaged_in_transfer_is_refused(indexed_folder: Path, machine: Machines) -> None:
    location = publish_dataset(indexed_folder, machine)

    def inject_fault(path: str, start: int, stop: int, data: bytes) -> bytes:
        return bytes(len(data)) if path.endswith("offsets-1.bin") and start else data

    FaultyFileSystem.fault.append(inject_fault)
    with pytest.raises(CatalogError) as caught:
        Offsets(location.offsets_path(1)).key(LINES * 5)
    assert caught.value.code == "WDS302"


@pytest.mark.parametrize("what", ["marks", "facts", "short marks", "sha256"])
def test_damaged_range_records_are_refused(indexed_folder: Path, machine: Machines, what: str) -> None:
    location = publish_dataset(indexed_folder, machine)
    [marks] = [path for path in Path(location.meta, ".published", "ranges").iterdir() if not path.suffix]
    if what == "marks":
        marks.unlink()
    elif what == "short marks":
        marks.write_bytes(b"\1")
    elif what == "facts":
        marks.with_suffix(".json").write_bytes(b"[]")
    else:
        data = Path(location.offsets_path(1)).read_bytes()
        Path(location.offsets_path(1)).write_bytes(data[:-40] + b"WDSPARTY" + data[-32:])
    with pytest.raises(CatalogError) as caught:
        Offsets(location.offsets_path(1))
    assert caught.value.code == "WDS302"


def test_chunk_without_mark_after_kill_is_fetched_again(
    indexed_folder: Path, machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = publish_dataset(indexed_folder, machine)

    class KilledError(BaseException):
        pass

    def raise_killed(handle: int) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", raise_killed)
        with pytest.raises(KilledError):
            Offsets(location.offsets_path(1)).key(LINES * 5)
    take_fetched_bytes()
    assert Offsets(location.offsets_path(1)).key(LINES * 5) == local_offsets(indexed_folder).key(LINES * 5)
    assert take_fetched_bytes() > 0


def test_writer_with_partial_file_publishes_whole_file(indexed_folder: Path, machine: Machines) -> None:
    location = publish_dataset(indexed_folder, machine)
    create_view(URL, "half", ViewDefinition(sample="50%"))
    fsspec.filesystem("faulty").pipe_file("/store/lines/9.jsonl", b'{"id": -1}\n' * 3)
    assert index(URL).samples == FILES * LINES + 3
    machine("third")

    third = fetch_catalog(URL)
    assert Offsets(third.offsets_path(1)).key(7) == local_offsets(indexed_folder).key(7)
    newest = Offsets(third.offsets_path(2))
    newest.check_all()
    assert newest.samples == FILES * LINES + 3
    assert not list(Path(location.meta).glob("unpublished-*"))


def test_partial_file_counts_as_unchanged(indexed_folder: Path, machine: Machines) -> None:
    location = publish_dataset(indexed_folder, machine)
    Offsets(location.offsets_path(1)).key(LINES * 5)
    machine("writer")
    create_view(URL, "half", ViewDefinition(sample="50%"))
    machine("reader")
    take_fetched_bytes()
    fetch_catalog(URL)
    Offsets(location.offsets_path(1)).key(LINES * 5)

    assert take_fetched_bytes() == 0
    assert not list(Path(location.meta).glob("unpublished-*"))


def test_partial_file_without_marks_is_fetched_again(indexed_folder: Path, machine: Machines) -> None:
    location = publish_dataset(indexed_folder, machine)
    os.remove(location.offsets_path(1))
    shutil.rmtree(Path(location.meta, ".published", "ranges"))
    fetch_catalog(URL)

    assert Offsets(location.offsets_path(1)).key(LINES * 5) == local_offsets(indexed_folder).key(LINES * 5)


def _count_reads(path: str, results: multiprocessing.Queue[int]) -> None:
    FaultyFileSystem.reads.clear()
    Offsets(path).check_all()
    results.put(take_fetched_bytes())


def test_processes_of_one_machine_fetch_chunks_once(indexed_folder: Path, machine: Machines) -> None:
    location = publish_dataset(indexed_folder, machine)
    path = location.offsets_path(1)
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[int] = context.Queue()
    children = [context.Process(target=_count_reads, args=(path, results)) for _ in range(3)]
    for child in children:
        child.start()
    total = sum(results.get(timeout=60) for _ in children)
    for child in children:
        child.join()

    # Chunks between two missing ones are read in the same request.
    assert total < 1.5 * os.path.getsize(path)
