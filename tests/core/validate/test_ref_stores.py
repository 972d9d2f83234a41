from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.build import a_dataset, a_folder
from wdsctl.core.errors import SampleFailed, WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.validate.ref_stores import (
    EntryIds,
    RefStore,
    clear_store_cache,
    is_outside_name,
    open_ref_store,
)
from wdsctl.loader.stores.open import open_store

FILES = {"a/1.jpg": b"1", "a/1.txt": b"t", "a/2.seg.png": b"2", "b.jpg": b"3", "c:30.jpg": b"4"}
NAMES = [
    "a/1.jpg",
    "a/1.txt",
    "a/2.seg.png",
    "b.jpg",
    "a/3.jpg",
    "a/1.JPG",
    "A/1.jpg",
    "../x.jpg",
    "/etc/passwd",
    "b",
    "",
    "a",
    "a/",
    "b.jpg/",
    "./b.jpg",
    "a//1.jpg",
    "a/./1.jpg",
    "b.jpg/.",
    ".",
    "a/1.jpg ",
    "a\\1.jpg",
    "c:30.jpg",
]


@pytest.fixture(autouse=True)
def _no_stores_of_other_tests() -> None:
    clear_store_cache()


def a_prepared(root: Path) -> str:
    path = a_dataset(root, {"s.tar": FILES, "t.tar": {"c/twice.jpg": b"1"}, "u.tar": {"c/twice.jpg": b"1"}})
    index(path)
    return path


def entry_ids(store: RefStore, *names: str) -> EntryIds:
    return np.array([store.lookup(name).entry_id for name in names], np.uint64)


@pytest.mark.parametrize("kind", ["prepared", "folder"])
def test_lookup_finds_same_names_as_loader(tmp_path: Path, kind: str) -> None:
    reference = a_prepared(tmp_path) if kind == "prepared" else f"filesystem://{a_folder(tmp_path, FILES)}"
    store, loader_store = open_ref_store(reference), open_store(reference)
    for name in NAMES:
        try:
            loader_store.find(name)
            is_found = True
        except SampleFailed:
            is_found = False
        assert (store.lookup(name).status == "found") is is_found, name


@pytest.mark.parametrize("kind", ["prepared", "folder"])
def test_lookup_returns_reason_for_missing_name(tmp_path: Path, kind: str) -> None:
    store = open_ref_store(a_prepared(tmp_path) if kind == "prepared" else a_folder(tmp_path, FILES))
    assert store.lookup("a/9.jpg").status == "missing"
    assert store.lookup("A/1.JPG")[::2] == ("other case", "a/1.jpg")
    for name in ("../a/1.jpg", "a/../../x", "/a/1.jpg", "C:\\x.jpg", "a\0b.jpg", "\\\\host\\x"):
        assert store.lookup(name).status == "outside", name


def test_folder_is_not_an_entry_in_any_case(tmp_path: Path) -> None:
    store = open_ref_store(a_folder(tmp_path, FILES | {"Pair/x.jpg": b"1", "pair/y.jpg": b"2"}))
    assert [store.lookup(name).status for name in ("a", "A", "a/", ".")] == ["missing"] * 4
    assert store.lookup("Pair/X.jpg")[::2] == ("other case", "Pair/x.jpg")


def test_name_of_several_samples_is_ambiguous(tmp_path: Path) -> None:
    assert open_ref_store(a_prepared(tmp_path)).lookup("c/twice.jpg").status == "ambiguous"


def test_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "in", FILES)
    a_folder(tmp_path, {"secret.jpg": b"s"})
    os.symlink(tmp_path / "secret.jpg", tmp_path / "in" / "link.jpg")
    assert open_ref_store(root).lookup("link.jpg").status == "outside"


@pytest.mark.parametrize(("kind", "unused", "first"), [("prepared", 5, "a/2"), ("folder", 3, "a/2.seg.png")])
def test_find_unused_counts_samples_or_files(tmp_path: Path, kind: str, unused: int, first: str) -> None:
    store = open_ref_store(a_prepared(tmp_path) if kind == "prepared" else a_folder(tmp_path, FILES))
    assert store.find_unused(entry_ids(store, "a/1.jpg", "a/1.txt")) == (unused, first)


def test_unopenable_store_is_refused(tmp_path: Path) -> None:
    for reference in (str(tmp_path / "none"), f"filesystem://{tmp_path}/none", "x.yaml", "filesystem+s3://b/x"):
        with pytest.raises(WdsctlError):
            open_ref_store(reference)
    open_ref_store(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "expected"), [("a/b.jpg", False), ("a..b/c.jpg", False), ("a/../b", True), ("..", True)]
)
def test_is_outside_name_detects_parent_steps(name: str, expected: bool) -> None:
    assert is_outside_name(name) is expected
