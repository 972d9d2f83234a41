from __future__ import annotations

import pytest

from wdsctl.core.command_line import command, command_at, command_beside
from wdsctl.core.place import Place


def test_a_command_is_quoted_for_a_shell() -> None:
    assert command("validate", "my data") == "`wdsctl validate 'my data'`"


@pytest.mark.parametrize(
    ("meta", "said"),
    [("/data/.wdsctl", "`wdsctl index /data --rebuild`"), ("/x", "`wdsctl index /data --rebuild --catalog /x`")],
)
def test_a_catalog_that_is_kept_elsewhere_is_named(meta: str, said: str) -> None:
    assert command_at(Place("/data", meta), "index", "--rebuild") == said


def test_a_file_of_a_catalog_tells_its_dataset_where_it_lies_in_it() -> None:
    assert command_beside("/my data/.wdsctl/catalog.sqlite", "index") == "`wdsctl index '/my data'`"
    assert command_beside("/x/catalog.sqlite", "index", "--rebuild") == (
        "`wdsctl index DATASET --rebuild --catalog /x`"
    )
