"""Hostile catalogs and ledgers soon end in an error with a code, and none of their content is copied."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.build import some_shards, split_by_ratios
from tests.core.catalog.drafts import open_draft
from tests.core.catalog.readers import read_current_generation, read_shards, read_split, read_views
from tests.core.dumps import catalog_of, query
from tests.security.hostile import ATTACKS, journal_naming, make_tree_cyclic, schema_of, statements
from wdsctl.core.catalog.consistency import find_repeated_keys
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.errors import CatalogError, InputError, WdsctlError
from wdsctl.core.index.index import has_quarantine, index
from wdsctl.core.index.vacuum import catalog_vacuum
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.views.sql import sql

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = some_shards(tmp_path_factory.mktemp("intact") / "data", 2)
    index(root)
    split_by_ratios(root, {"train": 1, "val": 1})
    return root


@pytest.fixture
def root(intact: str, tmp_path: Path) -> str:
    return shutil.copytree(intact, str(tmp_path / "data"))


def ledger_of(root: str) -> Path:
    return catalog_of(root).with_name("ledger.sqlite")


@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_catalog_is_refused_by_every_reader(root: str, name: str) -> None:
    path = catalog_of(root)
    ATTACKS[name](path)

    reads: dict[str, Callable[[], object]] = {
        "split": lambda: read_split(str(path), "train"),
        "shards": lambda: read_shards(str(path)),
        "sql": lambda: _run_sql(root),
        "catalog": lambda: _read(str(path)),
    }
    refused = {}
    for reader, read in reads.items():
        with suppress(WdsctlError):
            read()
            continue
        refused[reader] = True
    assert refused, "nobody noticed"
    if "tree" not in name and "value" not in name:  # readers that never use the table may succeed
        assert set(refused) == set(reads)


def _run_sql(root: str) -> None:
    with sql(root, "SELECT max(size) FROM v_sample", timeout_seconds=30) as answer:
        list(answer.rows)


def _read(path: str) -> None:
    with Catalog.open(path) as catalog:
        catalog.facts()
        catalog.shards()
        find_repeated_keys(catalog)


@pytest.mark.parametrize("name", ATTACKS)
def test_foreign_schema_is_not_copied_into_next_catalog(root: str, name: str) -> None:
    path = catalog_of(root)
    clean = query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2")
    ATTACKS[name](path)
    before = path.read_bytes()

    with suppress(WdsctlError):
        split_by_ratios(root, {"train": 2, "val": 1})
    with suppress(WdsctlError):
        some_shards(Path(root), 1, first=2)
        index(root)
    with suppress(WdsctlError):
        catalog_vacuum(root)
    if path.read_bytes() != before:
        assert query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2") == clean
    index(root, rebuild=True)
    assert query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2") == clean


def test_open_draft_refuses_catalog_with_foreign_trigger(root: str) -> None:
    ATTACKS["a trigger"](catalog_of(root))
    with (
        pytest.raises(CatalogError, match="the trigger 't', which wdsctl did not create") as caught,
        open_draft(str(catalog_of(root))),
    ):
        pass
    assert caught.value.code == "WDS302"
    assert not list(catalog_of(root).parent.glob(".catalog*"))


def test_catalog_vacuum_refuses_pages_used_twice(root: str) -> None:
    make_tree_cyclic("former_split")(catalog_of(root))
    with pytest.raises(CatalogError) as caught:
        catalog_vacuum(root)
    assert caught.value.code == "WDS302"


@pytest.mark.parametrize("name", ["ledger.sqlite", "catalog.sqlite"])
def test_hostile_journal_deletes_no_other_file(root: str, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    path = catalog_of(root).with_name(name)
    readers: dict[str, tuple[Callable[[str], object], ...]] = {
        "ledger.sqlite": (read_views, read_has_quarantine, _open_ledger),
        "catalog.sqlite": (read_shards, _read, _open_draft),
    }
    for read in readers[name]:
        journal_naming(victim)(path)
        with suppress(CatalogError):
            read(str(path))
        assert victim.read_text() == "precious"

    journal_naming(victim)(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master")
    assert not victim.exists(), "SQLite itself would delete it"


def test_journal_that_links_elsewhere_is_refused(root: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    path = ledger_of(root)
    path.with_name("ledger.sqlite-journal").symlink_to(victim)
    with pytest.raises(InputError, match="the output folder contains a link"):
        _open_ledger(str(path))
    with pytest.raises(InputError, match="the output folder contains a link"):
        read_views(str(path))
    assert not victim.exists()


def read_has_quarantine(ledger: str) -> bool:
    with open_dataset(os.path.dirname(os.path.dirname(ledger))) as dataset:
        return has_quarantine(dataset)


def _open_draft(path: str) -> None:
    with open_draft(path):
        pass


def _open_ledger(path: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.finish_run(ledger.begin_run("index", [], version="0"), "ok")


LEDGERS = {
    "a trigger": statements("CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM quarantine; END"),
    "a view in the place of a table": statements(
        "DROP TABLE quarantine",
        "CREATE VIEW quarantine AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n WHERE 0",
    ),
    "a check": schema_of("run", "details TEXT", "details TEXT CHECK (load_extension('x') IS NULL)"),
    "a table more": statements("CREATE TABLE more (a)"),
    "a text in the place of a number": statements(
        "INSERT INTO view VALUES ('v', '', '2026-01-01', 1, 'many', '')",  # its affinity keeps it as text
    ),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_hostile_ledger_is_refused_and_set_aside(root: str, name: str) -> None:
    path = ledger_of(root)
    LEDGERS[name](path)
    with pytest.raises(CatalogError) as caught:
        read_views(str(path))
    assert caught.value.code == "WDS302"
    assert read_has_quarantine(str(path))  # reading it then reports the reason
    with Ledger.open(str(path)) as ledger:
        assert ledger.notes
        assert ledger.runs() == []
    assert path.with_name("ledger.sqlite.damaged-1").exists()


@pytest.mark.parametrize("value", ["-1", "9223372036854775808", "1" * 5000, "x", "²", "1.5"])
def test_invalid_generation_is_reported_as_damage(root: str, value: str) -> None:
    statements(f"UPDATE meta SET value = '{value}' WHERE key = 'generation'")(catalog_of(root))
    with pytest.raises(CatalogError, match="generation") as caught:
        read_current_generation(str(catalog_of(root)))
    assert caught.value.code == "WDS302"


def test_ctrl_c_interrupts_sqlite_statement(root: str) -> None:
    path = str(catalog_of(root))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = ((i << 10, f"{i:09d}", 0, 0, json.dumps([])) for i in range(300_000))
        connection.execute("BEGIN")
        connection.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
    with Catalog.open(path) as catalog, _interrupt_soon(), pytest.raises(KeyboardInterrupt):
        _query_forever(catalog)


def _query_forever(catalog: Catalog) -> None:
    while True:
        find_repeated_keys(catalog)


@contextmanager
def _interrupt_soon() -> Iterator[None]:
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
