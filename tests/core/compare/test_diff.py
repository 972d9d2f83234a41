from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import a_dataset, a_shard, rewrite_shard, samples, some_shards, split_by_ratios
from wdsctl.core.compare.diff import DatasetDiffReport, diff_datasets
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view

Pair = tuple[str, str]


def counts(report: DatasetDiffReport) -> dict[str, int]:
    differences = report.samples
    return {
        name: getattr(differences, name)
        for name in ("same", "added", "removed", "moved", "changed")
        if getattr(differences, name)
    }


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Two equal datasets of four shards with five samples each."""
    return some_shards(tmp_path / "a", 4), some_shards(tmp_path / "b", 4)


def index_and_diff(pair: Pair, *, content: bool = False, limit: int = 10) -> DatasetDiffReport:
    for root in pair:
        index(root)
    return diff_datasets(*pair, content=content, limit=limit)


@pytest.mark.usefixtures("place")
def test_copy_does_not_differ(pair: Pair) -> None:
    report = index_and_diff(pair, content=True)
    assert report.is_same
    assert (report.shards.same, counts(report)) == (4, {"same": 20})


def test_added_and_removed_shards_count_their_samples(pair: Pair) -> None:
    os.unlink(f"{pair[1]}/shard-001.tar")
    a_dataset(Path(pair[1]), {"new.tar": samples(90, 2)})
    report = index_and_diff(pair)
    assert (report.shards.first_removed, report.shards.first_added) == (("shard-001.tar",), ("new.tar",))
    assert counts(report) == {"same": 15, "added": 2, "removed": 5}
    assert not report.is_same


def test_renamed_shard_moves_its_samples(pair: Pair) -> None:
    os.rename(f"{pair[1]}/shard-003.tar", f"{pair[1]}/z.tar")
    report = index_and_diff(pair)
    (renamed,) = report.shards.first_renamed
    assert (renamed.first, renamed.second) == ("shard-003.tar", "z.tar")
    assert (report.shards.added, report.shards.removed, counts(report)) == (0, 0, {"same": 15, "moved": 5})


@pytest.mark.usefixtures("place")
def test_samples_in_other_shards_are_moved(tmp_path: Path) -> None:
    first = a_dataset(tmp_path / "a", {"0.tar": samples(0, 6), "1.tar": samples(6, 6)})
    second = a_dataset(tmp_path / "b", {"0.tar": samples(0, 4), "1.tar": samples(4, 4), "2.tar": samples(8, 4)})
    report = index_and_diff((first, second))
    assert counts(report) == {"same": 6, "moved": 6}
    example = report.samples.first_differences[0]
    assert (example.kind, example.key, example.first_shard, example.second_shard) == (
        "moved",
        "000004",
        "0.tar",
        "1.tar",
    )


def test_order_of_parts_does_not_change_sample(tmp_path: Path) -> None:
    first = a_dataset(tmp_path / "a", {"0.tar": {"1.jpg": b"x", "1.txt": b"yz"}})
    second = a_dataset(tmp_path / "b", {"0.tar": {"1.txt": b"yz", "1.jpg": b"x"}})
    assert counts(index_and_diff((first, second), content=True)) == {"same": 1}


@pytest.mark.parametrize("parts", [{"1.jpg": b"xx", "1.txt": b"yz"}, {"1.jpg": b"x"}, {"1.png": b"x", "1.txt": b"yz"}])
def test_sample_with_other_parts_or_sizes_is_changed(tmp_path: Path, parts: dict[str, bytes]) -> None:
    first = a_dataset(tmp_path / "a", {"0.tar": {"1.jpg": b"x", "1.txt": b"yz"}})
    assert counts(index_and_diff((first, a_dataset(tmp_path / "b", {"0.tar": parts})))) == {"changed": 1}


def test_repeated_keys_are_paired_with_most_similar_sample(tmp_path: Path) -> None:
    one, two = {"k.txt": b"1"}, {"k.txt": b"22"}
    first = a_dataset(tmp_path / "a", {"0.tar": one, "1.tar": two, "2.tar": {"k.txt": b"333"}})
    second = a_dataset(tmp_path / "b", {"0.tar": two, "1.tar": one, "3.tar": one})
    assert counts(index_and_diff((first, second))) == {"moved": 2, "changed": 1}


def test_other_bytes_of_same_size_are_found_only_by_content(pair: Pair) -> None:
    altered = {**samples(5, 5), "000007.txt": b"7 txt !!"}
    rewrite_shard(f"{pair[1]}/shard-001.tar", altered)
    assert index_and_diff(pair).is_same
    report = index_and_diff(pair, content=True)
    assert counts(report) == {"same": 19, "changed": 1}
    assert [example.key for example in report.samples.first_differences] == ["000007"]


@pytest.mark.usefixtures("place")
def test_content_of_moved_samples_is_compared(tmp_path: Path) -> None:
    first = a_dataset(tmp_path / "a", {"0.tar": samples(0, 4)})
    second = a_dataset(tmp_path / "b", {"0.tar": samples(0, 2), "1.tar": {**samples(2, 2), "000003.jpg": b"3 jpg ,,"}})
    assert counts(index_and_diff((first, second), content=True)) == {"same": 2, "moved": 1, "changed": 1}


def test_differing_tar_headers_are_no_content(pair: Pair) -> None:
    path = Path(pair[1]) / "shard-000.tar"
    data = bytearray(path.read_bytes())
    data[100:108], data[148:156] = b"0000600\0", b"\0" * 8
    head = bytes(data[:148]) + b" " * 8 + bytes(data[156:512])
    data[148:156] = f"{sum(head):06o}\0 ".encode()
    path.write_bytes(data)
    assert counts(index_and_diff(pair, content=True)) == {"same": 20}


def test_hashes_in_both_catalogs_are_compared(pair: Pair) -> None:
    rewrite_shard(f"{pair[1]}/shard-001.tar", {**samples(5, 5), "000007.txt": b"7 txt !!"})
    for root in pair:
        index(root, hashed=True)
    report = diff_datasets(*pair)
    assert (report.shards.first_rewritten, report.is_same) == (("shard-001.tar",), False)


def test_bytes_are_read_if_file_changed_after_it_was_hashed(pair: Pair) -> None:
    for root in pair:
        index(root, hashed=True)
    rewrite_shard(f"{pair[1]}/shard-001.tar", {**samples(5, 5), "000007.txt": b"7 txt !!"})
    report = diff_datasets(*pair, content=True)
    assert (counts(report), report.is_same) == ({"same": 19, "changed": 1}, False)


def test_bytes_of_unchanged_files_with_equal_hashes_are_not_read(pair: Pair) -> None:
    for root in pair:
        index(root, hashed=True)
    path = f"{pair[1]}/shard-001.tar"
    before = os.stat(path)
    rewrite_shard(path, {**samples(5, 5), "000007.txt": b"7 txt !!"})
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert diff_datasets(*pair, content=True).is_same


def test_unreadable_shard_is_reported_and_rest_is_compared(pair: Pair) -> None:
    for root in pair:
        index(root)
    os.truncate(f"{pair[1]}/shard-002.tar", 700)
    rewrite_shard(f"{pair[1]}/shard-003.tar", {**samples(15, 5), "000015.txt": b"?? txt ."})
    report = diff_datasets(*pair, content=True)
    assert [error.code for error in report.unreadable] == ["WDS403"]
    assert report.samples.changed == 1


def test_samples_that_change_split_are_counted(pair: Pair) -> None:
    for root, seed in zip(pair, (0, 1), strict=True):
        index(root)
        split_by_ratios(root, {"train": 3, "val": 1}, by="sample", seed=seed)
    report = diff_datasets(*pair)
    assert report.splits is not None
    train, val = report.splits
    assert (train.first_samples, train.second_samples, val.first_samples) == (15, 15, 5)
    assert train.entered == train.left == val.entered == val.left > 0
    assert not report.is_same


def test_split_missing_on_one_side_is_reported(pair: Pair) -> None:
    for root in pair:
        index(root)
    split_by_ratios(pair[1], {"train": 1, "val": 1})
    report = diff_datasets(*pair)
    assert report.splits is not None
    assert [(each.name, each.first_samples, each.entered) for each in report.splits] == [
        ("train", None, 10),
        ("val", None, 10),
    ]


def test_dataset_is_compared_with_its_older_generation(pair: Pair) -> None:
    root = pair[0]
    index(root)
    rewrite_shard(f"{root}/shard-000.tar", samples(0, 7))
    index(root)
    report = diff_datasets(root, since=1)
    assert (report.first.generation, report.second.generation, report.splits) == (1, 2, None)
    assert (report.shards.changed, report.samples.first_differences[0].key) == (1, "000005")
    assert counts(report) == {"same": 20, "added": 2}
    assert diff_datasets(root, since=2, until=1).samples.removed == 2


def test_unknown_generation_is_refused_with_available_ones(pair: Pair) -> None:
    index(pair[0])
    with pytest.raises(InputError, match="the catalog no longer has generation 7; it has 1"):
        diff_datasets(pair[0], since=7)


@pytest.mark.usefixtures("place")
def test_views_are_compared_by_their_samples(pair: Pair) -> None:
    index(pair[0])
    create_view(pair[0], "one", ViewDefinition(where="position < 3"))
    create_view(pair[0], "two", ViewDefinition(where="position >= 2"))
    report = diff_datasets(f"{pair[0]}@one", f"{pair[0]}@two")
    assert (report.first.samples, report.second.samples) == (12, 12)
    assert counts(report) == {"same": 4, "added": 8, "removed": 8}


def test_number_of_examples_is_limited(pair: Pair) -> None:
    shutil.rmtree(pair[1])
    a_dataset(Path(pair[1]), {"x.tar": a_shard(samples(100, 3))})
    report = index_and_diff(pair, limit=2)
    assert (len(report.samples.first_differences), len(report.shards.first_removed)) == (4, 2)
    assert (report.samples.removed, report.shards.removed) == (20, 4)


@pytest.mark.parametrize(
    "call",
    [
        diff_datasets,
        lambda root: diff_datasets(root, root, since=1),
        lambda root: diff_datasets(root, since=1, content=True),
    ],
)
def test_contradicting_options_are_refused(pair: Pair, call: Callable[[str], DatasetDiffReport]) -> None:
    index(pair[0])
    with pytest.raises(UsageError):
        call(pair[0])
