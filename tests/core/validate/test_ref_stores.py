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

FILES = {"a/1.jpg": b"1", "a/1.txt": b"t", "a/2.seg.png": b"2", "b.jpg": b"3"}
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
]


@pytest.fixture(autouse=True)
def _no_stores_of_other_tests() -> None:
    clear_store_cache()


def a_prepared(root: Path) -> str:
    made = a_dataset(root, {"s.tar": FILES, "t.tar": {"c/twice.jpg": b"1"}, "u.tar": {"c/twice.jpg": b"1"}})
    index(made)
    return made


def marks(store: RefStore, *names: str) -> EntryIds:
    return np.array([store.lookup(name).entry_id for name in names], np.uint64)


@pytest.mark.parametrize("kind", ["prepared", "folder"])
def test_a_name_is_there_where_the_loader_finds_it(tmp_path: Path, kind: str) -> None:
    reference = a_prepared(tmp_path) if kind == "prepared" else f"filesystem://{a_folder(tmp_path, FILES)}"
    store, loaders = open_ref_store(reference), open_store(reference)
    for name in NAMES:
        try:
            loaders.find(name)
            is_found = True
        except SampleFailed:
            is_found = False
        assert (store.lookup(name).status == "found") is is_found, name


@pytest.mark.parametrize("kind", ["prepared", "folder"])
def test_why_a_name_is_not_there_is_told(tmp_path: Path, kind: str) -> None:
    store = open_ref_store(a_prepared(tmp_path) if kind == "prepared" else a_folder(tmp_path, FILES))
    assert store.lookup("a/9.jpg").status == "missing"
    assert store.lookup("A/1.JPG")[::2] == ("other case", "a/1.jpg")
    for name in ("../a/1.jpg", "a/../../x", "/a/1.jpg", "C:\\x.jpg", "a\0b.jpg", "\\\\host\\x"):
        assert store.lookup(name).status == "outside", name


def test_a_folder_is_no_entry_whatever_its_letters(tmp_path: Path) -> None:
    store = open_ref_store(a_folder(tmp_path, FILES | {"Pair/x.jpg": b"1", "pair/y.jpg": b"2"}))
    assert [store.lookup(name).status for name in ("a", "A", "a/", ".")] == ["missing"] * 4
    assert store.lookup("Pair/X.jpg")[::2] == ("other case", "Pair/x.jpg")


def test_a_name_that_several_samples_have_is_ambiguous(tmp_path: Path) -> None:
    assert open_ref_store(a_prepared(tmp_path)).lookup("c/twice.jpg").status == "ambiguous"


def test_a_link_that_leads_out_of_a_folder_is_refused(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "in", FILES)
    a_folder(tmp_path, {"secret.jpg": b"s"})
    os.symlink(tmp_path / "secret.jpg", tmp_path / "in" / "link.jpg")
    assert open_ref_store(root).lookup("link.jpg").status == "outside"


@pytest.mark.parametrize(("kind", "left", "first"), [("prepared", 4, "a/2"), ("folder", 2, "a/2.seg.png")])
def test_what_nobody_refers_to_is_counted_by_sample_or_file(tmp_path: Path, kind: str, left: int, first: str) -> None:
    store = open_ref_store(a_prepared(tmp_path) if kind == "prepared" else a_folder(tmp_path, FILES))
    assert store.find_unused(marks(store, "a/1.jpg", "a/1.txt")) == (left, first)


def test_a_store_that_cannot_be_opened_is_told_why(tmp_path: Path) -> None:
    for reference in (str(tmp_path / "none"), f"filesystem://{tmp_path}/none", "x.yaml", "filesystem+s3://b/x"):
        with pytest.raises(WdsctlError):
            open_ref_store(reference)
    open_ref_store(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "expected"), [("a/b.jpg", False), ("a..b/c.jpg", False), ("a/../b", True), ("..", True)]
)
def test_names_that_lead_out_are_known_by_their_text(name: str, expected: bool) -> None:
    assert is_outside_name(name) is expected
