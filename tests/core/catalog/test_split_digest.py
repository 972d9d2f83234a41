from __future__ import annotations

from pathlib import Path

from tests.build import a_dataset, samples
from wdsctl.core.catalog.splits import SplitShard, split_digest
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets

ALL = [SplitShard(1, 5), SplitShard(2, 5)]


def offsets_of(root: Path, size: int = 8) -> Offsets:
    made = a_dataset(root, {"a.tar": samples(0, 5, size=size), "b.tar": samples(5, 5)})
    index(made)
    return Offsets(locate(made).offsets_path(1))


def test_equal_data_has_an_equal_name_wherever_it_lies(tmp_path: Path) -> None:
    assert split_digest(offsets_of(tmp_path / "a"), ALL) == split_digest(offsets_of(tmp_path / "b"), ALL)


def test_other_shards_samples_or_contents_have_another_name(tmp_path: Path) -> None:
    offsets = offsets_of(tmp_path / "a")
    names = {
        split_digest(offsets, ALL),
        split_digest(offsets, ALL[:1]),
        split_digest(offsets, ALL[::-1]),
        split_digest(offsets, [ALL[0], SplitShard(2, 2, b"\x03")]),
        split_digest(offsets, [ALL[0], SplitShard(2, 2, b"\x05")]),
        split_digest(offsets_of(tmp_path / "c", size=900), ALL),
    }
    assert len(names) == 6
    assert all(len(name) == 32 for name in names)


def test_shards_that_the_offsets_lack_are_passed_over(tmp_path: Path) -> None:
    offsets = offsets_of(tmp_path / "a")
    assert split_digest(offsets, [*ALL, SplitShard(7, 5)]) == split_digest(offsets, ALL)
