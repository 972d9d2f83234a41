from __future__ import annotations

from pathlib import Path

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import Check, checks, forget_checks, note_checks


def test_the_last_result_of_a_shard_and_level_is_kept(tmp_path: Path) -> None:
    one, two = Check("a.tar", "content", b"m1", "[]"), Check("a.tar", "hashes", b"m2", "[1]")
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        note_checks(ledger, [one, two])
        note_checks(ledger, [one._replace(mark=b"m3")])
        note_checks(ledger, [])
        assert checks(ledger) == {("a.tar", "content"): one._replace(mark=b"m3"), ("a.tar", "hashes"): two}
        forget_checks(ledger, ["a.tar"])
        assert checks(ledger) == {}


def test_a_ledger_that_is_not_there_knows_of_nothing(tmp_path: Path) -> None:
    with Ledger.peek(str(tmp_path / "none.sqlite")) as ledger:
        assert checks(ledger) == {}
