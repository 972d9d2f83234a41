"""Start-up is part of the design: help comes at once, because it loads nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "sqlalchemy", "numpy", "PIL", "av", "yaml", "fsspec", "webdataset", "simplejpeg", "sqlite3")


def modules_after(*argv: str) -> set[str]:
    """What a fresh interpreter has loaded after `main(argv)`."""
    program = f"""
import sys
from wdsctl.cli.main import main
main({list(argv)!r})
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()} | {n for n in done.stderr.split() if "wdsctl" in n}


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], ["explain", "WDS102"], ["prepare", "--help"], ["index", "--help"]]
)
def test_help_and_explain_load_nothing_heavy(argv: list[str]) -> None:
    loaded = modules_after(*argv)
    assert loaded.isdisjoint(HEAVY)
    assert not any(name.startswith(("wdsctl.loader", "wdsctl.core.verbs", "wdsctl.core.catalog")) for name in loaded)


def test_help_draws_nothing_with_rich() -> None:
    assert "rich" not in modules_after("--help")
