from __future__ import annotations

from tests.cli.conftest import Show
from wdsctl.cli.commands.index import media_summary, media_table, render_media_folder, render_media_folder_index
from wdsctl.core.catalog.totals import MediaSummary
from wdsctl.core.errors import Finding
from wdsctl.core.index.media_folder import MediaFolderReport
from wdsctl.core.index.report import MediaReport
from wdsctl.core.inspect.media_folder import FileSummary, MediaFolderInspectReport

IMAGES = MediaSummary(
    part="jpg",
    kind="image",
    media=1204,
    size_bytes=20 << 20,
    forms={"JPEG RGB": 1200, "PNG P": 2, "PNG L": 1, "GIF P": 1},
    width=(64, 4096),
    height=(48, 48),
)
CLIPS = MediaSummary(
    part="mp4",
    kind="video",
    media=2,
    size_bytes=1 << 20,
    forms={"mp4 h264": 2},
    width=(640, 640),
    height=(480, 480),
    seconds=3725.0,
    seconds_range=(5.0, 3720.0),
)
MEDIA = MediaReport(
    selection="auto", keyframes=False, state="made", counts={"image": 1204, "video": 2}, lines=(IMAGES, CLIPS)
)


def a_report(**changes: object) -> MediaFolderReport:
    facts: dict[str, object] = {
        "root": "clips",
        "catalog": "clips/.wdsctl/catalog.sqlite",
        "generation": 2,
        "files": 1206,
        "size_bytes": 21 << 20,
        "added": 6,
        "changed": 0,
        "removed": 1,
        "unchanged": 1200,
        "findings": (),
        "up_to_date": False,
        "dry_run": False,
        "seconds": 4.2,
        "media": MEDIA,
    }
    return MediaFolderReport(**(facts | changes))  # type: ignore[arg-type]


def test_media_table_prints_counts_sizes_durations_and_formats(render_piped: Show) -> None:
    assert [" ".join(line.split()) for line in render_piped([media_table(MEDIA.lines)])[1:]] == [
        "jpg image 1,204 20.0 MiB 64-4,096 48 JPEG RGB (1,200), PNG P (2), PNG L (1), 1 more",
        "mp4 video 2 1.0 MiB 640 480 1 h 2 min 5.0 s - 1 h 2 min mp4 h264",
    ]


def test_media_summary_counts_kinds_and_names_state() -> None:
    none = MediaReport(selection="mp4", keyframes=False, state="dropped")
    broken = MediaReport(selection="mp4", keyframes=False, state="incomplete", counts={"unreadable": 3, "audio": 1})

    assert media_summary(MEDIA) == "media by auto: 1,204 images, 2 videos"
    assert media_summary(none) == "media by mp4: none (dropped)"
    assert media_summary(broken) == "media by mp4: 1 audio file, 3 unreadable (incomplete)"


def test_media_folder_index_prints_changes(render_piped: Show) -> None:
    assert render_piped(render_media_folder_index(a_report()))[:4] == [
        "clips: a folder of media, 1,206 files, 21.0 MiB, read in 4.2 s",
        "  catalog  clips/.wdsctl/catalog.sqlite (generation 2)",
        "  files    6 added, 1 removed, 1,200 unchanged",
        "media by auto: 1,204 images, 2 videos",
    ]


def test_media_folder_index_prints_up_to_date_or_dry_run(render_piped: Show) -> None:
    assert (
        render_piped(render_media_folder_index(a_report(up_to_date=True)))[0]
        == "clips: up to date (1,206 files, 21.0 MiB)"
    )
    assert render_piped(render_media_folder_index(a_report(dry_run=True)))[0].endswith("21.0 MiB, would be read")


def test_media_folder_index_truncates_findings_with_count(render_piped: Show) -> None:
    found = Finding(code="WDS320", severity="warning", message="it is empty", shard="a.jpg")
    lines = render_piped(render_media_folder_index(a_report(findings=(found,) * 9)))

    assert lines[-1] == "  ... and 4 more (--json lists them all)"
    assert sum(line.startswith("warning[WDS320]") for line in lines) == 5


def test_media_folder_inspect_prints_first_files(render_piped: Show) -> None:
    report = MediaFolderInspectReport(
        root="clips",
        catalog="clips/.wdsctl/catalog.sqlite",
        catalog_bytes=88 << 10,
        generation=2,
        files=1,
        size_bytes=1 << 10,
        media=MEDIA,
        first=(FileSummary(path="a\n.jpg", size_bytes=5, preview="48x32 JPEG RGB", facts=None),),
        stale=(),
    )
    lines = render_piped(render_media_folder(report))

    assert lines[0] == "clips: a folder of media, 1 file, 1.0 KiB"
    assert lines[-1] == "  a\\n.jpg  5 B  48x32 JPEG RGB"
