from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.build import RecordingProgress
from tests.cli.conftest import Wdsctl
from wdsctl.cli.progress import PHASE_NOUNS
from wdsctl.core.index.catalog_check import catalog_check


def test_catalog_info_prints_summary_within_80_columns(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("catalog", "info", shards)
    document = wdsctl("catalog", "info", shards, "--json").document

    assert result.code == 0
    assert "10 shards, 30 samples" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()[1:]) <= 80
    assert (document["command"], document["generation"], document["samples"]) == ("catalog info", 1, 30)


def test_catalog_check_exits_with_1_on_damage(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    sound = wdsctl("catalog", "check", shards)
    with closing(sqlite3.connect(shards / ".wdsctl" / "catalog.sqlite")) as connection, connection:
        connection.execute("DELETE FROM sample WHERE id % 3 = 1")
    broken = wdsctl("catalog", "check", shards)

    assert (sound.code, broken.code) == (0, 1)
    assert "counts agree with rows          10 wrong" in broken.stdout
    assert wdsctl("catalog", "check", shards, "--json").document["findings"]


def test_catalog_vacuum_removes_damaged_files_only_with_yes(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    (shards / ".wdsctl" / "catalog.sqlite.damaged-1").write_bytes(b"x")
    dry_run = wdsctl("catalog", "vacuum", shards, "--dry-run")
    kept = wdsctl("catalog", "vacuum", shards)
    removed = wdsctl("catalog", "vacuum", shards, "--yes")

    assert (dry_run.code, kept.code, removed.code) == (0, 0, 0)
    assert "--yes also removes 1 damaged file (1 B)" in kept.stdout
    assert not (shards / ".wdsctl" / "catalog.sqlite.damaged-1").exists()


def test_catalog_command_fails_without_catalog_or_subcommand(wdsctl: Wdsctl, shards: Path) -> None:
    assert wdsctl("catalog", "info", shards).code == 6
    assert wdsctl("catalog").code == 2


def test_catalog_check_progress_counts_checks(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    progress = RecordingProgress()
    catalog_check(str(shards), progress=progress)

    assert [(PHASE_NOUNS[name], items) for name, items, _ in progress.phases] == [("checks", 8)]
