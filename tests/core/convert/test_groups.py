from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.convert.groups import SampleGrouper, folder_name
from wdsctl.core.errors import StorageDown, UsageError
from wdsctl.core.importers.protocol import Part, SampleListing, Source


@given(st.text(min_size=1))
def test_any_value_names_a_folder_beside_the_others(value: str) -> None:
    name = folder_name(value)
    assert name
    assert not name.startswith(".")
    assert not set("/\0\n\\") & set(name)
    assert len(name.encode()) <= 255


@given(st.lists(st.text("ab./%é", min_size=1, max_size=3), unique=True, min_size=2))
def test_different_values_have_different_folders(values: list[str]) -> None:
    assert len(set(map(folder_name, values))) == len(values)


@pytest.mark.parametrize("by", ["", "colour", "json", "json:", "split:x"])
def test_ways_that_there_are_not_are_refused(by: str) -> None:
    with pytest.raises(UsageError):
        SampleGrouper(by)


class NotThere:
    """A source whose storage does not answer."""

    def read(self, place: int) -> tuple[Part, ...]:
        raise StorageDown(f"no route to sample {place}", hint="wait")


def test_samples_of_a_storage_that_is_down_are_not_taken_for_samples_without_the_field() -> None:
    with pytest.raises(StorageDown):
        SampleGrouper("json:label").group_number(cast("Source", NotThere()), 0, SampleListing(0, "a", ()))
