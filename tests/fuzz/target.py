"""What a fuzz target is, and the folder that targets write into."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """`run` raises if something does not hold. `sound` builds valid inputs."""

    run: Callable[[bytes], None]
    sound: Callable[[], Sequence[bytes]] = tuple


@cache
def work_folder() -> str:
    """A folder in memory if possible, as targets write thousands of files a second. It is removed at the exit."""
    folder = tempfile.mkdtemp(prefix="wdsctl-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)  # noqa: S108
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_file(name: str, data: bytes) -> str:
    path = os.path.join(work_folder(), name)
    Path(path).write_bytes(data)
    return path
