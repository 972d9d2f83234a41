"""Fetched catalogs have bounded disk space: the least recently used ones are evicted, but none that is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from tests import children
from tests.build import a_shard, samples
from tests.machines import Machines, fetch_catalog, machines_in
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.remote_catalogs import mirror

pytestmark = pytest.mark.usefixtures("faulty_store")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    return machines_in(tmp_path, monkeypatch)


def url(number: int) -> str:
    return f"faulty://store/set{number}"


def publish_datasets(machine: Machines, count: int) -> None:
    """Indexes `count` datasets on the machine `writer`, then switches to the machine `reader`."""
    machine("writer")
    for i in range(count):
        fsspec.filesystem("faulty").pipe_file(f"/store/set{i}/0.tar", a_shard(samples(0, 5)))
        index(url(i))
    machine("reader")


def release_mirrors() -> None:
    """Releases the mirrors, as the end of a process does."""
    for handle in mirror._USED.values():
        os.close(handle)
    mirror._USED.clear()


def cached_catalogs(count: int) -> list[bool]:
    """Tells which mirrors have a catalog, without a request to the store."""
    home = Path(os.environ["XDG_DATA_HOME"], "wdsctl")
    return [any(home.glob(f"set{i}-*/catalog.sqlite")) for i in range(count)]


def test_least_recently_used_catalogs_are_evicted(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_datasets(machine, 4)
    fetch_catalog(url(0))
    size = sum(path.stat().st_blocks * 512 for path in Path(fetch_catalog(url(0)).meta).rglob("*"))
    for i in (1, 2):
        fetch_catalog(url(i))
    release_mirrors()
    for i, when in ((0, 300), (1, 100), (2, 200)):
        [users] = Path(os.environ["XDG_DATA_HOME"]).glob(f"wdsctl/set{i}-*/.published/users")
        os.utime(users, (when, when))
    monkeypatch.setenv("WDSCTL_CATALOG_CACHE", str(int(size * 2.5)))
    fetch_catalog(url(3))

    assert cached_catalogs(4) == [True, False, False, True]
    assert inspect(url(1)).samples == 5, "it is fetched again"


def test_catalog_in_use_or_with_unpublished_changes_is_not_evicted(
    machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_datasets(machine, 4)
    for i in range(3):
        fetch_catalog(url(i))
    Path(fetch_catalog(url(1)).meta, "mine.yaml").write_text("x", "utf-8")
    release_mirrors()
    # Use a separate process, because its lock ends with it.
    code = (
        "import sys; from wdsctl.core.remote_catalogs.mirror import Mirror; Mirror(sys.argv[1], '').hold_for_use(); "
        "print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, fetch_catalog(url(2)).meta]
    with children.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        user.stdout.readline()
        release_mirrors()
        monkeypatch.setenv("WDSCTL_CATALOG_CACHE", "1")
        fetch_catalog(url(3))
        assert cached_catalogs(4) == [False, True, True, True]
        user.communicate("")

    release_mirrors()
    fetch_catalog(url(0))
    assert cached_catalogs(4) == [True, True, False, False]


def test_current_catalog_larger_than_limit_is_not_evicted(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_datasets(machine, 1)
    monkeypatch.setenv("WDSCTL_CATALOG_CACHE", "1")

    assert inspect(url(0)).samples == 5


def test_cache_limit_that_is_no_size_is_refused(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_datasets(machine, 1)
    monkeypatch.setenv("WDSCTL_CATALOG_CACHE", "much")

    with pytest.raises(UsageError, match="WDSCTL_CATALOG_CACHE: 'much' is not a size"):
        fetch_catalog(url(0))


def test_eviction_ignores_folders_that_are_no_mirrors(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_datasets(machine, 2)
    home = Path(os.environ["XDG_DATA_HOME"], "wdsctl", "local-0123456789abcdef")
    home.mkdir(parents=True)
    (home / "catalog.sqlite").write_bytes(b"x" * 1000)
    monkeypatch.setenv("WDSCTL_CATALOG_CACHE", "1")
    fetch_catalog(url(0))
    release_mirrors()
    fetch_catalog(url(1))

    assert cached_catalogs(2) == [False, True]
    assert (home / "catalog.sqlite").exists()
