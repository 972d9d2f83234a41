"""Fixtures for tests of permissions and full disks. Tests may run as root, and root may read everything."""

from __future__ import annotations

import codecs
import os
import pickle
import shutil
import subprocess
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.warm_parent import import_modules

NOBODY = 65534


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A temporary folder that other users may enter; they may not enter tmp_path."""
    path = Path(tempfile.mkdtemp(prefix="wdsctl-"))
    path.chmod(0o777)
    yield path
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def a_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system of a size such as `2m`; skips the test if mounting is not allowed."""
    mount_point = tmp_path / "disk"

    def mount(size: str) -> Path:
        mount_point.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mount_point)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
        return mount_point

    yield mount
    if mount_point.is_mount():
        subprocess.run(["umount", str(mount_point)], check=True)


@pytest.fixture
def as_nobody() -> Callable[[Callable[[], Any]], Any]:
    """Calls a function as a user who owns nothing; returns its result or the exception it raised."""
    return _as_nobody


def _as_nobody(fn: Callable[[], Any]) -> Any:
    if os.geteuid() != 0:
        return _outcome(fn)
    # Another user cannot read this user's modules, so what `fn` needs is imported before.
    import_modules(["wdsctl.core"])
    for encoding in ("ascii", "idna", "latin-1", "utf-16"):
        codecs.lookup(encoding)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries; the child only runs `fn`
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(write, pickle.dumps(_outcome(fn)))
        except BaseException:  # noqa: BLE001 - the child must never continue as a second pytest
            traceback.print_exc()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    if not output:
        pytest.skip("cannot become another user here")
    return pickle.loads(output)  # noqa: S301 - our own child


def _outcome(fn: Callable[[], Any]) -> Any:
    try:
        return fn()
    except Exception as error:  # noqa: BLE001 - returned to the test, which checks it
        return error
