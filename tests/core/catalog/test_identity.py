from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import some_shards
from tests.core.catalog.readers import read_current_generation
from tests.core.dumps import catalog_of
from wdsctl.core.catalog.open_catalog import CATALOG_APPLICATION_ID, CATALOG_SCHEMA_VERSION, check_catalog_file
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index


@lru_cache
def a_catalog() -> bytes:
    with tempfile.TemporaryDirectory() as root:
        index(some_shards(Path(root), 2))
        return catalog_of(root).read_bytes()


def test_check_catalog_file_accepts_valid_catalog(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(a_catalog())
    check_catalog_file(str(tmp_path / "a"))

    assert read_current_generation(str(tmp_path / "a")) == 1


@pytest.mark.parametrize("content", [b"", b"x", b"SQLite format 3\0", b"x" * 5000])
def test_check_catalog_file_reports_non_database_as_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)

    with pytest.raises(CatalogError, match="not an SQLite database") as caught:
        check_catalog_file(str(tmp_path / "a"))
    assert caught.value.code == "WDS302"


def test_check_catalog_file_distinguishes_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        check_catalog_file(str(tmp_path / "none"))
    assert caught.value.code == "WDS301"
    with pytest.raises(CatalogError, match="it is a folder") as caught:
        check_catalog_file(str(tmp_path))
    assert (caught.value.code, "--rebuild" in caught.value.hint) == ("WDS302", True)


def test_check_catalog_file_reports_database_of_other_program(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a")) as connection:
        connection.execute("CREATE TABLE mine (x)")

    with pytest.raises(CatalogError, match="of another program"):
        check_catalog_file(str(tmp_path / "a"))


def test_check_catalog_file_reports_newer_version_with_hint(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a")) as connection:
        connection.execute(f"PRAGMA application_id = {CATALOG_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {CATALOG_SCHEMA_VERSION + 1}")

    with pytest.raises(
        CatalogError,
        match=f"version {CATALOG_SCHEMA_VERSION + 1}, this wdsctl knows versions up to {CATALOG_SCHEMA_VERSION}",
    ) as caught:
        check_catalog_file(str(tmp_path / "a"))
    assert caught.value.code == "WDS303"
    assert "pip install -U" in caught.value.hint


@given(cut=st.integers(0, 1 << 30))
@settings(max_examples=50, deadline=None)
def test_truncated_catalog_is_reported_as_damaged(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    intact = a_catalog()
    path = tmp_path_factory.mktemp("cut") / "a"
    path.write_bytes(intact[: cut % len(intact)])

    with pytest.raises(CatalogError) as caught:
        check_catalog_file(str(path))
    assert caught.value.code == "WDS302"


@given(bit=st.integers(0, 1 << 30))
@settings(max_examples=150, deadline=None)
def test_flipped_bit_raises_no_sqlite_error(tmp_path_factory: pytest.TempPathFactory, bit: int) -> None:
    corrupt = bytearray(a_catalog())
    bit %= 8 * len(corrupt)
    corrupt[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("flip") / "a"
    path.write_bytes(corrupt)

    with suppress(CatalogError):
        assert read_current_generation(str(path)) >= 0
    with suppress(CatalogError), Catalog.open(str(path)) as catalog:
        catalog.shards()
        catalog.facts()
