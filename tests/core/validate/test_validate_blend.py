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


class Heard(SilentProgress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    """Of the dataset `a`; what it says is for each test to write."""
    index(some_shards(tmp_path / "a", 2))
    return tmp_path / "blend.yaml"


def test_files_of_splits_are_looked_at_before_the_datasets_which_may_take_hours(blend: Path) -> None:
    blend.write_text("splits:\n  train:\n    path: a\n    split_config: mine.yaml\n")
    heard = Heard()
    report = validate_blend(str(blend), STRUCTURE, progress=heard)

    assert heard.notes[0].startswith("WDS002: line 3, train: split_config 'mine.yaml' does not exist")
    assert heard.notes[1] == f"validating {blend.parent / 'a'}"
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["WDS002"]


def test_a_file_without_splits_is_one_node_for_all_of_them(blend: Path) -> None:
    blend.write_text("path: a\nsplit_config: mine.yaml\n")
    report = validate_blend(str(blend), STRUCTURE)
    assert (report.shards, [finding.code for finding in report.findings][:1]) == (2, ["WDS002"])


def test_a_byte_order_mark_is_read_over_as_everywhere(blend: Path) -> None:
    blend.write_text("splits: {train: {path: a}}\n", encoding="utf-8-sig")
    assert validate_blend(str(blend), STRUCTURE).shards == 2


def test_splits_that_are_none_are_told_with_their_line(blend: Path) -> None:
    blend.write_text("splits: {}\n")
    with pytest.raises(DatasetError, match="splits: expected a mapping of names") as caught:
        validate_blend(str(blend), STRUCTURE)
    assert caught.value.where == f"{blend}:1"
