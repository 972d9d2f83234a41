from __future__ import annotations

import os
from pathlib import Path

from tests.build import a_dataset, samples
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.offsets.write import rename_offsets_shards


def test_rename_offsets_shards_changes_only_names_and_keeps_open_readers(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 3), "b.tar": samples(3, 2, "jpg"), "c.tar": {}})
    index(root)
    path = locate(root).offsets_path(1)
    before = Offsets(path)
    rename_offsets_shards(path, {2: "somewhere/else/with-a-much-longer-name.tar", 99: "of-no-interest"})
    after = Offsets(path)

    assert [shard.path for shard in before.shards] == ["a.tar", "b.tar", "c.tar"]
    assert [shard.path for shard in after.shards] == ["a.tar", "somewhere/else/with-a-much-longer-name.tar", "c.tar"]
    assert [after.parts(row) for row in range(5)] == [before.parts(row) for row in range(5)]
    assert [after.key(row) for row in range(5)] == [before.key(row) for row in range(5)]
    assert (after.generation, after.extensions, after.layouts) == (before.generation, before.extensions, before.layouts)
    inode = os.stat(path).st_ino
    rename_offsets_shards(path, {1: "a.tar"})
    assert os.stat(path).st_ino == inode
