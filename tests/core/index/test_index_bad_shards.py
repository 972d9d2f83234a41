"""Shards that are damaged or may not be read, and datasets of which nothing can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import AsNobody, Told, a_dataset, a_shard, codes, rewritten, samples, some_shards, tree
from tests.core.dumps import catalog_of, query
from tests.core.indexed import offsets
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError
from wdsctl.core.index.index import IndexReport, index


def test_a_bad_shard_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
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


def test_what_was_wrong_is_said_again_until_it_is_mended(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 2), "b.tar": b"not a tar"})
    index(root)

    (again,) = index(root).findings
    assert (again.code, again.shard) == ("WDS101", "b.tar")
    assert (
        again.message == f"index found errors in the shard, which is not repaired: `wdsctl validate {root}` lists them"
    )
    rewritten(tmp_path / "b.tar", samples(2, 2))
    assert index(root).findings == ()


def test_a_shard_that_may_not_be_read_is_read_when_it_may(public_path: Path, as_nobody: AsNobody) -> None:
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
    ("files", "there"),
    [
        ({"readme": b"1", "licence": b"2"}, "2 members whose names have no key, such as 'readme'"),
        ({}, "no members at all"),
    ],
)
def test_a_dataset_without_samples_is_an_error_that_says_what_is_there_instead(
    tmp_path: Path, files: dict[str, bytes], there: str
) -> None:
    root = a_dataset(tmp_path, {"a.tar": files})
    first, again = index(root), index(root)

    (finding,) = (finding for finding in first.findings if finding.code == "WDS119")
    assert finding.severity == "error"
    assert finding.message == f"no samples in 1 shard: {there} (`wdsctl validate {root}` shows details)"
    assert (codes(again), again.up_to_date) == (["WDS119"], True)
    assert again.findings[0].message == f"no samples in 1 shard (`wdsctl validate {root}` shows details)"


def test_a_catalog_that_is_a_folder_is_set_aside_by_a_rebuild_which_says_so(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    Path(locate(root).catalog).mkdir(parents=True)
    told = Told()

    assert index(root, rebuild=True, progress=told).samples == 5
    assert told.notes == [f"the damaged catalog is now {locate(root).catalog}.damaged-1; building a new one"]


def test_a_dataset_of_bad_shards_alone_has_an_empty_catalog(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"", "b.tar": b"?"})
    report = index(root)

    assert (report.shards, report.samples) == (2, 0)
    assert offsets(root).samples == 0
    assert index(root).up_to_date


@pytest.mark.parametrize(
    ("files", "code"), [({}, "WDS003"), ({"a.txt": b"x"}, "WDS003"), ({"a.tar.gz": b"x"}, "WDS113")]
)
def test_a_folder_without_shards_is_refused_and_left_alone(tmp_path: Path, files: dict[str, bytes], code: str) -> None:
    root = a_dataset(tmp_path, files)
    before = tree(root)

    with pytest.raises(InputError) as caught:
        index(root)
    assert (caught.value.code, caught.value.where) == (code, root)
    assert tree(root) == before
