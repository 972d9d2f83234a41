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


def test_every_level_that_is_asked_for_answers_with_the_places_of_samples(tmp_path: Path) -> None:
    assert codes(check_shard(*a_unit(tmp_path, BAD))) == {
        "structure": [],
        "headers": [("WDS140", (1,))],
        "content": [("WDS144", (0,))],
        "schema": [],
        "refs": [],
        "hashes": [],
    }


def test_a_part_that_stands_twice_counts_as_its_last(tmp_path: Path) -> None:
    twice = a_shard([("0.json", b"{"), ("0.json", b"{}")])
    assert codes(check_shard(*a_unit(tmp_path, twice, "content"))) == {"content": []}


def test_only_some_samples_are_looked_into_when_a_share_is_asked_for(tmp_path: Path) -> None:
    files = {f"{i:03d}.json": b"{" for i in range(100)}
    checked = check_shard(*a_unit(tmp_path, files, "content", share=0.1))
    ((_, places),) = codes(checked)["content"]
    assert (checked.samples_checked, len(places)) == (10, 10)


def test_a_shard_that_ended_since_it_was_listed_is_told_not_raised(tmp_path: Path) -> None:
    unit = a_unit(tmp_path, BAD)
    (tmp_path / "a.tar").write_bytes(b"short")
    checked = check_shard(*unit)
    assert (checked.is_read, [each.finding.code for found in checked.findings.values() for each in found]) == (
        False,
        ["WDS403"],
    )


@pytest.mark.parametrize(
    ("files", "code", "places"),
    [
        ([("x.a", b"1"), ("y.a", b"1"), ("x.b", b"1"), ("y.b", b"1")], "WDS104", (0, 1, 2, 3)),
        ([("x.a", b"1"), ("y.a", b"1"), ("x.a", b"2")], "WDS105", (2,)),
        ([("w.a", b"1"), ("x.a", b"1"), ("x.b", b"1"), ("x.a", b"2")], "WDS107", (1,)),
    ],
)
def test_of_broken_keys_the_samples_that_training_would_get_wrong_are_named(
    tmp_path: Path, files: list[tuple[str, bytes]], code: str, places: tuple[int, ...]
) -> None:
    checked = check_shard(*a_unit(tmp_path, a_shard(files), "structure"))
    assert (code, places) in codes(checked)["structure"]


def test_another_layout_than_was_indexed_is_of_the_whole_shard(tmp_path: Path) -> None:
    data = a_shard(BAD)
    indexed = ShardRow(1, "a.tar", len(data), 1, 3, 5, "ok", None, "0" * 32)
    (placed,) = check_shard(*a_unit(tmp_path, data, "structure", row=indexed)).findings["structure"]
    assert (placed.finding.code, placed.covers_shard) == ("WDS305", True)


def test_samples_come_with_their_keys_and_parts_for_any_choice_of_rows() -> None:
    scan = a_scan(a_shard(samples(0, 50)))
    chosen = [1, 7, 49]
    got = list(iterate_scanned_samples(scan, chosen))
    assert [[(sight.position, sight.key, name) for name, sight in sample.items()] for sample in got] == [
        [(row, f"{row:06d}", "jpg"), (row, f"{row:06d}", "txt")] for row in chosen
    ]
