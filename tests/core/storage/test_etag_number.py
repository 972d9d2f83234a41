from __future__ import annotations

from datetime import datetime, timezone

from wdsctl.core.storage.remote_errors import etag_number


def test_etag_number_depends_on_etag_not_on_time() -> None:
    first = {"ETag": '"abc"', "LastModified": datetime(2026, 1, 1, tzinfo=timezone.utc)}
    later = {"ETag": '"abc"', "LastModified": datetime(2026, 2, 1, tzinfo=timezone.utc)}

    assert etag_number(first) == etag_number(later) != etag_number({"ETag": '"abd"'})
    assert 0 <= etag_number(first) < 1 << 63


def test_etag_number_falls_back_to_modification_time() -> None:
    assert etag_number({"mtime": 1.5}) == 1_500_000_000
    assert etag_number({"created": datetime(1970, 1, 1, 0, 0, 2, 5, tzinfo=timezone.utc)}) == 2_000_005_000
    assert etag_number({"size": 3}) == 0
