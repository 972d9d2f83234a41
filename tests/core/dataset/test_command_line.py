from __future__ import annotations

import pytest

from wdsctl.core.dataset.location import DatasetLocation, shell_command, shell_command_at, shell_command_for_file


def test_shell_command_quotes_arguments() -> None:
    assert shell_command("validate", "my data") == "`wdsctl validate 'my data'`"


def test_shell_command_ends_options_before_operand_with_dash() -> None:
    assert shell_command("get", "data", "--part", "txt", operands=["7"]) == "`wdsctl get data --part txt 7`"
    assert shell_command("get", "data", "--part", "txt", operands=["-x"]) == "`wdsctl get data --part txt -- -x`"


@pytest.mark.parametrize(
    ("meta", "expected"),
    [("/data/.wdsctl", "`wdsctl index /data --rebuild`"), ("/x", "`wdsctl index /data --rebuild --catalog /x`")],
)
def test_shell_command_names_catalog_outside_dataset(meta: str, expected: str) -> None:
    assert shell_command_at(DatasetLocation("/data", meta), "index", "--rebuild") == expected


def test_shell_command_for_file_names_dataset_of_catalog() -> None:
    assert shell_command_for_file("/my data/.wdsctl/catalog.sqlite", "index") == "`wdsctl index '/my data'`"
    assert shell_command_for_file("/x/catalog.sqlite", "index", "--rebuild") == (
        "`wdsctl index DATASET --rebuild --catalog /x`"
    )
