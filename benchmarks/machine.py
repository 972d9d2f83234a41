"""What the figures were taken on: processor, cores, memory, versions. Never the machine's name or a path of it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.places import PEERS_PYTHON, WDSCTL_PYTHON

OUR_PACKAGES = ("wdsctl", "torch", "numpy", "pillow", "simplejpeg", "sqlalchemy")
PEER_PACKAGES = ("megatron-energon", "webdataset", "mosaicml-streaming", "litdata", "torch", "numpy", "pillow")

_ASK = """
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        print(name, version(name))
    except PackageNotFoundError:
        print(name, "absent")
"""


def machine() -> dict[str, str]:
    """The hardware and the system, in words."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_gib:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, dict[str, str]]:
    """Package versions of the environment under test (`ours`) and of the peers', if that was built."""
    peers = _versions(PEERS_PYTHON, PEER_PACKAGES) if PEERS_PYTHON.exists() else {}
    return {"ours": _versions(WDSCTL_PYTHON, OUR_PACKAGES), "peers": peers}


def _versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    answer = subprocess.run([str(python), "-c", _ASK, *packages], check=True, capture_output=True, text=True)
    return dict(line.split(" ", 1) for line in answer.stdout.splitlines())


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
