from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import Told, a_dataset, a_folder, tree
from tests.core.dumps import catalog_of, query
from tests.core.killed_saving import program
from tests.core.medley import a_gallery, a_medley, an_image, members
from tests.remote import FaultyFileSystem, uploaded
from wdsctl.core.catalog.presence import is_media_folder
from wdsctl.core.catalog.read import read_split
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest

REPO = Path(__file__).parents[3]


def widths(root: str) -> dict[str, int]:
    return dict(query(locate(root).catalog, "SELECT path, width FROM v_file"))


def numbered(count: int) -> dict[str, int]:
    return {f"{n % 2}/{n:04}.png": n + 1 for n in range(count)}


def test_every_file_that_may_be_a_medium_is_listed_with_its_facts(tmp_path: Path) -> None:
    report = index_media_folder(a_folder(tmp_path, members()))

    assert (report.files, report.added, report.generation, report.up_to_date) == (7, 7, 1, False)
    assert report.media.counts == {"image": 3, "video": 1, "audio": 1, "unreadable": 2}
    assert [(f.code, f.shard) for f in report.findings] == [("WDS320", "2.jpg"), ("WDS320", "6.jpg")]
    assert query(catalog_of(tmp_path), "SELECT path, kind, width FROM v_file ORDER BY path")[:3] == [
        ("1.jpg", "image", 60),
        ("2.jpg", "unreadable", None),
        ("2.seg.png", "image", 48),
    ]
    assert sorted(os.listdir(tmp_path / ".wdsctl")) == ["catalog.sqlite", "ledger.sqlite"]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_workers_changes_nothing(tmp_path: Path, workers: int) -> None:
    root = a_gallery(tmp_path, 700)
    index_media_folder(root, workers=workers)
    assert widths(root) == numbered(700)


def test_with_nothing_new_nothing_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 5)
    index_media_folder(root)
    before = Path(catalog_of(root)).stat()
    report = index_media_folder(root)

    assert (report.up_to_date, report.media.state, report.generation) == (True, "current", 1)
    assert Path(catalog_of(root)).stat().st_ino == before.st_ino


def test_only_files_that_are_new_or_have_changed_are_read_and_those_that_are_gone_go(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 6)
    index_media_folder(root)
    (tmp_path / "0" / "0000.png").unlink()
    (tmp_path / "1" / "0001.png").write_bytes(an_image("PNG", (99, 5)))
    a_gallery(tmp_path, 2, first=6)
    report = index_media_folder(root)

    assert (report.added, report.changed, report.removed, report.unchanged) == (2, 1, 1, 4)
    assert (report.media.read, report.generation, report.media.counts) == (3, 2, {"image": 7})
    assert widths(root) == {name: n for name, n in numbered(8).items() if n > 2} | {"1/0001.png": 99}


def test_another_selection_or_a_rebuild_looks_at_all_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, members())
    index_media_folder(root)
    fewer = index_media_folder(root, media=MediaRequest(selection="wav,*.seg.png"))
    assert (fewer.files, fewer.removed, fewer.media.counts) == (2, 5, {"image": 1, "audio": 1})
    again = index_media_folder(root, rebuild=True)
    assert (again.media.selection, again.media.read, again.media.counts) == ("wav,*.seg.png", 2, fewer.media.counts)


def test_patterns_leave_files_out_and_are_remembered(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 4)
    assert index_media_folder(root, exclude=["0/*"]).files == 2
    assert index_media_folder(root).files == 2
    assert index_media_folder(root, exclude=[""]).files == 4


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 3)
    report = index_media_folder(root, dry_run=True)
    assert (report.added, report.media.state, (tmp_path / ".wdsctl").exists()) == (3, "would be made", False)
    index_media_folder(root)
    before = tree(tmp_path)
    assert index_media_folder(root, dry_run=True).up_to_date
    assert tree(tmp_path) == before


@pytest.mark.usefixtures("faulty_store")
def test_a_file_that_cannot_be_read_is_told_of_and_tried_again(tmp_path: Path) -> None:
    root = uploaded(a_gallery(tmp_path / "disk", 3), "faulty://bucket/pictures", "*.png")

    def bad(path: str, start: int, stop: int, data: bytes) -> bytes:
        if path.endswith("0001.png"):
            raise PermissionError(13, "no")
        return data

    FaultyFileSystem.fault.append(bad)
    catalog = str(tmp_path / "meta")
    report = index_media_folder(root, catalog=catalog)
    assert [(f.severity, f.shard) for f in report.findings] == [("error", "1/0001.png")]
    assert (report.media.state, report.media.counts) == ("incomplete", {"image": 2})
    FaultyFileSystem.fault.clear()
    again = index_media_folder(root, catalog=catalog)
    assert (again.media.state, again.media.read, again.media.counts) == ("made", 1, {"image": 3})


RUN = """
from wdsctl.core.index.media_folder import index_media_folder
index_media_folder({root!r})
"""


def test_killed_and_run_again_only_the_rest_is_looked_at(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 2500)
    units = Path(locate(root).media_work_folder)
    script = program("media", RUN.format(root=root))
    killed = subprocess.run([sys.executable, "-c", script], cwd=REPO, check=False)
    done = len(finished(units))
    told = Told()
    index_media_folder(root, progress=told)

    assert (killed.returncode, done) == (-signal.SIGKILL, 3)
    [left] = [items for name, items, _ in told.phases if name == "media files"]
    assert left is not None
    assert left < 2500
    assert widths(root) == numbered(2500)
    assert not units.exists()


def finished(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")] if folder.exists() else []


def test_what_is_a_folder_of_media_is_told_by_its_catalog_or_else_by_what_is_asked(tmp_path: Path) -> None:
    folder, tars = a_gallery(tmp_path / "folder", 2), a_dataset(tmp_path / "tars", a_medley())

    assert not is_media_folder(folder)
    assert is_media_folder(folder, media_requested=True)
    assert not is_media_folder(tars, media_requested=True)
    index_media_folder(folder)
    index(tars)
    assert is_media_folder(folder)
    assert not is_media_folder(tars)
    a_dataset(tmp_path / "folder", {"a.tar": {"1.jpg": b""}})
    assert is_media_folder(folder)


@pytest.mark.parametrize("selection", ["auto", "mp4"])
def test_a_folder_without_media_is_refused_before_anything_is_made(tmp_path: Path, selection: str) -> None:
    root = a_folder(tmp_path, {"a.txt": b"a", "b.json": b"{}"})
    with pytest.raises(InputError) as caught:
        index_media_folder(root, media=MediaRequest(selection=selection))
    assert caught.value.code == "WDS003"
    assert not (tmp_path / ".wdsctl").exists()


def test_files_that_are_media_by_name_alone_are_no_success(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.bin": b"\0" * 9})
    assert [f.code for f in index_media_folder(root).findings] == ["WDS323"]


def test_facts_cannot_be_dropped_from_a_folder_that_has_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        index_media_folder(a_gallery(tmp_path, 1), media=MediaRequest(drop=True))


def test_a_folder_of_media_is_no_dataset_to_train_on(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 1)
    index_media_folder(root)
    with pytest.raises(InputError, match="folder of media files") as caught:
        read_split(str(catalog_of(root)), "train")
    assert caught.value.code == "WDS322"
