from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards, split_by_ratios
from wdsctl.core.index.index import index
from wdsctl.core.inspect.blend import inspect_blend
from wdsctl.core.validate.blend import check_entries


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    """A blend of two datasets with two splits; the first dataset has a split file."""
    for name in ("a", "b"):
        root = some_shards(tmp_path / name, 2)
        index(root)
        split_by_ratios(root, {"train": 1})
    path = tmp_path / "blend.yaml"
    entries = "[{weight: 1, path: a, split_config: mine.yaml}, {weight: 1, path: b}]"
    path.write_text(f"splits:\n  train:\n    blend: {entries}\n  val:\n    path: a\n    split_config: mine.yaml\n")
    return path


def write_split_file(blend: Path, text: str) -> None:
    (blend.parent / "a" / ".wdsctl" / "mine.yaml").write_text(text)


def test_check_entries_accepts_valid_file(blend: Path) -> None:
    write_split_file(blend, "split_parts: {train: [shard-000.tar], val: [shard-001.tar]}\n")
    assert check_entries(str(blend)) == ()


@pytest.mark.parametrize(
    ("text", "codes", "message"),
    [
        (None, ["WDS002", "WDS002"], "split_config 'mine.yaml' does not exist"),
        ("split_parts: [", ["WDS217", "WDS217"], "mine.yaml:"),
        ("split_parts: {train: [shard-009.tar], val: [shard-001.tar]}", ["WDS217"], "1 name in the file is not in the"),
        ("split_parts: {train: [shard-000.tar]}", ["WDS211"], "the file has no split 'val'"),
    ],
)
def test_check_entries_reports_line_and_split_of_errors(
    blend: Path, text: str | None, codes: list[str], message: str
) -> None:
    if text is not None:
        write_split_file(blend, text)
    findings = check_entries(str(blend))
    assert [finding.code for finding in findings] == codes
    assert message in findings[0].message
    assert findings[0].message.startswith("line ")
    assert {(finding.severity, finding.shard) for finding in findings} == {("error", str(blend))}


def test_check_entries_reports_what_inspect_reports(blend: Path) -> None:
    blend.write_text(
        "splits:\n  train:\n    blend:\n"
        "      - {weight: 1, path: a, split_part: nope}\n"
        "      - {weight: 1, path: b, subset: {range: [0, 99999]}}\n"
    )
    findings = check_entries(str(blend))

    assert [finding.code for finding in findings] == ["WDS211", "WDS603"]
    assert [finding.message.split(":")[0] for finding in findings] == ["line 4, train", "line 5, train"]
    assert [finding.code for finding in findings] == [each.code for each in inspect_blend(str(blend)).problems]
