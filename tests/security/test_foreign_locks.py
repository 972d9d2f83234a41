"""A lock that is part of a dataset, or was left behind by its holder, does not block writing for ever."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import closing
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

HOLDER = LockHolder("another\x1b[2J", 7, "1", 0.0, "far", "wdsctl index d")


def a_locked_dataset(folder: Path, *, ahead: float = 0.0) -> Path:
    make_shard(folder)
    index(str(folder))
    return plant_lock(folder, ahead=ahead)


def make_shard(folder: Path) -> None:
    a_dataset(folder, {"a.tar": {"1.txt": b"one", "2.txt": b"two"}})


def plant_lock(folder: Path, *, ahead: float = 0.0) -> Path:
    lock = folder / ".wdsctl" / "lock"
    lock.write_text(json.dumps(asdict(HOLDER)))
    modified = time.time() + ahead
    os.utime(lock, (modified, modified))
    return folder


WRITE_COMMANDS = {
    "index": ("index", "ROOT"),
    "prepare": ("prepare", "ROOT"),
    "split": ("split", "ROOT", "1,1"),
    "validate": ("validate", "ROOT", "--quarantine"),
    "repair": ("repair", "ROOT", "--in-place", "--yes"),
    "convert": ("convert", "SOURCE", "ROOT", "--yes"),
    "catalog vacuum": ("catalog", "vacuum", "ROOT"),
}


def test_commands_with_wait_option_have_break_lock_option() -> None:
    def commands(group: object, name: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for each, command in getattr(group, "commands", {}).items():
            found |= commands(command, f"{name} {each}".strip())
            found[f"{name} {each}".strip()] = {option for parameter in command.params for option in parameter.opts}
        return found

    options_by_command = commands(get_command(build_full_app()), "")
    assert {name for name, options in options_by_command.items() if "--wait" in options} == set(WRITE_COMMANDS)
    assert {name for name, options in options_by_command.items() if "--break-lock" in options} == set(WRITE_COMMANDS)


@pytest.mark.parametrize("command", WRITE_COMMANDS)
def test_foreign_lock_is_reported_and_broken_on_request(wdsctl: Wdsctl, tmp_path: Path, command: str) -> None:
    root, source = tmp_path / "d", tmp_path / "source"
    values = {"ROOT": str(root), "SOURCE": str(source)}
    arguments = [values.get(word, word) for word in WRITE_COMMANDS[command]]
    if command == "convert":
        make_shard(source)
        assert wdsctl(*arguments).code == 0
        plant_lock(root)
    else:
        a_locked_dataset(root)
    refused = wdsctl(*arguments)
    assert refused.code == 6
    assert "process 7 on another" in refused.stderr
    assert "--break-lock" in refused.stderr
    assert "\x1b" not in refused.stderr
    broken = wdsctl(*arguments, "--break-lock")
    assert broken.code in {0, 1}, broken.stderr
    assert "breaking the lock of another wdsctl: process 7 on another" in broken.stderr
    assert not (root / ".wdsctl" / "lock").exists()


def test_lock_with_heartbeat_in_far_future_does_not_block(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_locked_dataset(tmp_path / "d", ahead=10 * 365 * 86_400.0)
    assert wdsctl("index", root).code == 0
    assert wdsctl("inspect", root).code == 0


def test_socket_in_place_of_lock_is_replaced(wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_shard(tmp_path / "d")
    index(str(tmp_path / "d"))
    monkeypatch.chdir(tmp_path / "d" / ".wdsctl")  # the path of a socket is short
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind("lock")
    refused = wdsctl("split", tmp_path / "d", "train=1")
    assert refused.code == 0, refused.stderr
    assert not os.path.lexists("lock")
