"""Shards that have vanished are kept, dropped or an error; and shards that are present again."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, linked_shards, samples, some_shards, split_by_ratios
from tests.core.dumps import catalog_of, dump, query, split_of
from tests.core.indexed import offsets
from wdsctl.core.convert.convert import convert
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, PermissionDenied
from wdsctl.core.index.index import MissingPolicy, index


@pytest.mark.parametrize(("missing", "samples_left", "removed"), [("keep", 15, 0), ("drop", 10, 1)])
def test_vanished_shards_are_kept_or_dropped_by_policy(
    tmp_path: Path, missing: MissingPolicy, samples_left: int, removed: int
) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    report = index(root, missing=missing)

    assert (report.samples, report.removed) == (samples_left, removed)
    assert index(root, missing=missing).up_to_date


def test_vanished_shards_are_error_by_default_and_change_nothing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    before = dump(root)
    (tmp_path / "shard-001.tar").unlink()

    with pytest.raises(InputError, match="1 of 3 shards has vanished: shard-001") as caught:
        index(root)
    assert caught.value.code == "WDS306"
    assert "--missing drop" in caught.value.hint
    assert dump(root) == before


def status_of(root: str) -> dict[str, str]:
    return dict(query(catalog_of(root), "SELECT path, status FROM v_shard"))


@pytest.mark.parametrize("rebuild", [False, True])
def test_shard_kept_as_missing_is_warning_in_later_runs(tmp_path: Path, *, rebuild: bool) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    index(root, missing="keep")
    assert status_of(root) == {"shard-000.tar": "ok", "shard-001.tar": "missing", "shard-002.tar": "ok"}
    report = index(root, rebuild=rebuild)
    assert [(each.code, each.severity, each.shard) for each in report.findings] == [
        ("WDS306", "warning", "shard-001.tar")
    ]
    assert (report.samples, report.up_to_date) == (15, not rebuild)
    assert status_of(root)["shard-001.tar"] == "missing"


def test_newly_vanished_shard_is_error_after_another_was_kept(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    index(root, missing="keep")
    (tmp_path / "shard-002.tar").unlink()
    with pytest.raises(InputError, match="1 of 3 shards has vanished: shard-002"):
        index(root)
    assert index(root, missing="drop").samples == 5


@pytest.mark.parametrize("name", ["shard-001.tar", "other.tar"])
def test_missing_shard_that_reappears_keeps_number_and_split(tmp_path: Path, name: str) -> None:
    root = some_shards(tmp_path / "d", 3)
    index(root)
    split_by_ratios(root, {"train": 1, "val": 1}, by="sample")
    before = split_of(root)
    os.rename(f"{root}/shard-001.tar", tmp_path / "away")
    index(root, missing="keep")
    os.rename(tmp_path / "away", f"{root}/{name}")
    report = index(root)
    assert (report.findings, report.generation, report.samples) == ((), 1, 15)
    assert status_of(root) == {"shard-000.tar": "ok", name: "ok", "shard-002.tar": "ok"}
    assert {(path.replace("other", "shard-001"), i): part for (path, i), part in split_of(root).items()} == before
    assert index(root).up_to_date


def test_missing_shard_replaced_by_other_content_is_reindexed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    index(root, missing="keep")
    a_dataset(tmp_path, {"shard-001.tar": samples(90, 2)})
    assert (index(root).samples, status_of(root)["shard-001.tar"]) == (7, "ok")


def test_rebuild_refuses_vanished_shards_by_default(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    before = dump(root)
    (tmp_path / "shard-001.tar").unlink()

    with pytest.raises(InputError, match="1 of 3 shards has vanished: shard-001") as caught:
        index(root, rebuild=True)
    assert caught.value.code == "WDS306"
    assert dump(root) == before


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_rebuild_with_missing_keep_keeps_rows_of_vanished_shards(tmp_path: Path, by: Any) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by=by)
    before, splits = dump(root), split_of(root)
    parts = {offsets(root).key(row): offsets(root).parts(row) for row in range(20)}
    (tmp_path / "shard-001.tar").unlink()
    report = index(root, rebuild=True, missing="keep")

    assert (report.samples, report.removed, report.generation) == (20, 0, 2)
    assert [row[:6] for row in dump(root)["shard"]] == [row[:6] for row in before["shard"]]
    assert [row[6] for row in dump(root)["shard"]] == ["ok", "missing", "ok", "ok"]
    assert {table: dump(root)[table] for table in ("ext", "sample", "shard_part")} == {
        table: before[table] for table in ("ext", "sample", "shard_part")
    }
    assert split_of(root) == splits
    assert {offsets(root).key(row): offsets(root).parts(row) for row in range(20)} == parts
    assert index(root, missing="keep").up_to_date


def test_rebuild_with_missing_drop_removes_vanished_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    report = index(root, rebuild=True, missing="drop")

    assert (report.samples, report.removed) == (10, 1)
    assert index(root).up_to_date


def test_shard_numbers_are_never_reused(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    index(root, missing="drop")
    index(root, rebuild=True)
    some_shards(tmp_path, 1, first=2)
    index(root)

    assert query(catalog_of(root), "SELECT id, path FROM shard WHERE removed IS NULL ORDER BY id") == [
        (1, "shard-000.tar"),
        (3, "shard-002.tar"),
    ]


def test_rows_of_vanished_shards_survive_loss_of_offsets_file(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    before = [offsets(root).parts(row) for row in range(15)]
    (tmp_path / "shard-001.tar").unlink()
    Path(locate(root).offsets_path(1)).unlink()
    report = index(root, missing="keep")

    assert not report.up_to_date
    assert [offsets(root).parts(row) for row in range(15)] == before
    assert [offsets(root).key(row) for row in range(15)] == [f"{i:06d}" for i in range(15)]


def test_shards_behind_disallowed_links_are_not_treated_as_vanished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = linked_shards(tmp_path)
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", str(tmp_path / "blobs"))
    index(root)
    before = dump(root)
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", "")

    for command in (partial(index, root), partial(index, root, rebuild=True), partial(convert, [root], f"{root}-new")):
        with pytest.raises(PermissionDenied) as caught:
            command()
        assert caught.value.code == "WDS409"
        assert f"--allow-path {tmp_path / 'blobs'}" in caught.value.hint
        assert "drop" not in caught.value.hint
    assert dump(root) == before
