"""What a refused conversion leaves: nothing, where nothing is worth keeping."""

from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.errors import DatasetError
from wdsctl.core.verbs.convert import convert


def incomplete_folder(root: Path) -> Path:
    root.mkdir()
    for name in ("a.jpg", "a.txt", "b.jpg", "b.txt", "c.txt"):
        (root / name).write_bytes(b"x")
    return root


def test_a_refused_source_leaves_no_destination(tmp_path: Path) -> None:
    raw = incomplete_folder(tmp_path / "raw")
    with pytest.raises(DatasetError) as refused:
        convert([str(raw)], str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()
    assert "-O on-missing=skip" in refused.value.hint
    assert "--on-missing" not in refused.value.hint


def test_a_refused_source_leaves_a_destination_that_was_there_as_it_was(tmp_path: Path) -> None:
    raw = incomplete_folder(tmp_path / "raw")
    (tmp_path / "made").mkdir()
    with pytest.raises(DatasetError):
        convert([str(raw)], str(tmp_path / "made"))
    assert not list((tmp_path / "made").iterdir())


def test_a_table_that_is_named_by_a_relative_path_has_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("labels.csv").write_text("a,b\nx,1\ny,2\n", encoding="utf-8")
    assert convert(["labels.csv"], "made").samples == 2
