from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.files import replace_atomically, set_aside, write_atomically, write_pieces, write_text


def test_write_text_replaces_file_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    write_text(str(path), "é\n")
    write_text(str(path), "second\n")

    assert path.read_bytes() == b"second\n"
    assert os.listdir(path.parent) == ["a.txt"]


@pytest.mark.parametrize("durable", [True, False])
def test_failed_write_keeps_old_content(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a.txt"
    path.write_text("first")

    with pytest.raises(ZeroDivisionError), replace_atomically(str(path), durable=durable) as draft:
        Path(draft).write_text("half" * (1 // len(draft[:0])))
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("durable", [True, False])
def test_durable_file_is_synced_before_it_gets_its_name_and_folder_after(
    tmp_path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    synced: list[tuple[str, bool]] = []  # what, and whether the file had its name

    def note_sync(handle: int) -> None:
        synced.append(("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file", path.exists()))

    monkeypatch.setattr(os, "fsync", note_sync)
    write_pieces(str(path), [b"whole"], durable=durable)

    assert synced == ([("file", False), ("folder", True)] if durable else [])


def test_concurrent_writers_do_not_interfere_and_last_to_finish_wins(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replace_atomically(str(path)) as one:
        Path(one).write_text("one")
        with replace_atomically(str(path)) as other:
            Path(other).write_text("other")
        assert path.read_text() == "other"
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_full_disk_is_reported_as_wds401(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("first")

    def fill(_file: object) -> None:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    with pytest.raises(StorageError) as caught:
        write_atomically(str(path), fill)
    assert caught.value.code == "WDS401"
    assert path.read_text() == "first"


def test_unwritable_folder_is_reported(public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]) -> None:
    (public_path / "closed").mkdir(mode=0o755)
    error = as_nobody(lambda: write_text(str(public_path / "closed" / "a.txt"), "x"))

    assert isinstance(error, PermissionDenied)
    assert str(public_path / "closed") in error.where


def test_set_aside_keeps_each_file_under_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    for content in ("first", "second"):
        path.write_text(content)
        set_aside(str(path), "broken")

    assert sorted(os.listdir(tmp_path)) == ["a.sqlite.broken-1", "a.sqlite.broken-2"]
    assert [(tmp_path / f"a.sqlite.broken-{n}").read_text() for n in (1, 2)] == ["first", "second"]


def test_set_aside_moves_journal_with_database(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_text("database")
    (tmp_path / "a.sqlite-journal").write_text("journal")

    aside = set_aside(str(path), "damaged")
    assert (Path(aside).read_text(), Path(f"{aside}-journal").read_text()) == ("database", "journal")
    assert len(os.listdir(tmp_path)) == 2
