"""find_fork_unsafe names the store clients that a forked process cannot use."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from wdsctl.core.storage.open import find_fork_unsafe


def test_find_fork_unsafe_names_client_with_threads_once_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    roots = ["/data", "s3://bucket/x", "msc://profile/x"]
    monkeypatch.delitem(sys.modules, "multistorageclient", raising=False)
    assert find_fork_unsafe(roots) == ""

    monkeypatch.setitem(sys.modules, "multistorageclient", ModuleType("multistorageclient"))
    assert find_fork_unsafe(roots) == "msc"
    assert find_fork_unsafe(roots[:2]) == ""
