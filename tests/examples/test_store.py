from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import children

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_make_demo_store_succeeds() -> None:
    completed = children.run(
        [sys.executable, str(ROOT / "examples" / "demo_store.py"), "--steps", "30"],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        parent="training",
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "yes: on both ranks, steps 11 to 30" in completed.stdout
    assert completed.stdout.count("8 shards, 400 samples") == 4
