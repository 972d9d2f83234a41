from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.convert.groups import SampleGrouper, folder_name
from wdsctl.core.errors import StorageDown, UsageError
from wdsctl.core.importers.protocol import Part, SampleListing, Source


@given(st.text(min_size=1))
def test_folder_name_is_valid_for_any_value(value: str) -> None:
    name = folder_name(value)
    assert name
    assert not name.startswith(".")
    assert not set("/\0\n\\") & set(name)
    assert len(name.encode()) <= 255


@given(st.lists(st.text("ab./%é", min_size=1, max_size=3), unique=True, min_size=2))
def test_folder_name_differs_for_different_values(values: list[str]) -> None:
    assert len(set(map(folder_name, values))) == len(values)


@pytest.mark.parametrize("by", ["", "colour", "json", "json:", "split:x"])
def test_unknown_grouping_is_refused(by: str) -> None:
    with pytest.raises(UsageError):
        SampleGrouper(by)


class SourceWithStorageDown:
    """A source whose storage does not answer."""

    def read(self, place: int) -> tuple[Part, ...]:
        raise StorageDown(f"no route to sample {place}", hint="wait")


def test_storage_down_is_raised_and_not_read_as_missing_field() -> None:
    with pytest.raises(StorageDown):
        SampleGrouper("json:label").group_number(cast("Source", SourceWithStorageDown()), 0, SampleListing(0, "a", ()))
