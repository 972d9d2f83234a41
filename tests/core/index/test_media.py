from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import children
from tests.build import AsNobody, RecordingProgress, a_dataset, rewrite_shard, tree
from tests.core.dumps import catalog_of, query
from tests.core.kill_script import kill_script
from tests.core.media_samples import an_image, clip, media_shards
from tests.remote import upload_shards
from wdsctl.core.catalog.values import MediaSettings
from wdsctl.core.columns.column_file import list_columns, read_column_values
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import IndexReport, index
from wdsctl.core.index.media import resolve_media_settings
from wdsctl.core.index.report import MediaReport
from wdsctl.core.index.request import IndexRequest, MediaRequest
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

ALL = MediaRequest(selection="auto")
REPO = Path(__file__).parents[3]


def media_of(report: IndexReport) -> MediaReport:
    assert report.media is not None
    return report.media


def make_pictures(root: Path, shards: int, each: int = 3, *, first: int = 0) -> str:
    """Shards of images with the widths 1, 2, 3, ..."""
    return a_dataset(
        root,
        {
            f"{i:03}.tar": {f"{n:04}.png": an_image("PNG", (n + 1, 5)) for n in range(i * each, i * each + each)}
            for i in range(first, first + shards)
        },
    )


def widths(root: str, catalog: str | None = None) -> dict[str, int]:
    return dict(query(locate(root, catalog).catalog_path, "SELECT key, width FROM v_media"))


def expected_widths(count: int) -> dict[str, int]:
    return {f"{n:04}": n + 1 for n in range(count)}


@pytest.mark.usefixtures("place")
def test_index_writes_facts_of_all_media_to_catalog(tmp_path: Path) -> None:
    report = index(a_dataset(tmp_path, media_shards()), media=ALL)

    assert (media_of(report).selection, media_of(report).state, media_of(report).read) == ("auto", "made", 2)
    assert media_of(report).counts == {"image": 3, "video": 1, "audio": 1, "unreadable": 2}
    assert [(f.code, f.shard, f.key, f.part) for f in report.findings if f.code == "WDS320"] == [
        ("WDS320", "a.tar", "2", "jpg"),
        ("WDS320", "b.tar", "6", "jpg"),
    ]
    assert not os.path.exists(locate(str(tmp_path)).media_work_folder)
    assert report.generation == 1


@pytest.mark.parametrize("workers", [1, 3])
def test_media_facts_are_independent_of_worker_count(tmp_path: Path, workers: int) -> None:
    root = make_pictures(tmp_path, 5)
    index(root, media=ALL, workers=workers)
    assert widths(root) == expected_widths(15)


def test_index_without_media_request_reads_no_media(tmp_path: Path) -> None:
    report = index(make_pictures(tmp_path, 1))
    assert (report.media, query(catalog_of(tmp_path), "SELECT * FROM v_media")) == (None, [])


def test_current_media_facts_are_neither_read_nor_written_on_rerun(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 2)
    index(root, media=ALL)
    before = tree(tmp_path / ".wdsctl" / "catalog.sqlite")
    report = index(root, media=ALL)

    assert (media_of(report).state, media_of(report).read, report.up_to_date) == ("current", 0, True)
    assert tree(tmp_path / ".wdsctl" / "catalog.sqlite") == before


@pytest.mark.usefixtures("place")
def test_later_index_updates_media_facts_of_new_shards_only(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 2)
    index(root, media=ALL)
    make_pictures(tmp_path, 2, first=2)
    report = index(root)

    assert (media_of(report).state, media_of(report).read, report.up_to_date) == ("made", 2, False)
    assert widths(root) == expected_widths(12)


def test_media_of_changed_shard_are_read_even_if_layout_is_same(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 2)
    index(root, media=ALL)
    data = (tmp_path / "001.tar").read_bytes()
    rewrite_shard(tmp_path / "001.tar", data.replace(an_image("PNG", (4, 5))[16:33], an_image("PNG", (90, 5))[16:33]))
    report = index(root)

    assert (report.generation, media_of(report).read) == (1, 1)
    assert widths(root) == expected_widths(6) | {"0003": 90}


def test_media_facts_of_dropped_shards_are_removed(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 3)
    index(root, media=ALL)
    (tmp_path / "001.tar").unlink()

    kept = index(root, missing="keep")
    assert media_of(kept).counts == {"image": 9}
    dropped = index(root, missing="drop")
    assert media_of(dropped).counts == {"image": 6}


def test_new_media_selection_replaces_previous_one(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root, media=ALL)
    report = index(root, media=MediaRequest(selection="mp4,wav"))

    assert media_of(report).counts == {"video": 1, "audio": 1}
    assert media_of(index(root)).selection == "mp4,wav"


def test_rebuild_reads_all_media_again(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 3)
    index(root, media=ALL)
    report = index(root, rebuild=True)

    assert (media_of(report).read, media_of(report).selection, widths(root)) == (3, "auto", expected_widths(9))


def test_rebuild_keeps_media_facts_of_kept_missing_shards(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 2)
    index(root, media=ALL)
    (tmp_path / "000.tar").unlink()
    report = index(root, rebuild=True, missing="keep")

    assert (media_of(report).state, media_of(report).read, widths(root)) == ("made", 1, expected_widths(6))


@pytest.mark.usefixtures("place")
def test_dropped_media_facts_are_not_updated_later(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 2)
    index(root, media=ALL)
    report = index(root, media=MediaRequest(drop=True))

    assert (media_of(report).state, widths(root)) == ("dropped", {})
    assert index(root).media is None
    assert index(root, media=MediaRequest(drop=True)).media is None


def test_media_dry_run_reports_state_and_writes_nothing(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 2)
    assert media_of(index(root, media=ALL, dry_run=True)).state == "would be made"
    assert not (tmp_path / ".wdsctl").exists()
    index(root, media=ALL)
    before = tree(tmp_path)
    assert media_of(index(root, media=MediaRequest(selection="jpg"), dry_run=True)).state == "would be made"
    assert media_of(index(root, media=MediaRequest(drop=True), dry_run=True)).state == "would be dropped"
    assert media_of(index(root, dry_run=True)).state == "current"
    assert tree(tmp_path) == before


def test_media_selection_without_matches_is_error_in_every_run(tmp_path: Path) -> None:
    root, request = make_pictures(tmp_path, 1), MediaRequest(selection="mp4")
    for state in ("made", "current"):
        report = index(root, media=request)
        assert (media_of(report).state, [(f.code, f.severity) for f in report.findings]) == (
            state,
            [("WDS323", "error")],
        )
    assert index(root).findings == (), "a command that does not name the selection"


def test_media_dry_run_counts_new_and_changed_shards_as_not_current(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 2)
    index(root, media=ALL)
    make_pictures(tmp_path, 1, first=2)
    for media in (ALL, None):
        assert media_of(index(root, media=media, dry_run=True)).state == "would be made"
    assert media_of(index(root)).state == "made"

    rewrite_shard(tmp_path / "001.tar", {"9.png": an_image("PNG", (9, 9))})
    report = index(root, dry_run=True)
    assert (report.changed, media_of(report).state, report.up_to_date) == (1, "would be made", False)
    assert media_of(index(root)).state == "made"
    assert media_of(index(root, dry_run=True)).state == "current"


@pytest.mark.parametrize(
    "request_",
    [
        MediaRequest(selection="a/b"),
        MediaRequest(selection="jpg", drop=True),
        MediaRequest(keyframes=True),
        MediaRequest(keyframes=True, drop=True),
    ],
)
def test_contradictory_media_request_is_refused_before_indexing(tmp_path: Path, request_: MediaRequest) -> None:
    with pytest.raises(UsageError):
        index(make_pictures(tmp_path, 1), media=request_)
    assert not (tmp_path / ".wdsctl").exists()


def test_resolve_media_settings_keeps_previous_settings_by_default() -> None:
    before = MediaSettings("jpg", keyframes=True)
    assert resolve_media_settings(MediaRequest(), before) == before
    assert resolve_media_settings(MediaRequest(selection=".JPG"), before) == MediaSettings("jpg")
    assert resolve_media_settings(MediaRequest(keyframes=True), MediaSettings("jpg")) == before
    assert resolve_media_settings(MediaRequest(drop=True), before) is None


def test_media_of_missing_shard_are_read_when_it_reappears(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 3)
    index(root)
    data = (tmp_path / "001.tar").read_bytes()
    (tmp_path / "001.tar").unlink()
    report = index(root, media=ALL, missing="keep")

    assert (media_of(report).state, media_of(report).counts, media_of(report).read) == ("incomplete", {"image": 6}, 2)
    assert [(f.code, f.severity, f.shard) for f in report.findings] == [("WDS306", "warning", "001.tar")]
    before = os.stat(catalog_of(tmp_path)).st_ino
    later = index(root)
    assert (media_of(later).state, media_of(later).read, len(later.findings)) == ("incomplete", 0, 1)
    assert os.stat(catalog_of(tmp_path)).st_ino == before  # nothing was published
    summary = inspect(root, samples=0).media
    assert summary is not None
    assert summary.state == "incomplete"

    (tmp_path / "001.tar").write_bytes(data)
    second = index(root)
    assert (media_of(second).state, media_of(second).read, widths(root)) == ("made", 1, expected_widths(9))


def test_missing_shard_keeps_no_facts_outside_new_selection(tmp_path: Path) -> None:
    both = {"png": an_image("PNG", (3, 5)), "jpg": an_image("JPEG", (3, 5))}
    root = a_dataset(tmp_path, {f"{i}.tar": {f"{i}.{part}": data for part, data in both.items()} for i in range(3)})
    index(root, media=MediaRequest(selection="png"))
    (tmp_path / "1.tar").unlink()
    report = index(root, media=MediaRequest(selection="jpg"), missing="keep")

    assert (media_of(report).state, media_of(report).counts, media_of(report).read) == ("incomplete", {"image": 2}, 2)
    summary = inspect(root, samples=0).media
    assert summary is not None
    assert (summary.state, [line.part for line in summary.lines]) == ("incomplete", ["jpg"])


def test_unreadable_shard_is_reported_and_its_media_retried(public_path: Path, as_nobody: AsNobody) -> None:
    root = make_pictures(public_path / "data", 3)
    os.chmod(root, 0o777)  # noqa: S103 - the point of it
    as_nobody(lambda: index(root))
    os.chmod(f"{root}/001.tar", 0)
    report = as_nobody(lambda: index(root, media=ALL))

    assert (media_of(report).state, media_of(report).counts, media_of(report).read) == ("incomplete", {"image": 6}, 2)
    assert [(f.severity, f.shard) for f in report.findings] == [("error", "001.tar")]

    os.chmod(f"{root}/001.tar", 0o644)
    second = as_nobody(lambda: index(root))
    assert (media_of(second).state, media_of(second).read, widths(root)) == ("made", 1, expected_widths(9))


RUN = """
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
index({root!r}, media=MediaRequest(selection="auto"))
"""


def test_rerun_after_kill_reads_media_of_remaining_shards_only(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 8)
    units = Path(locate(root).media_work_folder)
    script = kill_script("media", RUN.format(root=root))
    killed = children.run([sys.executable, "-c", script], cwd=REPO, check=False)
    done = len(list_finished(units))
    progress = RecordingProgress()
    report = index(root, media=ALL, progress=progress)

    assert (killed.returncode, done) == (-signal.SIGKILL, 3)
    assert ("media", 8 - done) in [(name, items) for name, items, _ in progress.phases]
    assert (media_of(report).state, widths(root)) == ("made", expected_widths(24))
    assert not units.exists()


def list_finished(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")] if folder.exists() else []


def test_damaged_media_unit_is_recomputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_pictures(tmp_path, 2)

    def stop() -> None:
        raise KeyboardInterrupt

    index(root)
    with pytest.raises(KeyboardInterrupt):
        index(root, media=ALL, progress=RecordingProgress(at_advance=stop))
    units = Path(locate(root).media_work_folder)
    [unit] = list_finished(units)
    (units / unit).write_bytes(b"?" * 40)
    index(root, media=ALL)

    assert widths(root) == expected_widths(6)


def test_keyframes_are_indexed_on_request_and_updated_later(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    indexed = "SELECT key, part FROM keyframes JOIN v_media ON v_media.id = sample"
    assert media_of(index(root, media=ALL)).keyframes is False
    assert query(catalog_of(root), indexed) == []
    assert media_of(index(root, media=MediaRequest(keyframes=True))).keyframes is True
    assert query(catalog_of(root), indexed) == [("3", "mp4")]

    a_dataset(tmp_path, {"c.tar": {"7.mp4": clip()}})
    index(root)
    assert query(catalog_of(root), indexed) == [("3", "mp4"), ("7", "mp4")]


def test_media_progress_has_phase_with_shards_and_bytes(tmp_path: Path) -> None:
    progress = RecordingProgress()
    root = make_pictures(tmp_path, 3)
    index(root, media=ALL, progress=progress)
    assert ("media", 3, sum(path.stat().st_size for path in tmp_path.glob("*.tar"))) in progress.phases


@pytest.mark.usefixtures("faulty_store")
def test_media_facts_of_remote_dataset_equal_local_ones(tmp_path: Path) -> None:
    url, catalog = (
        upload_shards(a_dataset(tmp_path / "disk", media_shards()), "faulty://bucket/media"),
        str(tmp_path / "meta"),
    )
    index(str(tmp_path / "disk"), media=ALL)
    index(url, catalog=catalog, media=ALL)

    facts = "SELECT * FROM v_media"
    assert query(os.path.join(catalog, "catalog.sqlite"), facts) == query(catalog_of(tmp_path / "disk"), facts)


def test_prepare_with_media_request_persists_it(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 1)
    report = prepare(root, None, PrepareRequest(index=IndexRequest(media=MediaRequest(selection="png"))))
    assert report.index is not None
    assert media_of(report.index).counts == {"image": 3}
    make_pictures(tmp_path, 1, first=1)
    second = prepare(root)
    assert second.index is not None
    assert media_of(second.index).counts == {"image": 6}
    with pytest.raises(UsageError):
        prepare(root, None, PrepareRequest(index=IndexRequest(media=MediaRequest(selection="a b"))))


def test_inspect_shows_media_facts_from_catalog_without_reading_media(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    index(root, media=ALL)
    for shard in tmp_path.glob("*.tar"):
        stat = shard.stat()
        shard.write_bytes(b"?" * stat.st_size)
        os.utime(shard, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    report = inspect(root, samples=3)

    assert report.media is not None
    assert (report.media.state, report.media.counts["image"]) == ("current", 3)
    lines = {part.name: part.preview for sample in report.first for part in sample.parts}
    assert lines["seg.png"] == "48x32 PNG RGB"
    assert lines["mp4"].startswith("64x48 h264")


def read_values(root: str, name: str, generation: int = 1) -> list[int]:
    return [int(value) for value in read_column_values(locate(root), name, generation)]


def test_media_columns_are_computed_in_same_run_as_facts(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    columns = {
        "w": "media:jpg:width",
        "h": "media:jpg:height",
        "p": "media:jpg:pixels",
        "a": "media:jpg:aspect_milli",
        "ms": "media:mp4:duration_ms",
        "f": "media:mp4:frames",
        "r": "media:wav:rate",
        "s": "media:wav:samples",
    }
    index(root, media=ALL, columns=columns)

    assert read_values(root, "w") == [40, 0, 0, 0, 0, 0]  # as displayed: its orientation tag rotates it
    assert read_values(root, "h") == [60, 0, 0, 0, 0, 0]
    assert read_values(root, "p") == [2400, 0, 0, 0, 0, 0]
    assert read_values(root, "a") == [666, 0, 0, 0, 0, 0]
    assert read_values(root, "ms") == [0, 0, 333, 0, 0, 0]
    assert read_values(root, "f") == [0, 0, 8, 0, 0, 0]
    assert read_values(root, "r") == [0, 0, 0, 8000, 0, 0]
    assert read_values(root, "s") == [0, 0, 0, 800, 0, 0]


def test_media_column_reads_first_of_several_parts_and_warns_about_samples_without_fact(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    report = index(root, media=ALL, columns={"ms": "media:wav,mp4:duration_ms", "s": "media:wav:duration_ms"})

    assert read_values(root, "ms") == [0, 0, 333, 100, 0, 0]
    assert [(each.name, each.failed) for each in report.columns] == [("ms", 4), ("s", 5)]
    findings = [each for each in report.findings if each.code == "WDS316"]
    assert [(each.severity, each.message.partition(";")[0]) for each in findings] == [
        ("warning", "column ms: 4 of 6 samples have no duration_ms of wav or mp4"),
        ("warning", "column s: 5 of 6 samples have no duration_ms of wav"),
    ]


def test_media_column_is_updated_with_facts(tmp_path: Path) -> None:
    root = make_pictures(tmp_path, 2)
    index(root, media=ALL, columns={"w": "media:png:width"})
    rewrite_shard(tmp_path / "001.tar", {"0003.png": an_image("PNG", (77, 5))})
    make_pictures(tmp_path, 1, first=2)
    report = index(root)

    assert [column.state for column in report.columns] == ["made"]
    assert sorted(read_values(root, "w", 2)) == [1, 2, 3, 7, 8, 9, 77]
    assert [column.state for column in index(root).columns] == ["current"]


@pytest.mark.parametrize(("selection", "number"), [("jpg", "width"), ("png", "duration_ms")])
def test_media_column_of_facts_that_no_sample_has_is_refused(tmp_path: Path, selection: str, number: str) -> None:
    """Otherwise, all samples would have the length 0."""
    root = make_pictures(tmp_path, 1)
    index(root, media=MediaRequest(selection=selection))
    with pytest.raises(UsageError, match="in the media facts of the catalog") as caught:
        index(root, columns={"w": f"media:png:{number}"})

    assert (caught.value.code, f"`--media {selection}`" in caught.value.hint) == ("WDS312", True)
    assert list_columns(locate(root)) == {}
    index(root, media=ALL, columns={"w": "media:png:width"})
    assert read_values(root, "w") != [0] * len(read_values(root, "w"))


def test_media_column_needs_facts_and_is_outdated_when_they_are_dropped(
    tmp_path: Path,
) -> None:
    root = make_pictures(tmp_path, 1)
    with pytest.raises(UsageError, match="no media facts") as caught:
        index(root, columns={"w": "media:png:width"})
    assert "--media png" in caught.value.hint

    index(root, media=ALL, columns={"w": "media:png:width"})
    report = index(root, media=MediaRequest(drop=True))
    assert [column.state for column in report.columns] == ["outdated"]
    assert [(f.code, f.severity) for f in report.findings] == [("WDS314", "warning")]
