from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder, linked_shards, some_shards
from wdsctl.core.catalog.presence import check_catalog_exists, wait_for_catalog
from wdsctl.core.compare.diff import diff_datasets
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.validate.quarantine import release_from_quarantine
from wdsctl.core.validate.validate import ValidateRequest, validate
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.show import list_views, show_view
from wdsctl.core.views.sql import sql
from wdsctl.core.views.views import create_view, delete_view

HALF = SplitRequest(rule=SplitRule({"a": 1, "b": 1}, by="sample"))
QUARANTINE = ValidateRequest(quarantine=True)


def run_query(root: str) -> None:
    with sql(root, "SELECT 1"):
        pass


@pytest.mark.parametrize(
    "call",
    [
        run_query,
        lambda root: diff_datasets(root, root),
        list_views,
        lambda root: show_view(root, "v"),
        lambda root: create_view(root, "v", ViewDefinition(where="size > 1")),
        lambda root: delete_view(root, "v"),
    ],
)
def test_folder_without_shards_is_refused_with_prepare_hint(tmp_path: Path, call: Callable[[str], object]) -> None:
    raw = a_folder(tmp_path / "raw", {"a.jpg": b"1", "b/c.jpg": b"2"})
    with pytest.raises(InputError) as caught:
        call(raw)
    assert (caught.value.code, caught.value.hint) == (
        "WDS003",
        f"to write raw files into shards, run `wdsctl prepare {raw} DEST`",
    )
    shards = some_shards(tmp_path / "shards", 1)
    with pytest.raises(CatalogError, match="the dataset has no catalog") as no_catalog:
        call(shards)
    assert f"`wdsctl prepare {shards}`" in no_catalog.value.hint


@pytest.mark.parametrize(
    "work",
    [
        lambda root, wait: split_dataset(root, HALF, wait=wait),
        lambda root, wait: validate(root, QUARANTINE, wait=wait),
        lambda root, wait: release_from_quarantine(root, wait=wait),
    ],
)
def test_commands_with_wait_wait_for_first_catalog(tmp_path: Path, work: Callable[[str, float], object]) -> None:
    root = some_shards(tmp_path / "data", 2)
    other = some_shards(tmp_path / "made", 2)
    index(other)
    place = locate(root, writing=True)
    with ExitStack() as stack:
        stack.enter_context(hold_lock(place.lock))
        with pytest.raises(CatalogError, match="has no catalog yet") as caught:
            work(root, 0.0)
        assert (caught.value.code, "`--wait`" in caught.value.hint) == ("WDS304", True)
        with pytest.raises(CatalogError, match="another wdsctl is writing") as timed_out:
            work(root, 0.1)
        assert timed_out.value.code == "WDS304"
        publish = threading.Timer(0.3, lambda: _publish(root, other, stack.pop_all()))
        publish.start()
        work(root, 30.0)
        publish.join()


def test_wait_for_catalog_returns_at_once_without_writer(tmp_path: Path) -> None:
    place = locate(a_folder(tmp_path / "raw", {"a.jpg": b"1"}))
    notes: list[str] = []
    wait_for_catalog(place, 30.0, notes.append)

    assert notes == []
    assert not Path(place.meta).exists()


def test_check_catalog_exists_names_inner_datasets(tmp_path: Path) -> None:
    for name in ("primary", "media"):
        index(some_shards(tmp_path / name, 1))
    with pytest.raises(CatalogError, match="2 prepared datasets: media, primary") as caught:
        check_catalog_exists(locate(str(tmp_path)))
    assert "media" in caught.value.hint


def test_check_catalog_exists_suggests_convert_for_compressed_tars(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"")
    with pytest.raises(InputError, match="only 1 compressed tar") as caught:
        check_catalog_exists(locate(str(tmp_path)))
    assert "convert" in caught.value.hint


def _publish(root: str, other: str, stack: ExitStack) -> None:
    """Publishes the first catalog and releases the lock, as `prepare` does at its end."""
    for name in ("catalog.sqlite", "offsets-1.bin"):
        (Path(locate(root).meta) / name).write_bytes((Path(locate(other).meta) / name).read_bytes())
    stack.close()


@pytest.mark.parametrize("command", [prepare, index, validate, inspect])
def test_folder_of_outside_links_is_refused_with_hint(tmp_path: Path, command: Callable[[str], Any]) -> None:
    with pytest.raises(PermissionDenied) as caught:
        command(linked_shards(tmp_path))
    assert caught.value.code == "WDS409"
    assert f"--allow-path {tmp_path / 'blobs'}" in caught.value.hint
