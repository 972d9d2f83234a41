from __future__ import annotations

from pathlib import Path

from tests.build import some_shards, tree
from tests.core.dumps import catalog_of
from wdsctl.core.index.index import index


def test_rebuild_dry_run_reports_result_for_damaged_catalog(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    Path(catalog_of(tmp_path)).write_bytes(b"rubbish" * 999)
    before = tree(root)
    report = index(root, rebuild=True, dry_run=True)
    assert (report.added, report.shards, report.media) == (2, 2, None)
    assert tree(root) == before
