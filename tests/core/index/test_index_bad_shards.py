"""Shards that are damaged or unreadable, and datasets without any sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import (
    AsNobody,
    RecordingProgress,
    a_dataset,
    a_shard,
    codes,
    rewrite_shard,
    samples,
    some_shards,
    tree,
)
from tests.core.dumps import catalog_of, query
from tests.core.indexed import offsets
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError
from wdsctl.core.index.index import IndexReport, index


def test_bad_shards_are_recorded_and_others_indexed(tmp_path: Path) -> None:
    good = a_shard(samples(0, 5))
    root = a_dataset(
        tmp_path,
        {"a.tar": good, "b.tar": b"not a tar", "c.tar": good[: 5 * 1024 + 600], "d.tar": b"", "e.tar": samples(9, 1)},
    )
    report = index(root)

    assert codes(report) == ["WDS101", "WDS102", "WDS101"]
    assert (report.shards, report.samples) == (5, 8)
    rows = query(catalog_of(root), "SELECT path, status, code, samples FROM shard ORDER BY id")
    assert rows == [
        ("a.tar", "ok", None, 5),
        ("b.tar", "bad", "WDS101", 0),
        ("c.tar", "partial", "WDS102", 2),
        ("d.tar", "bad", "WDS101", 0),
        ("e.tar", "ok", None, 1),
    ]


def test_findings_of_bad_shard_are_repeated_until_repaired(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 2), "b.tar": b"not a tar"})
    index(root)

    (second,) = index(root).findings
    assert (second.code, second.shard) == ("WDS101", "b.tar")
    assert (
        second.message == f"index found errors in the shard, which is not repaired: `wdsctl validate {root}` lists them"
    )
    rewrite_shard(tmp_path / "b.tar", samples(2, 2))
    assert index(root).findings == ()


def test_unreadable_shard_is_indexed_once_it_is_readable(public_path: Path, as_nobody: AsNobody) -> None:
    root = some_shards(public_path / "data", 2)
    Path(root).chmod(0o777)
    closed = Path(root, "shard-000.tar")
    closed.chmod(0)
    first = as_nobody(lambda: index(root))
    closed.chmod(0o644)
    second = as_nobody(lambda: index(root))

    assert isinstance(first, IndexReport)
    assert (codes(first), first.samples) == (["WDS402"], 5)
    assert (codes(second), second.samples, second.changed) == ([], 10, 1)


@pytest.mark.parametrize(
    ("files", "content"),
    [
        ({"readme": b"1", "licence": b"2"}, "2 members whose names have no key, such as 'readme'"),
        ({}, "no members at all"),
    ],
)
def test_dataset_without_samples_has_error_that_describes_content(
    tmp_path: Path, files: dict[str, bytes], content: str
) -> None:
    root = a_dataset(tmp_path, {"a.tar": files})
    first, second = index(root), index(root)

    (finding,) = (finding for finding in first.findings if finding.code == "WDS119")
    assert finding.severity == "error"
    assert finding.message == f"no samples in 1 shard: {content} (`wdsctl validate {root}` shows details)"
    assert (codes(second), second.up_to_date) == (["WDS119"], True)
    assert second.findings[0].message == f"no samples in 1 shard (`wdsctl validate {root}` shows details)"


def test_rebuild_sets_aside_catalog_that_is_folder(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    Path(locate(root).catalog_path).mkdir(parents=True)
    progress = RecordingProgress()

    assert index(root, rebuild=True, progress=progress).samples == 5
    assert progress.notes == [f"the damaged catalog is now {locate(root).catalog_path}.damaged-1; building a new one"]


def test_dataset_of_only_bad_shards_has_empty_catalog(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"", "b.tar": b"?"})
    report = index(root)

    assert (report.shards, report.samples) == (2, 0)
    assert offsets(root).samples == 0
    assert index(root).up_to_date


@pytest.mark.parametrize(
    ("files", "code"), [({}, "WDS003"), ({"a.txt": b"x"}, "WDS003"), ({"a.tar.gz": b"x"}, "WDS113")]
)
def test_folder_without_shards_is_refused_and_unchanged(tmp_path: Path, files: dict[str, bytes], code: str) -> None:
    root = a_dataset(tmp_path, files)
    before = tree(root)

    with pytest.raises(InputError) as caught:
        index(root)
    assert (caught.value.code, caught.value.where) == (code, root)
    assert tree(root) == before
