from __future__ import annotations

import os
from pathlib import Path

from tests.build import a_folder
from tests.core.media_samples import a_gallery, members
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.inspect.media_folder import MediaFolderInspectReport, inspect_media_folder
from wdsctl.core.opened.opening import open_dataset


def inspect(root: str, samples: int = 3) -> MediaFolderInspectReport:
    with open_dataset(root) as dataset:
        return inspect_media_folder(dataset, samples=samples)


def test_inspect_media_folder_describes_files_from_catalog(tmp_path: Path) -> None:
    root = a_folder(tmp_path, members())
    index_media_folder(root)
    report = inspect(root, samples=2)

    assert (report.files, report.media.counts["image"], report.stale) == (7, 3, ())
    assert [(line.path, line.preview) for line in report.first] == [
        ("1.jpg", "60x40 JPEG RGB, EXIF orientation 6"),
        ("2.jpg", "unreadable: its content is not an image, audio or video"),
    ]


def test_inspect_media_folder_reports_differences_from_catalog(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 5)
    index_media_folder(root)
    (tmp_path / "0" / "0000.png").unlink()
    (tmp_path / "1" / "0001.png").write_bytes(b"changed")
    a_gallery(tmp_path, 2, first=5)

    stale = inspect(root).stale
    assert [(f.code, f.shard, f.count) for f in stale] == [
        ("WDS305", "0/0006.png", 2),
        ("WDS305", "1/0001.png", 1),
        ("WDS305", "0/0000.png", 1),
    ]


def test_touched_files_of_media_folder_are_one_note(tmp_path: Path) -> None:
    root = a_gallery(tmp_path, 5)
    index_media_folder(root)
    for path in tmp_path.glob("*/*.png"):
        os.utime(path, ns=(1, 1))

    assert [(f.code, f.severity, f.count) for f in inspect(root).stale] == [("WDS305", "note", 5)]
