"""A run publishes the catalog once and complete, however many steps write it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import children
from tests.build import a_dataset, a_folder, some_shards, tree
from tests.core.captioned import captions
from tests.core.dumps import catalog_of, dump, split_of
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest, MediaRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

REPO = Path(__file__).parents[3]

#: The program is killed when it is about to publish the catalog.
KILLED = """
import os, signal, sys
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

replace = os.replace
def die(source, target, **folders):
    if target == "catalog.sqlite":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target, **folders)
os.replace = die
prepare(sys.argv[1], sys.argv[2], PrepareRequest(shard_samples=2, split={"train": 8, "val": 2}))
"""

YAML = """version: 1
sample_type: CrudeSample
split_sets:
  folds: {shares: {train: 3, val: 1}, by: key}
exclude:
  shards: ["shard-001.tar"]
"""


@pytest.fixture
def published_catalogs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the published catalogs."""
    targets: list[str] = []
    original_replace = os.replace

    def replace(source: str, target: str, **folders: int) -> None:
        if os.path.basename(target) == "catalog.sqlite":
            targets.append(target)
        original_replace(source, target, **folders)

    monkeypatch.setattr(os, "replace", replace)
    return targets


def test_prepare_publishes_catalog_once_with_splits_and_media(tmp_path: Path, published_catalogs: list[str]) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 20))
    report = prepare(
        source,
        str(tmp_path / "made"),
        PrepareRequest(
            shard_samples=2, split={"train": 8, "val": 2}, index=IndexRequest(media=MediaRequest(selection="jpg"))
        ),
    )

    assert len(published_catalogs) == 1
    assert report.split is not None
    assert {split.name: split.samples for split in report.split.splits} == {"train": 16, "val": 4}
    assert report.index is not None
    assert report.index.media is not None
    assert report.index.media.state == "made"


def test_index_publishes_catalog_once_with_split_sets_exclude_and_media(
    tmp_path: Path, published_catalogs: list[str]
) -> None:
    root = some_shards(tmp_path, 4)
    (tmp_path / ".wdsctl").mkdir()
    (tmp_path / ".wdsctl" / "dataset.yaml").write_text(YAML)
    index(root, media=MediaRequest(selection="txt"))

    assert len(published_catalogs) == 1
    assert {path for path, _ in split_of(root)} == {"shard-000.tar", "shard-002.tar", "shard-003.tar"}


def test_run_killed_before_publishing_is_repeated_with_same_result(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", captions(0, 20))
    dest = str(tmp_path / "made")
    killed = children.run([sys.executable, "-c", KILLED, source, dest], cwd=REPO, check=False)

    assert killed.returncode == -signal.SIGKILL
    assert not catalog_of(dest).exists()
    options = PrepareRequest(shard_samples=2, split={"train": 8, "val": 2})
    prepare(source, dest, options)
    prepare(source, str(tmp_path / "other"), options)
    rows, other_rows = dump(dest), dump(tmp_path / "other")
    assert {name: rows[name] for name in rows if name != "shard"} == {
        name: other_rows[name] for name in other_rows if name != "shard"
    }
    assert not [name for name in tree(dest) if name.endswith(".partial")]


def test_index_is_published_even_if_split_is_refused(tmp_path: Path, published_catalogs: list[str]) -> None:
    root = a_dataset(tmp_path, {"a.tar": captions(0, 1)})
    with pytest.raises(UsageError) as caught:
        prepare(root, request=PrepareRequest(split={"train": 1, "val": 1}))

    assert caught.value.code == "WDS210"
    assert len(published_catalogs) == 1
    assert len(dump(root)["sample"]) == 1
    assert split_of(root) == {}
