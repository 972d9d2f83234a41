from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import children
from tests.build import RecordingProgress, a_dataset, a_folder, tree
from tests.core.catalog.readers import read_split
from tests.core.dumps import catalog_of, query
from tests.core.kill_script import kill_script
from tests.core.media_samples import a_gallery, an_image, media_shards, members
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index, is_media_folder
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.opened.opening import open_dataset

REPO = Path(__file__).parents[3]


def widths(root: str) -> dict[str, int]:
    return dict(query(locate(root).catalog_path, "SELECT path, width FROM v_file"))


def expected_widths(count: int) -> dict[str, int]:
    return {f"{n % 2}/{n:04}.png": n + 1 for n in range(count)}


def test_index_media_folder_lists_every_candidate_file_with_facts(tmp_path: Path) -> None:
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
def test_media_folder_facts_are_independent_of_worker_count(tmp_path: Path, workers: int) -> None:
    root = a_gallery(tmp_path, 700)
    index_media_folder(root, workers=workers)
    assert widths(root) == expected_widths(700)


def test_unchanged_media_folder_is_neither_read_nor_written(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 5)
    index_media_folder(root)
    before = Path(catalog_of(root)).stat()
    report = index_media_folder(root)

    assert (report.up_to_date, report.media.state, report.generation) == (True, "current", 1)
    assert Path(catalog_of(root)).stat().st_ino == before.st_ino


def test_media_folder_update_reads_new_and_changed_files_only(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 6)
    index_media_folder(root)
    (tmp_path / "0" / "0000.png").unlink()
    (tmp_path / "1" / "0001.png").write_bytes(an_image("PNG", (99, 5)))
    a_gallery(tmp_path, 2, first=6)
    report = index_media_folder(root)

    assert (report.added, report.changed, report.removed, report.unchanged) == (2, 1, 1, 4)
    assert (report.media.read, report.generation, report.media.counts) == (3, 2, {"image": 7})
    assert widths(root) == {name: n for name, n in expected_widths(8).items() if n > 2} | {"1/0001.png": 99}


def test_media_folder_rebuild_and_new_selection_read_all_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, members())
    index_media_folder(root)
    fewer = index_media_folder(root, media=MediaRequest(selection="wav,*.seg.png"))
    assert (fewer.files, fewer.removed, fewer.media.counts) == (2, 5, {"image": 1, "audio": 1})
    second = index_media_folder(root, rebuild=True)
    assert (second.media.selection, second.media.read, second.media.counts) == ("wav,*.seg.png", 2, fewer.media.counts)


def test_media_folder_exclude_patterns_persist(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 4)
    assert index_media_folder(root, exclude=["0/*"]).files == 2
    assert index_media_folder(root).files == 2
    assert index_media_folder(root, exclude=[""]).files == 4


def test_media_folder_dry_run_reports_state_and_writes_nothing(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 3)
    report = index_media_folder(root, dry_run=True)
    assert (report.added, report.media.state, (tmp_path / ".wdsctl").exists()) == (3, "would be made", False)
    index_media_folder(root)
    before = tree(tmp_path)
    assert index_media_folder(root, dry_run=True).up_to_date
    assert tree(tmp_path) == before


@pytest.mark.usefixtures("faulty_store")
def test_unreadable_media_file_is_reported_and_retried(tmp_path: Path) -> None:
    root = upload_shards(a_gallery(tmp_path / "disk", 3), "faulty://bucket/pictures", "*.png")

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
    second = index_media_folder(root, catalog=catalog)
    assert (second.media.state, second.media.read, second.media.counts) == ("made", 1, {"image": 3})


RUN = """
from wdsctl.core.index.media_folder import index_media_folder
index_media_folder({root!r})
"""


def test_rerun_after_kill_reads_remaining_media_files_only(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 2500)
    units = Path(locate(root).media_work_folder)
    script = kill_script("media", RUN.format(root=root))
    killed = children.run([sys.executable, "-c", script], cwd=REPO, check=False)
    done = len(list_finished(units))
    progress = RecordingProgress()
    index_media_folder(root, progress=progress)

    assert (killed.returncode, done) == (-signal.SIGKILL, 3)
    [remaining] = [items for name, items, _ in progress.phases if name == "media files"]
    assert remaining is not None
    assert remaining < 2500
    assert widths(root) == expected_widths(2500)
    assert not units.exists()


def list_finished(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")] if folder.exists() else []


def looks_like_media_folder(root: str, *, media_requested: bool = False) -> bool:
    with open_dataset(root) as dataset:
        return is_media_folder(dataset, media_requested=media_requested)


def test_is_media_folder_depends_on_catalog_or_request(tmp_path: Path) -> None:
    folder, tars = a_gallery(tmp_path / "folder", 2), a_dataset(tmp_path / "tars", media_shards())

    assert not looks_like_media_folder(folder)
    assert looks_like_media_folder(folder, media_requested=True)
    assert not looks_like_media_folder(tars, media_requested=True)
    index_media_folder(folder)
    index(tars)
    assert looks_like_media_folder(folder)
    assert not looks_like_media_folder(tars)
    a_dataset(tmp_path / "folder", {"a.tar": {"1.jpg": b""}})
    assert looks_like_media_folder(folder)


@pytest.mark.parametrize("selection", ["auto", "mp4"])
def test_index_media_folder_refuses_folder_without_media(tmp_path: Path, selection: str) -> None:
    root = a_folder(tmp_path, {"a.txt": b"a", "b.json": b"{}"})
    with pytest.raises(InputError) as caught:
        index_media_folder(root, media=MediaRequest(selection=selection))
    assert caught.value.code == "WDS003"
    assert not (tmp_path / ".wdsctl").exists()


def test_media_folder_without_readable_media_has_finding(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.bin": b"\0" * 9})
    assert [f.code for f in index_media_folder(root).findings] == ["WDS323"]


def test_index_media_folder_refuses_to_drop_facts(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        index_media_folder(a_gallery(tmp_path, 1), media=MediaRequest(drop=True))


def test_read_split_refuses_media_folder(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 1)
    index_media_folder(root)
    with pytest.raises(InputError, match="folder of media files") as caught:
        read_split(str(catalog_of(root)), "train")
    assert caught.value.code == "WDS322"
