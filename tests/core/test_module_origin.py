from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wdsctl.core import import_guard
from wdsctl.core.import_guard import (
    add_implicit_folder,
    explicit_path,
    find_implicit_folder,
    find_module_origin,
    is_within,
    without_implicit_folder,
)


def test_find_module_origin_finds_module_without_importing_package(tmp_path: Path) -> None:
    (tmp_path / "wds_outer" / "wds_space").mkdir(parents=True)
    (tmp_path / "wds_outer" / "__init__.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "wds_outer" / "wds_space" / "inner.py").write_text("raise SystemExit(9)\n")
    entries = [str(tmp_path)]

    assert find_module_origin("wds_outer", entries) == str(tmp_path / "wds_outer" / "__init__.py")
    assert find_module_origin("wds_outer.wds_space", entries) == ""
    assert find_module_origin("wds_outer.wds_space.inner", entries) == str(
        tmp_path / "wds_outer" / "wds_space" / "inner.py"
    )
    assert find_module_origin("wds_outer.other", entries) is None
    assert find_module_origin("wds_outer.wds_space.inner.more", entries) is None
    assert not [name for name in sys.modules if name.startswith("wds_outer")]


def test_find_module_origin_uses_file_of_imported_module() -> None:
    assert find_module_origin("wdsctl.core.errors", []) == sys.modules["wdsctl.core.errors"].__file__
    assert (find_module_origin("sys", []), find_module_origin("wds_none", sys.path)) == ("", None)


def test_without_implicit_folder_removes_and_restores_empty_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "/one", "/two", ""])

    with without_implicit_folder():
        assert sys.path == ["/one", "/two"]
    assert sys.path == ["", "/one", "/two", ""]


def test_implicit_folder_is_passed_to_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "/one"])
    monkeypatch.setattr(import_guard, "_implicit_entries", {""})
    assert find_implicit_folder(["/here", "/one"]) == "/here"
    assert find_implicit_folder(["/one", "/one"]) == ""  # also requested explicitly

    add_implicit_folder("/here")
    monkeypatch.setattr(sys, "path", ["/here", "/one"])
    assert explicit_path() == ["/one"]


def test_is_within_compares_names_and_real_paths(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")

    assert is_within(str(tmp_path / "link" / "a.py"), [str(tmp_path / "data")])
    assert is_within(str(tmp_path / "data" / "a.py"), [str(tmp_path / "link")])
    assert is_within(str(tmp_path / "data"), [str(tmp_path / "data")])
    assert not is_within(str(tmp_path / "data2" / "a.py"), [str(tmp_path / "data")])
