"""Which process something was begun by, in a way that a later process can ask whether it still runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any


def mark() -> dict[str, Any]:
    """This process, as JSON: host, pid, when it was born, and the boot and pid namespace that the pid is of."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "born": born(pid), "space": space()}


def is_running(marked: Mapping[str, Any]) -> bool | None:
    """Whether a process still runs; None where that cannot be told from here, as on another machine."""
    if marked.get("host") != socket.gethostname() or not isinstance(marked.get("pid"), int):
        return None
    if born(marked["pid"]) == marked.get("born") != "":
        return True
    return False if marked.get("space") == space() else None


def space() -> str:
    """Names the boot and the pid namespace in which pids mean what they mean here; empty elsewhere than on Linux."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def born(pid: int) -> str:
    """When a process started, in its kernel's clock ticks; empty if there is none. Elsewhere than on Linux: its pid."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            facts = file.read().rsplit(")", 1)[1].split()
        # A dead process that nobody has waited for is still listed: in containers, often for good.
        return "" if facts[0] in "ZX" else facts[19]
    except (FileNotFoundError, ProcessLookupError):
        if os.path.isdir("/proc/self"):
            return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return str(pid)
    return str(pid)
