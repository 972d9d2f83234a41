from __future__ import annotations

from pathlib import Path

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import CheckReach, StoredCheck, expire_checks, read_checks, store_checks


def a_check(
    shard: str = "a.tar", level: str = "content", reach: CheckReach = "all", mark: bytes = b"m1", findings: str = "[]"
) -> StoredCheck:
    return StoredCheck(shard, level, reach, "l", mark, findings)


def known(ledger: Ledger) -> list[StoredCheck]:
    return [check for _, check in sorted(read_checks(ledger).items())]


def test_the_last_result_of_a_shard_and_level_is_kept(tmp_path: Path) -> None:
    one, two = a_check(), a_check(level="hashes", findings="[1]")
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        store_checks(ledger, [one, two])
        store_checks(ledger, [one._replace(mark=b"m3")])
        store_checks(ledger, [])
        assert known(ledger) == [one._replace(mark=b"m3"), two]


def test_some_samples_stand_beside_all_of_them_until_all_are_looked_at_again(tmp_path: Path) -> None:
    whole, some, unread = a_check(), a_check(reach="some", mark=b"s"), a_check(reach="none", mark=b"")
    other = a_check(reach="some", mark=b"t")
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        for each in (whole, some, unread, other):
            store_checks(ledger, [each])
        assert known(ledger) == [whole, unread, other]
        store_checks(ledger, [whole])
        assert known(ledger) == [whole]


def test_what_is_to_be_looked_for_again_stays_known(tmp_path: Path) -> None:
    one, two = a_check(level="hashes", findings="[1]"), a_check(shard="b.tar", level="hashes")
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        store_checks(ledger, [one, two])
        expire_checks(ledger, "content", ["a.tar"])
        expire_checks(ledger, "hashes", ["a.tar", "c.tar"])
        assert known(ledger) == [one._replace(mark=b""), two]


def test_a_ledger_that_is_not_there_knows_of_nothing(tmp_path: Path) -> None:
    with Ledger.open_for_reading(str(tmp_path / "none.sqlite")) as ledger:
        assert read_checks(ledger) == {}
