from __future__ import annotations

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.split_rules.names import check_set_name, check_split_name, qualified_split_name, split_set_and_name


def test_qualified_split_name_joins_set_and_split() -> None:
    assert (qualified_split_name("folds", "val"), qualified_split_name("", "val")) == ("folds/val", "val")
    assert (split_set_and_name("folds/val"), split_set_and_name("val")) == (("folds", "val"), ("", "val"))
    for name in ("a/b", "a b", "ä"):
        with pytest.raises(UsageError):
            check_set_name(name)
        with pytest.raises(UsageError):
            check_split_name(name)
