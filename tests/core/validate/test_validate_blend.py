from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index
from wdsctl.core.progress import SilentProgress
from wdsctl.core.validate.blend import validate_blend
from wdsctl.core.validate.validate import ValidateRequest

STRUCTURE = ValidateRequest()


class NoteRecorder(SilentProgress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    """The path of a blend file next to the dataset `a`; each test writes the file."""
    index(some_shards(tmp_path / "a", 2))
    return tmp_path / "blend.yaml"


def test_split_files_are_checked_before_datasets(blend: Path) -> None:
    blend.write_text("splits:\n  train:\n    path: a\n    split_config: mine.yaml\n")
    recorder = NoteRecorder()
    report = validate_blend(str(blend), STRUCTURE, progress=recorder)

    assert recorder.notes[0].startswith("WDS002: line 3, train: split_config 'mine.yaml' does not exist")
    assert recorder.notes[1] == f"validating {blend.parent / 'a'}"
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["WDS002"]


def test_blend_file_without_splits_is_checked_as_one_node(blend: Path) -> None:
    blend.write_text("path: a\nsplit_config: mine.yaml\n")
    report = validate_blend(str(blend), STRUCTURE)
    assert (report.shards, [finding.code for finding in report.findings][:1]) == (2, ["WDS002"])


def test_byte_order_mark_is_accepted(blend: Path) -> None:
    blend.write_text("splits: {train: {path: a}}\n", encoding="utf-8-sig")
    assert validate_blend(str(blend), STRUCTURE).shards == 2


def test_empty_splits_are_refused_with_line(blend: Path) -> None:
    blend.write_text("splits: {}\n")
    with pytest.raises(DatasetError, match="splits: expected a mapping of names") as caught:
        validate_blend(str(blend), STRUCTURE)
    assert caught.value.where == f"{blend}:1"
