"""What a killed export leaves, and what the next one does with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import a_dataset, samples
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.split.request import parse_split_request
from wdsctl.core.split.split import split_dataset

KILLED = """
import os, signal, sys
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.progress import SilentProgress
class Killing(SilentProgress):
    def advance(self, *_, **__):
        os.kill(os.getpid(), signal.SIGKILL)
export(sys.argv[1], ExportRequest(target="energon"), progress=Killing())
"""


def a_root(tmp_path: Path) -> str:
    root = a_dataset(tmp_path / "a", {f"part/s-{i}.tar": samples(4 * i, 4) for i in range(3)})
    index(root)
    split_dataset(root, parse_split_request(ratios="train=2,val=1", by="shard"))
    return root


def left(root: str) -> list[str]:
    return sorted(path.name for path in Path(root).rglob("*") if path.name.endswith((".partial", ".lock")))


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    before = left(root)
    done = subprocess.run([sys.executable, "-c", KILLED, root], check=False)
    assert done.returncode == -signal.SIGKILL
    assert any(name.startswith("..nv-meta.") for name in left(root))

    export(root, ExportRequest(target="energon"))

    assert left(root) == before


def test_drafts_of_others_stay(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    names = [".README.md.7.partial", "part/.s-0.tar.idx.7.partial", ".index-train.json.7.partial"]
    others = [".mine.7.partial", ".dataset.yaml.7.partial", "README.md.7.partial"]
    for name in (*names, *others):
        Path(root, name).touch()

    export(root, ExportRequest(target="hub"))

    assert left(root) == sorted(others)


def test_two_exports_into_one_folder_do_not_run_at_once(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    with hold_lock(os.path.join(root, ".wdsctl-export.lock")), pytest.raises(CatalogError) as caught:
        export(root, ExportRequest(target="wids"))
    assert caught.value.code == "WDS304"
