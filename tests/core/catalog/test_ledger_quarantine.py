from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_quarantine import Quarantined, add_to_quarantine, quarantined, release

ONE = Quarantined(shard="a.tar", layout_hash="x", place=3, key="k", code="WDS121", run_id=1)
WHOLE = Quarantined(shard="b.tar", layout_hash="y", code="WDS101", run_id=1)


def test_what_is_put_in_comes_out_once(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        assert add_to_quarantine(ledger, [WHOLE, ONE]) == 2
        again = Quarantined(shard="a.tar", layout_hash="x", place=3, key="k", code="WDS121", run_id=7)
        assert add_to_quarantine(ledger, [again, again]) == 0
        assert quarantined(ledger) == [ONE, WHOLE]


def test_it_is_released_by_shard_or_all_at_once(tmp_path: Path) -> None:
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        add_to_quarantine(ledger, [ONE, WHOLE])
        assert release(ledger, shards=["c.tar"]) == 0
        assert release(ledger, shards=["a.tar"]) == 1
        assert quarantined(ledger) == [WHOLE]
        assert release(ledger) == 1
        assert quarantined(ledger) == []


def test_an_older_ledger_has_nothing_in_quarantine(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.sqlite")
    Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE quarantine")
        connection.commit()
    with Ledger.peek(path) as ledger:
        assert quarantined(ledger) == []
    with Ledger.peek(str(tmp_path / "none.sqlite")) as ledger:
        assert quarantined(ledger) == []
