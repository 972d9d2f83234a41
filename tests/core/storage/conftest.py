from __future__ import annotations

import pytest

from wdsctl.core.storage import remote_errors


@pytest.fixture(autouse=True)
def reset_answering_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets which stores have answered, as this changes the number of tries."""
    monkeypatch.setattr(remote_errors, "_answering_stores", set())
