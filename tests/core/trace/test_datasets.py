from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, samples, some_shards, split_by_ratios
from tests.core.catalog.readers import read_split
from tests.core.traces import a_source
from wdsctl.core.catalog.splits import split_digest
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.split_rules.shares import parse_split_shares
from wdsctl.core.trace import SourceFacts
from wdsctl.core.trace.datasets import MovedRoots, TracedDataset, TracedDatasets, parse_moved_roots


def unmoved(root: str) -> MovedRoots:
    """The datasets of a trace that is beside the dataset."""
    return MovedRoots({}, os.path.dirname(root))


def open_dataset(root: str, **facts: Any) -> TracedDataset:
    dataset = TracedDatasets(unmoved(root)).open(a_source(root=root, **facts))
    assert isinstance(dataset, TracedDataset), dataset
    return dataset


def source_of_split(root: str, name: str) -> SourceFacts:
    """The source facts that a training run on this split records."""
    place = locate(root)
    digest = split_digest(Offsets(place.offsets_path(1)), read_split(place.catalog_path, name))
    return a_source(root=root, split=name, digest=digest)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Three shards of five samples."""
    path = some_shards(tmp_path / "data", 3)
    index(path)
    return path


def test_locate_finds_sample_by_id(root: str) -> None:
    dataset = open_dataset(root)
    located = dataset.locate(2 << 28 | 3)
    assert located is not None
    assert (located.key, located.shard.path, [part.name for part in located.parts]) == (
        "000008",
        "shard-001.tar",
        ["jpg", "txt"],
    )
    part = located.parts[0]
    assert Path(root, located.shard.path).read_bytes()[part.offset :][: part.size_bytes] == b"8 jpg .."


@pytest.mark.parametrize("sample_id", [9 << 28, 1 << 28 | 5, -1, 0])
def test_locate_returns_none_for_unknown_id(root: str, sample_id: int) -> None:
    assert open_dataset(root).locate(sample_id) is None


def test_find_ids_returns_all_samples_of_key(tmp_path: Path) -> None:
    root = a_dataset(
        tmp_path, {"a.tar": samples(0, 5), "b.tar": {"x/é.txt": b"", "000003.jpg": b""}, "c.tar": {"9000003.txt": b""}}
    )
    index(root)
    dataset = open_dataset(root)
    assert dataset.find_ids("000003") == [1 << 28 | 3, 2 << 28 | 1]
    assert dataset.find_ids("x/é") == [2 << 28]
    assert dataset.find_ids("00003") == dataset.find_ids("") == []


def test_missing_generation_is_read_from_current_one(root: str) -> None:
    some_shards(Path(root), 2, first=3)
    os.unlink(os.path.join(root, "shard-000.tar"))
    index(root, missing="drop")
    os.unlink(locate(root).offsets_path(1))
    dataset = open_dataset(root)
    located = dataset.locate(3 << 28 | 4)
    assert located is not None
    assert located.key == "000014"
    assert dataset.locate(1 << 28) is None
    assert not dataset.has_other_samples


def test_changed_split_is_detected(root: str) -> None:
    split_by_ratios(root, parse_split_shares("2,1"), by="shard")
    facts = source_of_split(root, "train")
    datasets = TracedDatasets(unmoved(root))
    assert isinstance(datasets.open(facts), TracedDataset)
    assert not datasets.open(facts).has_other_samples  # type: ignore[union-attr]

    split_by_ratios(root, parse_split_shares("1,2"), by="shard", allow_split_changes=True)
    assert TracedDatasets(unmoved(root)).open(facts).has_other_samples  # type: ignore[union-attr]


def test_missing_dataset_hints_at_root_option(root: str, tmp_path: Path) -> None:
    shutil.move(root, tmp_path / "moved")
    error = TracedDatasets(unmoved(root)).open(a_source(root=root))
    assert isinstance(error, WdsctlError)
    assert (error.code, error.where) == ("WDS543", root)
    assert f"--root {root}=NEW" in error.hint

    moved_dataset = TracedDatasets(parse_moved_roots([f"{root}={tmp_path / 'moved'}"], [root], "/traces")).open(
        a_source(root=root)
    )
    assert isinstance(moved_dataset, TracedDataset)


def test_missing_catalog_is_reported(root: str) -> None:
    shutil.rmtree(os.path.join(root, ".wdsctl"))
    error = TracedDatasets(unmoved(root)).open(a_source(root=root))
    assert isinstance(error, WdsctlError)
    assert "no catalog" in error.message


def test_catalog_named_by_trace_is_used(root: str, tmp_path: Path) -> None:
    shutil.move(os.path.join(root, ".wdsctl"), tmp_path / "catalog")
    assert open_dataset(root, catalog=str(tmp_path / "catalog")).locate(1 << 28)


@pytest.mark.parametrize(
    ("word", "folders"),
    [
        ("/data/cats=/new/cats", {"/data/cats": "/new/cats"}),
        ("/data=/new=1", {"/data": "/new=1"}),
        ("/data/=/new/", {"/data/": "/new/"}),
        ("s3://b/day=3=/mnt/b", {"s3://b/day=3": "/mnt/b"}),
    ],
)
def test_parse_moved_roots_splits_at_datasets_of_trace(word: str, folders: dict[str, str]) -> None:
    assert parse_moved_roots([word], ["/data/cats", "s3://b/day=3"], "/traces").new_roots == folders


@pytest.mark.parametrize("word", ["/dat=/new", "/data/cats", "/data/cats=", "=/new", "/elsewhere=/new"])
def test_parse_moved_roots_refuses_roots_not_in_trace(word: str) -> None:
    with pytest.raises(UsageError, match="expected a dataset of the trace") as error:
        parse_moved_roots([word], ["/data/cats"], "/traces")
    assert "/data/cats" in error.value.hint


def test_moved_folder_moves_only_datasets_below_it(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    moved = MovedRoots({"/data/": str(tmp_path)}, "/database")
    assert moved.locate(a_source(root="/data/cats")).root == str(tmp_path / "cats")
    with pytest.raises(WdsctlError, match="does not exist"):
        moved.locate(a_source(root="/database/cats"))


def test_parse_moved_roots_accepts_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = [str(tmp_path / "cats"), "s3://b/dogs"]

    assert parse_moved_roots(["cats=/new"], known, "/traces").new_roots == {known[0]: "/new"}
    assert parse_moved_roots([".=/new"], known, "/traces").new_roots == {str(tmp_path): "/new"}
    with pytest.raises(UsageError):
        parse_moved_roots(["dogs=/new"], known, "/traces")
