from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import a_folder, an_image, some_shards
from wdsctl.core.catalog.open_catalog import CATALOG_SCHEMA_VERSION
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.index.catalog_check import catalog_check, catalog_info
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.index.vacuum import catalog_vacuum


@pytest.mark.usefixtures("place")
def test_catalog_info_reports_versions_counts_and_sizes(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(f"{root}/shard-00[01].tar", hashed=True, exclude=["x*"])
    report = catalog_info(root)
    files = {file.name: file for file in report.files}

    assert (report.schema_version, report.present_version, report.application_id) == (
        CATALOG_SCHEMA_VERSION,
        CATALOG_SCHEMA_VERSION,
        "0x57445343",
    )
    assert (report.shards, report.samples, report.hashed, report.generation) == (2, 10, 2, 1)
    assert (report.selection, report.exclude, report.generations) == ("glob:shard-00[01].tar", ("x*",), (1,))
    assert {table.name: table.rows for table in report.tables}["sample"] == 10
    assert files["catalog.sqlite"].size_bytes == Path(locate(root).catalog_path).stat().st_size
    assert (files["offsets-1.bin"].kind, files["offsets-1.bin"].generation) == ("offsets", 1)
    assert report.size_bytes == sum(file.size_bytes for file in report.files)


def test_catalog_info_without_catalog_raises(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="no catalog"):
        catalog_info(some_shards(tmp_path, 1))


@pytest.mark.parametrize("command", [catalog_info, catalog_check, catalog_vacuum])
def test_catalog_commands_on_raw_folder_hint_at_prepare(tmp_path: Path, command: Callable[[str], object]) -> None:
    root = a_folder(tmp_path, {"a.png": an_image("PNG")})
    with pytest.raises(InputError) as error:
        command(root)
    assert error.value.code == "WDS003"
    assert f"`wdsctl prepare {root} DEST`" in error.value.hint


def test_catalog_commands_support_media_folder(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.png": an_image("PNG"), "b.png": an_image("PNG")})
    index_media_folder(root, media=MediaRequest(selection="auto"))

    assert {table.name: table.rows for table in catalog_info(root).tables}["file"] == 2
    assert catalog_check(root).findings == ()
    assert catalog_vacuum(root).rows == {}
    assert catalog_check(root).findings == ()
