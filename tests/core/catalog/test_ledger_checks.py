from __future__ import annotations

from pathlib import Path
from typing import cast

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import CheckReach, StoredCheck, expire_checks, read_checks, store_checks


def a_check(
    shard: str = "a.tar", level: str = "content", reach: CheckReach = "all", mark: bytes = b"m1", findings: str = "[]"
) -> StoredCheck:
    return StoredCheck(shard, level, reach, "l", mark, findings)


def list_checks(ledger: Ledger) -> list[StoredCheck]:
    return [check for _, check in sorted(read_checks(ledger).items())]


def test_store_checks_keeps_last_result_per_shard_and_level(tmp_path: Path) -> None:
    one, two = a_check(), a_check(level="hashes", findings="[1]")
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        store_checks(ledger, [one, two])
        store_checks(ledger, [one._replace(mark=b"m3")])
        store_checks(ledger, [])
        assert list_checks(ledger) == [one._replace(mark=b"m3"), two]


def test_check_of_unreadable_shard_is_kept_until_next_full_check(tmp_path: Path) -> None:
    whole, unread = a_check(), a_check(reach="none", mark=b"")
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        for each in (whole, unread):
            store_checks(ledger, [each])
        assert list_checks(ledger) == [whole, unread]
        store_checks(ledger, [whole])
        assert list_checks(ledger) == [whole]


def test_check_of_some_samples_of_old_version_is_ignored(tmp_path: Path) -> None:
    whole, some = a_check(), a_check(reach=cast(CheckReach, "some"), mark=b"s")
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        store_checks(ledger, [whole, some])
        assert list_checks(ledger) == [whole]


def test_expire_checks_keeps_findings(tmp_path: Path) -> None:
    one, two = a_check(level="hashes", findings="[1]"), a_check(shard="b.tar", level="hashes")
    with Ledger.open(str(tmp_path / "ledger.sqlite")) as ledger:
        store_checks(ledger, [one, two])
        expire_checks(ledger, "content", ["a.tar"])
        expire_checks(ledger, "hashes", ["a.tar", "c.tar"])
        assert list_checks(ledger) == [one._replace(mark=b""), two]


def test_read_checks_of_missing_ledger_is_empty(tmp_path: Path) -> None:
    with Ledger.open_for_reading(str(tmp_path / "none.sqlite")) as ledger:
        assert read_checks(ledger) == {}
