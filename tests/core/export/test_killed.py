"""Partial files of a killed export, and how the next export removes them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import children
from tests.build import a_dataset, samples
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset

KILLED = """
import os, signal, sys
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.progress import SilentProgress
class Killing(SilentProgress):
    def advance(self, *_, **__):
        os.kill(os.getpid(), signal.SIGKILL)
export(ExportRequest(root=sys.argv[1], target="energon"), progress=Killing())
"""


def a_root(tmp_path: Path) -> str:
    root = a_dataset(tmp_path / "a", {f"part/s-{i}.tar": samples(4 * i, 4) for i in range(3)})
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=2,val=1", by="shard")))
    return root


def list_leftovers(root: str) -> list[str]:
    return sorted(path.name for path in Path(root).rglob("*") if path.name.endswith((".partial", ".lock")))


def test_next_export_removes_partial_files_of_killed_export(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    before = list_leftovers(root)
    process = children.run([sys.executable, "-c", KILLED, root], check=False)
    assert process.returncode == -signal.SIGKILL
    assert any(name.startswith("..nv-meta.") for name in list_leftovers(root))

    export(ExportRequest(root=root, target="energon"))

    assert list_leftovers(root) == before


def test_partial_files_of_others_are_kept(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    names = [".README.md.7.partial", "part/.s-0.tar.idx.7.partial", ".index-train.json.7.partial"]
    others = [".mine.7.partial", ".dataset.yaml.7.partial", "README.md.7.partial"]
    for name in (*names, *others):
        Path(root, name).touch()

    export(ExportRequest(root=root, target="hub"))

    assert list_leftovers(root) == sorted(others)


def test_concurrent_exports_into_one_folder_are_refused(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    with hold_lock(os.path.join(root, ".wdsctl-export.lock")), pytest.raises(CatalogError) as caught:
        export(ExportRequest(root=root, target="wids"))
    assert caught.value.code == "WDS304"
