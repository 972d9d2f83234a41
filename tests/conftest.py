"""What all tests stand on."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shell starts what it runs in the background with Ctrl-C ignored, and every process below inherits that: tests of
# Ctrl-C would wait for one that never comes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nobody's configuration is part of a test, nor of what a test starts.
for _name in [name for name in os.environ if name.startswith("WDSCTL_")]:
    del os.environ[_name]
os.environ["XDG_CONFIG_HOME"] = os.path.join(tempfile.gettempdir(), "wdsctl-tests-have-no-configuration")

# How long an example takes says something of the machine only, and of what else it does.
settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture
def faulty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty store under `faulty://` that does nothing wrong yet, and a place of its own for catalogs."""
    from tests.remote import FaultyFileSystem

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    FaultyFileSystem.reset()
    yield
    FaultyFileSystem.reset()


@pytest.fixture
def delayed_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty store under `delayed://` without a delay yet, and a place of its own for catalogs."""
    from tests.remote import DelayedFileSystem

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    DelayedFileSystem.reset()
    yield
    DelayedFileSystem.reset()
