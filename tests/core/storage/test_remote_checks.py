from __future__ import annotations

import pytest

from wdsctl.core.errors import StorageError
from wdsctl.core.storage.remote_errors import RemoteFileChecker

A, B = "s3://bucket/a.tar", "s3://bucket/b.tar"


def test_expected_file_is_checked_once_and_again_after_recheck_seconds() -> None:
    facts = {"size": 200, "ETag": "x"}
    rarely, always = RemoteFileChecker({A: 200}), RemoteFileChecker({A: 200}, recheck_seconds=0.0)

    for checks, due_later in ((rarely, []), (always, [A])):
        assert checks.files_due([B, A]) == [A]
        checks.check(A, facts)
        assert checks.files_due([B, A]) == due_later


def test_size_other_than_indexed_is_refused() -> None:
    with pytest.raises(StorageError, match="has 200 bytes, but had 199") as caught:
        RemoteFileChecker({A: 199}).check(A, {"size": 200})
    assert (caught.value.code, caught.value.where) == ("WDS403", A)


def test_replaced_file_of_same_size_is_refused_from_then_on() -> None:
    checks = RemoteFileChecker({A: 200}, recheck_seconds=0.0)
    checks.check(A, {"size": 200, "ETag": "x"})
    checks.check(A, {"size": 200, "ETag": "x"})

    for _ in range(2):
        with pytest.raises(StorageError, match="was replaced during the read") as caught:
            checks.check(A, {"size": 200, "ETag": "y"})
        assert caught.value.code == "WDS403"


def test_etags_of_https_servers_may_vary() -> None:
    checks = RemoteFileChecker({"https://host/a.tar": 200}, recheck_seconds=0.0)
    for etag in ("x", "y"):
        checks.check("https://host/a.tar", {"size": 200, "ETag": etag})
