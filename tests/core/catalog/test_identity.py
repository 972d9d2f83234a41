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
from tests.core.dumps import catalog_of
from wdsctl.core.catalog.open_catalog import CATALOG_APPLICATION_ID, CATALOG_SCHEMA_VERSION, check_catalog_file
from wdsctl.core.catalog.read import Catalog, read_current_generation
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index


@lru_cache
def a_catalog() -> bytes:
    with tempfile.TemporaryDirectory() as root:
        index(some_shards(Path(root), 2))
        return catalog_of(root).read_bytes()


def test_a_catalog_of_ours_passes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(a_catalog())
    check_catalog_file(str(tmp_path / "a"))

    assert read_current_generation(str(tmp_path / "a")) == 1


@pytest.mark.parametrize("content", [b"", b"x", b"SQLite format 3\0", b"x" * 5000])
def test_what_is_no_database_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)

    with pytest.raises(CatalogError, match="not an SQLite database") as caught:
        check_catalog_file(str(tmp_path / "a"))
    assert caught.value.code == "WDS302"


def test_none_is_missing_and_a_folder_is_damage_that_a_rebuild_sets_aside(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        check_catalog_file(str(tmp_path / "none"))
    assert caught.value.code == "WDS301"
    with pytest.raises(CatalogError, match="it is a folder") as caught:
        check_catalog_file(str(tmp_path))
    assert (caught.value.code, "--rebuild" in caught.value.hint) == ("WDS302", True)


def test_a_database_of_something_else_is_named_so(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a")) as connection:
        connection.execute("CREATE TABLE mine (x)")

    with pytest.raises(CatalogError, match="of another program"):
        check_catalog_file(str(tmp_path / "a"))


def test_a_newer_version_says_how_to_go_on(tmp_path: Path) -> None:
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
def test_a_catalog_cut_anywhere_is_damaged(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    good = a_catalog()
    path = tmp_path_factory.mktemp("cut") / "a"
    path.write_bytes(good[: cut % len(good)])

    with pytest.raises(CatalogError) as caught:
        check_catalog_file(str(path))
    assert caught.value.code == "WDS302"


@given(bit=st.integers(0, 1 << 30))
@settings(max_examples=150, deadline=None)
def test_a_flipped_bit_never_gives_an_error_of_sqlite(tmp_path_factory: pytest.TempPathFactory, bit: int) -> None:
    flipped = bytearray(a_catalog())
    bit %= 8 * len(flipped)
    flipped[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("flip") / "a"
    path.write_bytes(flipped)

    with suppress(CatalogError):
        assert read_current_generation(str(path)) >= 0
    with suppress(CatalogError), Catalog(str(path)) as catalog:
        catalog.shards()
        catalog.facts()
