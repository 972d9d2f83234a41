"""No command treats the shards of an interrupted `prepare` as a complete dataset."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import a_folder, an_image
from tests.prepare_requests import prepare_request
from wdsctl.core.dataset.root_spec import RootSpec
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index_dataset
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.invocation import recording_invocation
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.progress import SilentProgress

SAMPLES = 40


class InterruptingProgress(SilentProgress):
    """Raises KeyboardInterrupt after three steps that write bytes."""

    steps_left = 3

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        self.steps_left -= bool(size_bytes)
        if self.steps_left < 0:
            raise KeyboardInterrupt


def raw_folder(root: Path) -> str:
    files = {f"{i:03d}.jpg": an_image("JPEG", size=(8 + i, 8)) for i in range(SAMPLES)}
    a_folder(root, files | {f"{i:03d}.txt": b"text" for i in range(SAMPLES)})
    return str(root)


def table(root: Path) -> str:
    raw_folder(root)
    with open(root / "table.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "caption"])
        writer.writerows([f"{i:03d}.jpg", f"text {i}"] for i in range(SAMPLES))
    for path in root.glob("*.txt"):
        path.unlink()
    return str(root / "table.csv")


@pytest.mark.parametrize("make_source", [raw_folder, table])
def test_only_interrupted_prepare_continues_partial_dataset(make_source: Callable[[Path], str], tmp_path: Path) -> None:
    source, dest = make_source(tmp_path / "raw"), str(tmp_path / "out")
    request = prepare_request(shard_samples=2)
    with recording_invocation("prepare", [source, dest]), pytest.raises(KeyboardInterrupt):
        prepare(source, dest, request, progress=InterruptingProgress())
    written = len(list(Path(dest).glob("*.tar")))
    assert 0 < written < SAMPLES // 2

    commands: list[Callable[[], object]] = [
        lambda: prepare(dest, None, prepare_request()),
        lambda: index_dataset(RootSpec(dest), IndexRequest()),
        lambda: inspect(dest),
    ]
    for command in commands:
        with pytest.raises(CatalogError, match=f"wdsctl prepare {source} {dest}") as caught:
            command()
        assert caught.value.code == "WDS301"

    report = prepare(source, dest, request)
    assert report.index is not None
    assert report.index.samples == SAMPLES
    reindexed = prepare(dest, None, prepare_request()).index
    assert reindexed is not None
    assert reindexed.samples == SAMPLES
