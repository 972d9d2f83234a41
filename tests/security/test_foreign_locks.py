"""A lock that came with a dataset, or that its holder left behind, keeps nobody from writing for good."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.main import get_command

from tests.build import a_dataset
from tests.cli.conftest import Wdsctl, wdsctl
from wdsctl.cli.app import build_full_app
from wdsctl.core.dataset.lock import LockHolder
from wdsctl.core.index.index import index

__all__ = ["wdsctl"]

FAR = LockHolder("another\x1b[2J", 7, "1", 0.0, "far", "wdsctl index d")


def a_locked_dataset(folder: Path, *, ahead: float = 0.0) -> Path:
    a_dataset(folder, {"a.tar": {"1.txt": b"one", "2.txt": b"two"}})
    index(str(folder))
    lock = folder / ".wdsctl" / "lock"
    lock.write_text(json.dumps(asdict(FAR)))
    then = time.time() + ahead
    os.utime(lock, (then, then))
    return folder


WRITING = {
    "index": ("index", "ROOT"),
    "prepare": ("prepare", "ROOT"),
    "split": ("split", "ROOT", "1,1"),
    "validate": ("validate", "ROOT", "--quarantine"),
    "repair": ("repair", "ROOT", "--in-place", "--yes"),
    "convert": ("convert", "SOURCE", "ROOT", "--yes"),
    "catalog vacuum": ("catalog", "vacuum", "ROOT"),
}


def test_every_command_that_may_wait_for_a_lock_may_break_it() -> None:
    def commands(group: object, name: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for each, command in getattr(group, "commands", {}).items():
            found |= commands(command, f"{name} {each}".strip())
            found[f"{name} {each}".strip()] = {option for one in command.params for option in one.opts}
        return found

    every = commands(get_command(build_full_app()), "")
    assert {name for name, options in every.items() if "--wait" in options} == set(WRITING)
    assert {name for name, options in every.items() if "--break-lock" in options} == set(WRITING)


@pytest.mark.parametrize("command", ["index", "prepare", "split", "validate", "repair", "catalog vacuum"])
def test_a_foreign_lock_is_named_and_broken_on_request(wdsctl: Wdsctl, tmp_path: Path, command: str) -> None:
    root = a_locked_dataset(tmp_path / "d")
    words = [str(root) if word == "ROOT" else word for word in WRITING[command]]
    refused = wdsctl(*words)
    assert refused.code == 6
    assert "process 7 on another" in refused.stderr
    assert "--break-lock" in refused.stderr
    assert "\x1b" not in refused.stderr
    broken = wdsctl(*words, "--break-lock")
    assert broken.code in {0, 1}, broken.stderr
    assert "breaking the lock of another wdsctl: process 7 on another" in broken.stderr
    assert not (root / ".wdsctl" / "lock").exists()


def test_a_lock_with_a_heartbeat_in_the_far_future_blocks_nobody(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_locked_dataset(tmp_path / "d", ahead=10 * 365 * 86_400.0)
    assert wdsctl("index", root).code == 0
    assert wdsctl("inspect", root).code == 0
