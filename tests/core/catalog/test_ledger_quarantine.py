from __future__ import annotations

from pathlib import Path

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import (
    QuarantineEntry,
    add_to_quarantine,
    delete_quarantine_entries,
    read_quarantine,
)

ONE = QuarantineEntry(shard="a.tar", layout_hash="x", position=3, key="k", code="WDS121", run_id=1)
WHOLE = QuarantineEntry(shard="b.tar", layout_hash="y", code="WDS101", run_id=1)


def test_add_to_quarantine_ignores_duplicates(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        assert add_to_quarantine(ledger, [WHOLE, ONE]) == 2
        duplicate = QuarantineEntry(shard="a.tar", layout_hash="x", position=3, key="k", code="WDS121", run_id=7)
        assert add_to_quarantine(ledger, [duplicate, duplicate]) == 0
        assert read_quarantine(ledger) == [ONE, WHOLE]


def test_delete_quarantine_entries_by_shard_or_all(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        add_to_quarantine(ledger, [ONE, WHOLE])
        assert delete_quarantine_entries(ledger, shards=["c.tar"]) == 0
        assert delete_quarantine_entries(ledger, shards=["a.tar"]) == 1
        assert read_quarantine(ledger) == [WHOLE]
        assert delete_quarantine_entries(ledger) == 1
        assert read_quarantine(ledger) == []


def test_quarantine_of_missing_ledger_is_empty(tmp_path: Path) -> None:
    with Ledger.open_for_reading(str(tmp_path / "none.sqlite")) as ledger:
        assert read_quarantine(ledger) == []
