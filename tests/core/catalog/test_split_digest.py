from __future__ import annotations

from pathlib import Path

from tests.build import a_dataset, samples
from wdsctl.core.catalog.splits import SplitShard, split_digest
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets

ALL = [SplitShard(1, 5), SplitShard(2, 5)]


def make_offsets(root: Path, size: int = 8) -> Offsets:
    root_url = a_dataset(root, {"a.tar": samples(0, 5, size=size), "b.tar": samples(5, 5)})
    index(root_url)
    return Offsets(locate(root_url).offsets_path(1))


def test_split_digest_is_equal_for_equal_data(tmp_path: Path) -> None:
    assert split_digest(make_offsets(tmp_path / "a"), ALL) == split_digest(make_offsets(tmp_path / "b"), ALL)


def test_split_digest_differs_for_other_shards_samples_or_sizes(tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path / "a")
    names = {
        split_digest(offsets, ALL),
        split_digest(offsets, ALL[:1]),
        split_digest(offsets, ALL[::-1]),
        split_digest(offsets, [ALL[0], SplitShard(2, 2, b"\x03")]),
        split_digest(offsets, [ALL[0], SplitShard(2, 2, b"\x05")]),
        split_digest(make_offsets(tmp_path / "c", size=900), ALL),
    }
    assert len(names) == 6
    assert all(len(name) == 32 for name in names)


def test_split_digest_ignores_shards_without_offsets(tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path / "a")
    assert split_digest(offsets, [*ALL, SplitShard(7, 5)]) == split_digest(offsets, ALL)
