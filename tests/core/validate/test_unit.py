from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, a_scan, a_shard, an_image, samples
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.validate.request import LEVELS, ValidateRequest, ValidationLevel
from wdsctl.core.validate.unit import CheckContext, CheckResult, CheckUnit, check_shard, iterate_scanned_samples


def a_unit(
    root: Path,
    files: dict[str, bytes] | bytes,
    *levels: ValidationLevel,
    share: float = 1.0,
    row: ShardRow | None = None,
) -> tuple[CheckContext, CheckUnit]:
    data = files if isinstance(files, bytes) else a_shard(files)
    request = ValidateRequest(levels=levels or LEVELS, share=share)
    context = CheckContext(root=a_dataset(root, {"a.tar": data}), request=request)
    return context, CheckUnit(shard=ShardFile("a.tar", len(data), 1), levels=request.levels, row=row)


def codes(checked: CheckResult) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    return {level: [(each.finding.code, each.positions) for each in found] for level, found in checked.findings.items()}


BAD = {"0.jpg": an_image("JPEG"), "0.json": b"{", "1.jpg": b"rubbish", "1.json": b"{}", "2.jpg": an_image("JPEG")}


def test_every_requested_level_reports_positions_of_samples(tmp_path: Path) -> None:
    assert codes(check_shard(*a_unit(tmp_path, BAD))) == {
        "structure": [],
        "headers": [("WDS140", (1,))],
        "content": [("WDS144", (0,))],
        "schema": [],
        "refs": [],
        "hashes": [],
    }


def test_repeated_part_counts_as_its_last(tmp_path: Path) -> None:
    shard = a_shard([("0.json", b"{"), ("0.json", b"{}")])
    assert codes(check_shard(*a_unit(tmp_path, shard, "content"))) == {"content": []}


def test_share_limits_number_of_checked_samples(tmp_path: Path) -> None:
    files = {f"{i:03d}.json": b"{" for i in range(100)}
    checked = check_shard(*a_unit(tmp_path, files, "content", share=0.1))
    ((_, positions),) = codes(checked)["content"]
    assert (checked.samples_checked, len(positions)) == (10, 10)


def test_truncated_shard_is_reported_and_not_raised(tmp_path: Path) -> None:
    unit = a_unit(tmp_path, BAD)
    (tmp_path / "a.tar").write_bytes(b"short")
    checked = check_shard(*unit)
    assert (checked.is_read, [each.finding.code for found in checked.findings.values() for each in found]) == (
        False,
        ["WDS403"],
    )


BOTH_KINDS_OF_REPEATS = [(name, b"1") for name in ("x.a", "y.a", "x.b", "z.a", "y.a")]


@pytest.mark.parametrize(
    ("files", "code", "positions"),
    [
        (BOTH_KINDS_OF_REPEATS, "WDS104", (0, 2)),
        (BOTH_KINDS_OF_REPEATS, "WDS105", (4,)),
        ([("x.a", b"1"), ("y.a", b"1"), ("x.b", b"1"), ("y.b", b"1")], "WDS104", (0, 1, 2, 3)),
        ([("x.a", b"1"), ("y.a", b"1"), ("x.a", b"2")], "WDS105", (2,)),
        ([("w.a", b"1"), ("x.a", b"1"), ("x.b", b"1"), ("x.a", b"2")], "WDS107", (1,)),
    ],
)
def test_finding_of_repeated_keys_names_affected_samples(
    tmp_path: Path, files: list[tuple[str, bytes]], code: str, positions: tuple[int, ...]
) -> None:
    checked = check_shard(*a_unit(tmp_path, a_shard(files), "structure"))
    assert (code, positions) in codes(checked)["structure"]


def test_changed_layout_is_finding_of_whole_shard(tmp_path: Path) -> None:
    data = a_shard(BAD)
    indexed = ShardRow(1, "a.tar", len(data), 1, 3, 5, "ok", None, "0" * 32)
    (located,) = check_shard(*a_unit(tmp_path, data, "structure", row=indexed)).findings["structure"]
    assert (located.finding.code, located.covers_shard) == ("WDS305", True)


def test_iterate_scanned_samples_yields_keys_and_parts_of_chosen_rows() -> None:
    scan = a_scan(a_shard(samples(0, 50)))
    rows = [1, 7, 49]
    actual = list(iterate_scanned_samples(scan, rows))
    assert [[(part.position, part.key, name) for name, part in sample.items()] for sample in actual] == [
        [(row, f"{row:06d}", "jpg"), (row, f"{row:06d}", "txt")] for row in rows
    ]
