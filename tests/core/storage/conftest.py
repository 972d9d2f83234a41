from __future__ import annotations

import pytest

from wdsctl.core.storage import remote_errors


@pytest.fixture(autouse=True)
def no_store_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test counts the tries of a store that is new to it."""
    monkeypatch.setattr(remote_errors, "_answering_stores", set())
