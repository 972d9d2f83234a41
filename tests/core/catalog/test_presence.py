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
from wdsctl.core.dataset.split_rules import SplitRule
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.validate.quarantine import release_from_quarantine
from wdsctl.core.validate.validate import ValidateRequest, validate
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.show import list_views, show_view
from wdsctl.core.views.sql import sql
from wdsctl.core.views.views import create_view, delete_view

HALF = SplitRequest(rule=SplitRule({"a": 1, "b": 1}, by="sample"))
QUARANTINE = ValidateRequest(quarantine=True)


def asked(root: str) -> None:
    with sql(root, "SELECT 1"):
        pass


@pytest.mark.parametrize(
    "ask",
    [
        asked,
        lambda root: diff_datasets(root, root),
        list_views,
        lambda root: show_view(root, "v"),
        lambda root: create_view(root, "v", ViewDefinition(where="size > 1")),
        lambda root: delete_view(root, "v"),
    ],
)
def test_a_folder_without_shards_is_said_to_be_one_and_how_its_files_become_shards(
    tmp_path: Path, ask: Callable[[str], object]
) -> None:
    raw = a_folder(tmp_path / "raw", {"a.jpg": b"1", "b/c.jpg": b"2"})
    with pytest.raises(InputError) as caught:
        ask(raw)
    assert (caught.value.code, caught.value.hint) == (
        "WDS003",
        f"to write raw files into shards, run `wdsctl prepare {raw} DEST`",
    )
    shards = some_shards(tmp_path / "shards", 1)
    with pytest.raises(CatalogError, match="the dataset has no catalog") as told:
        ask(shards)
    assert f"`wdsctl prepare {shards}`" in told.value.hint


@pytest.mark.parametrize(
    "work",
    [
        lambda root, wait: split_dataset(root, HALF, wait=wait),
        lambda root, wait: validate(root, QUARANTINE, wait=wait),
        lambda root, wait: release_from_quarantine(root, wait=wait),
    ],
)
def test_whoever_waits_also_waits_for_the_first_catalog(tmp_path: Path, work: Callable[[str, float], object]) -> None:
    root = some_shards(tmp_path / "data", 2)
    other = some_shards(tmp_path / "made", 2)
    index(other)
    place = locate(root, writing=True)
    with ExitStack() as held:
        held.enter_context(hold_lock(place.lock))
        with pytest.raises(CatalogError, match="has no catalog yet") as caught:
            work(root, 0.0)
        assert (caught.value.code, "`--wait`" in caught.value.hint) == ("WDS304", True)
        with pytest.raises(CatalogError, match="another wdsctl is writing") as late:
            work(root, 0.1)
        assert late.value.code == "WDS304"
        publish = threading.Timer(0.3, lambda: _published(root, other, held.pop_all()))
        publish.start()
        work(root, 30.0)
        publish.join()


def test_nobody_is_waited_for_where_nobody_is_at_work_and_nothing_is_made(tmp_path: Path) -> None:
    place = locate(a_folder(tmp_path / "raw", {"a.jpg": b"1"}))
    notes: list[str] = []
    wait_for_catalog(place, 30.0, notes.append)

    assert notes == []
    assert not Path(place.meta).exists()


def test_prepared_datasets_inside_a_folder_without_a_catalog_are_named(tmp_path: Path) -> None:
    for name in ("primary", "media"):
        index(some_shards(tmp_path / name, 1))
    with pytest.raises(CatalogError, match="2 prepared datasets: media, primary") as caught:
        check_catalog_exists(locate(str(tmp_path)))
    assert "media" in caught.value.hint


def test_of_a_folder_that_has_compressed_tars_alone_convert_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"")
    with pytest.raises(InputError, match="only 1 compressed tar") as caught:
        check_catalog_exists(locate(str(tmp_path)))
    assert "convert" in caught.value.hint


def _published(root: str, other: str, held: ExitStack) -> None:
    """What the first `prepare` does at its end."""
    for name in ("catalog.sqlite", "offsets-1.bin"):
        (Path(locate(root).meta) / name).write_bytes((Path(locate(other).meta) / name).read_bytes())
    held.close()


@pytest.mark.parametrize("verb", [prepare, index, validate, inspect])
def test_a_folder_of_links_to_shards_elsewhere_is_not_of_raw_files(tmp_path: Path, verb: Callable[[str], Any]) -> None:
    with pytest.raises(PermissionDenied) as caught:
        verb(linked_shards(tmp_path))
    assert caught.value.code == "WDS409"
    assert f"--allow-path {tmp_path / 'blobs'}" in caught.value.hint
