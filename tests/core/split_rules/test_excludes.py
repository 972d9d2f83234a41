from __future__ import annotations

from wdsctl.core.split_rules.excludes import Excludes


def test_merged_excludes_contain_each_entry_once() -> None:
    assert Excludes(keys=("a", "b")).merged_with(Excludes(keys=("b", "c"))) == Excludes(keys=("a", "b", "c"))
    assert not Excludes()
