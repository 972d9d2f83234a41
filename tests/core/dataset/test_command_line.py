from __future__ import annotations

import pytest

from wdsctl.core.dataset.location import DatasetLocation, shell_command, shell_command_at, shell_command_for_file


def test_a_command_is_quoted_for_a_shell() -> None:
    assert shell_command("validate", "my data") == "`wdsctl validate 'my data'`"


@pytest.mark.parametrize(
    ("meta", "said"),
    [("/data/.wdsctl", "`wdsctl index /data --rebuild`"), ("/x", "`wdsctl index /data --rebuild --catalog /x`")],
)
def test_a_catalog_that_is_kept_elsewhere_is_named(meta: str, said: str) -> None:
    assert shell_command_at(DatasetLocation("/data", meta), "index", "--rebuild") == said


def test_a_file_of_a_catalog_tells_its_dataset_where_it_lies_in_it() -> None:
    assert shell_command_for_file("/my data/.wdsctl/catalog.sqlite", "index") == "`wdsctl index '/my data'`"
    assert shell_command_for_file("/x/catalog.sqlite", "index", "--rebuild") == (
        "`wdsctl index DATASET --rebuild --catalog /x`"
    )
