from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.build import some_shards, tree
from tests.core.catalog.test_schema import rebuilt
from tests.core.dumps import catalog_of, query
from wdsctl.core.catalog.identity import VERSION
from wdsctl.core.verbs.catalog_migrate import catalog_migrate
from wdsctl.core.verbs.index import index


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_older_catalog_is_brought_to_the_present_schema_in_its_generation(tmp_path: Path, version: int) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    (tmp_path / "old").mkdir()
    shutil.copy(rebuilt(tmp_path / "old", version), catalog_of(tmp_path))
    before = query(catalog_of(tmp_path), "SELECT value FROM meta WHERE key IN ('generation', 'uuid') ORDER BY key")
    untouched = tree(root)
    foretold = catalog_migrate(root, dry_run=True)
    assert tree(root) == untouched
    report = catalog_migrate(root)

    assert (foretold.was, foretold.now) == (report.was, report.now) == (version, VERSION)
    assert query(catalog_of(tmp_path), "PRAGMA user_version") == [(VERSION,)]
    assert (
        query(catalog_of(tmp_path), "SELECT value FROM meta WHERE key IN ('generation', 'uuid') ORDER BY key") == before
    )
    assert catalog_migrate(root).up_to_date
