from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import AsNobody, Told, a_dataset, rewritten, tree
from tests.core.dumps import catalog_of, query
from tests.core.killed_saving import program
from tests.core.medley import a_medley, an_image, clip
from tests.remote import uploaded
from wdsctl.core.catalog.values import MediaSettings
from wdsctl.core.columns.column_file import read_column_values
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import IndexReport, index
from wdsctl.core.index.media import resolve_media_settings
from wdsctl.core.index.request import IndexRequest, MediaReport, MediaRequest
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

ALL = MediaRequest(selection="auto")
REPO = Path(__file__).parents[3]


def of(report: IndexReport) -> MediaReport:
    assert report.media is not None
    return report.media


def pictures(root: Path, shards: int, each: int = 3, *, first: int = 0) -> str:
    """Shards of images, each of another width: 1 and on."""
    return a_dataset(
        root,
        {
            f"{i:03}.tar": {f"{n:04}.png": an_image("PNG", (n + 1, 5)) for n in range(i * each, i * each + each)}
            for i in range(first, first + shards)
        },
    )


def widths(root: str, catalog: str | None = None) -> dict[str, int]:
    return dict(query(locate(root, catalog).catalog, "SELECT key, width FROM v_media"))


def numbered(count: int) -> dict[str, int]:
    return {f"{n:04}": n + 1 for n in range(count)}


@pytest.mark.usefixtures("place")
def test_facts_of_all_media_come_into_the_catalog(tmp_path: Path) -> None:
    report = index(a_dataset(tmp_path, a_medley()), media=ALL)

    assert (of(report).selection, of(report).state, of(report).read) == ("auto", "made", 2)
    assert of(report).counts == {"image": 3, "video": 1, "audio": 1, "unreadable": 2}
    assert [(f.code, f.shard, f.key, f.part) for f in report.findings if f.code == "WDS320"] == [
        ("WDS320", "a.tar", "2", "jpg"),
        ("WDS320", "b.tar", "6", "jpg"),
    ]
    assert not os.path.exists(locate(str(tmp_path)).media_work_folder)
    assert report.generation == 1


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_nothing(tmp_path: Path, workers: int) -> None:
    root = pictures(tmp_path, 5)
    index(root, media=ALL, workers=workers)
    assert widths(root) == numbered(15)


def test_without_a_request_nothing_is_looked_at(tmp_path: Path) -> None:
    report = index(pictures(tmp_path, 1))
    assert (report.media, query(catalog_of(tmp_path), "SELECT * FROM v_media")) == (None, [])


def test_asked_for_again_nothing_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    root = pictures(tmp_path, 2)
    index(root, media=ALL)
    before = tree(tmp_path / ".wdsctl" / "catalog.sqlite")
    report = index(root, media=ALL)

    assert (of(report).state, of(report).read, report.up_to_date) == ("current", 0, True)
    assert tree(tmp_path / ".wdsctl" / "catalog.sqlite") == before


@pytest.mark.usefixtures("place")
def test_once_asked_for_they_are_brought_along_and_only_new_shards_are_read(tmp_path: Path) -> None:
    root = pictures(tmp_path, 2)
    index(root, media=ALL)
    pictures(tmp_path, 2, first=2)
    report = index(root)

    assert (of(report).state, of(report).read, report.up_to_date) == ("made", 2, False)
    assert widths(root) == numbered(12)


def test_a_shard_that_has_changed_is_read_again_also_where_nothing_in_it_has_moved(tmp_path: Path) -> None:
    root = pictures(tmp_path, 2)
    index(root, media=ALL)
    data = (tmp_path / "001.tar").read_bytes()
    rewritten(tmp_path / "001.tar", data.replace(an_image("PNG", (4, 5))[16:33], an_image("PNG", (90, 5))[16:33]))
    report = index(root)

    assert (report.generation, of(report).read) == (1, 1)
    assert widths(root) == numbered(6) | {"0003": 90}


def test_facts_of_shards_that_are_gone_go(tmp_path: Path) -> None:
    root = pictures(tmp_path, 3)
    index(root, media=ALL)
    (tmp_path / "001.tar").unlink()

    kept = index(root, missing="keep")
    assert of(kept).counts == {"image": 9}
    dropped = index(root, missing="drop")
    assert of(dropped).counts == {"image": 6}


def test_another_selection_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, a_medley())
    index(root, media=ALL)
    report = index(root, media=MediaRequest(selection="mp4,wav"))

    assert of(report).counts == {"video": 1, "audio": 1}
    assert of(index(root)).selection == "mp4,wav"


def test_a_rebuild_looks_at_all_media_again(tmp_path: Path) -> None:
    root = pictures(tmp_path, 3)
    index(root, media=ALL)
    report = index(root, rebuild=True)

    assert (of(report).read, of(report).selection, widths(root)) == (3, "auto", numbered(9))


def test_a_rebuild_keeps_the_facts_of_shards_that_are_kept_though_they_are_gone(tmp_path: Path) -> None:
    root = pictures(tmp_path, 2)
    index(root, media=ALL)
    (tmp_path / "000.tar").unlink()
    report = index(root, rebuild=True, missing="keep")

    assert (of(report).state, of(report).read, widths(root)) == ("made", 1, numbered(6))


@pytest.mark.usefixtures("place")
def test_dropped_facts_are_gone_and_not_brought_along(tmp_path: Path) -> None:
    root = pictures(tmp_path, 2)
    index(root, media=ALL)
    report = index(root, media=MediaRequest(drop=True))

    assert (of(report).state, widths(root)) == ("dropped", {})
    assert index(root).media is None
    assert index(root, media=MediaRequest(drop=True)).media is None


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path) -> None:
    root = pictures(tmp_path, 2)
    assert of(index(root, media=ALL, dry_run=True)).state == "would be made"
    assert not (tmp_path / ".wdsctl").exists()
    index(root, media=ALL)
    before = tree(tmp_path)
    assert of(index(root, media=MediaRequest(selection="jpg"), dry_run=True)).state == "would be made"
    assert of(index(root, media=MediaRequest(drop=True), dry_run=True)).state == "would be dropped"
    assert of(index(root, dry_run=True)).state == "current"
    assert tree(tmp_path) == before


def test_a_selection_that_means_nothing_here_is_an_error_and_no_success(tmp_path: Path) -> None:
    report = index(pictures(tmp_path, 1), media=MediaRequest(selection="mp4"))
    assert [(f.code, f.severity) for f in report.findings] == [("WDS323", "error")]


@pytest.mark.parametrize(
    "request_",
    [
        MediaRequest(selection="a/b"),
        MediaRequest(selection="jpg", drop=True),
        MediaRequest(keyframes=True),
        MediaRequest(keyframes=True, drop=True),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_anything_is_made(
    tmp_path: Path, request_: MediaRequest
) -> None:
    with pytest.raises(UsageError):
        index(pictures(tmp_path, 1), media=request_)
    assert not (tmp_path / ".wdsctl").exists()


def test_what_was_asked_before_stays_where_nothing_is_said() -> None:
    before = MediaSettings("jpg", keyframes=True)
    assert resolve_media_settings(MediaRequest(), before) == before
    assert resolve_media_settings(MediaRequest(selection=".JPG"), before) == MediaSettings("jpg")
    assert resolve_media_settings(MediaRequest(keyframes=True), MediaSettings("jpg")) == before
    assert resolve_media_settings(MediaRequest(drop=True), before) is None


def test_a_shard_that_is_missing_has_no_facts_and_is_looked_at_when_it_is_there_again(tmp_path: Path) -> None:
    root = pictures(tmp_path, 3)
    index(root)
    data = (tmp_path / "001.tar").read_bytes()
    (tmp_path / "001.tar").unlink()
    report = index(root, media=ALL, missing="keep")

    assert (of(report).state, of(report).counts, of(report).read) == ("incomplete", {"image": 6}, 2)
    assert [(f.code, f.severity, f.shard) for f in report.findings] == [("WDS306", "warning", "001.tar")]
    before = os.stat(catalog_of(tmp_path)).st_ino
    later = index(root)
    assert (of(later).state, of(later).read, len(later.findings)) == ("incomplete", 0, 1)
    assert os.stat(catalog_of(tmp_path)).st_ino == before  # nothing was published
    shown = inspect(root, samples=0).media
    assert shown is not None
    assert shown.state == "incomplete"

    (tmp_path / "001.tar").write_bytes(data)
    again = index(root)
    assert (of(again).state, of(again).read, widths(root)) == ("made", 1, numbered(9))


def test_of_a_missing_shard_nothing_stays_that_was_not_asked_for(tmp_path: Path) -> None:
    both = {"png": an_image("PNG", (3, 5)), "jpg": an_image("JPEG", (3, 5))}
    root = a_dataset(tmp_path, {f"{i}.tar": {f"{i}.{part}": data for part, data in both.items()} for i in range(3)})
    index(root, media=MediaRequest(selection="png"))
    (tmp_path / "1.tar").unlink()
    report = index(root, media=MediaRequest(selection="jpg"), missing="keep")

    assert (of(report).state, of(report).counts, of(report).read) == ("incomplete", {"image": 2}, 2)
    shown = inspect(root, samples=0).media
    assert shown is not None
    assert (shown.state, [line.part for line in shown.lines]) == ("incomplete", ["jpg"])


def test_a_shard_that_cannot_be_read_is_told_of_and_tried_again(public_path: Path, as_nobody: AsNobody) -> None:
    root = pictures(public_path / "data", 3)
    os.chmod(root, 0o777)  # noqa: S103 - the point of it
    as_nobody(lambda: index(root))
    os.chmod(f"{root}/001.tar", 0)
    report = as_nobody(lambda: index(root, media=ALL))

    assert (of(report).state, of(report).counts, of(report).read) == ("incomplete", {"image": 6}, 2)
    assert [(f.severity, f.shard) for f in report.findings] == [("error", "001.tar")]

    os.chmod(f"{root}/001.tar", 0o644)
    again = as_nobody(lambda: index(root))
    assert (of(again).state, of(again).read, widths(root)) == ("made", 1, numbered(9))


RUN = """
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
index({root!r}, media=MediaRequest(selection="auto"))
"""


def test_killed_and_run_again_only_the_rest_is_looked_at(tmp_path: Path) -> None:
    root = pictures(tmp_path, 8)
    units = Path(locate(root).media_work_folder)
    script = program("media", RUN.format(root=root))
    killed = subprocess.run([sys.executable, "-c", script], cwd=REPO, check=False)
    done = len(finished(units))
    told = Told()
    report = index(root, media=ALL, progress=told)

    assert (killed.returncode, done) == (-signal.SIGKILL, 3)
    assert ("media", 8 - done) in [(name, items) for name, items, _ in told.phases]
    assert (of(report).state, widths(root)) == ("made", numbered(24))
    assert not units.exists()


def finished(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")] if folder.exists() else []


def test_a_unit_that_was_damaged_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pictures(tmp_path, 2)

    def stop() -> None:
        raise KeyboardInterrupt

    index(root)
    with pytest.raises(KeyboardInterrupt):
        index(root, media=ALL, progress=Told(at_advance=stop))
    units = Path(locate(root).media_work_folder)
    [unit] = finished(units)
    (units / unit).write_bytes(b"?" * 40)
    index(root, media=ALL)

    assert widths(root) == numbered(6)


def test_videos_are_indexed_for_seeking_on_request_and_then_brought_along(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, a_medley())
    indexed = "SELECT key, part FROM keyframes JOIN v_media ON v_media.id = sample"
    assert of(index(root, media=ALL)).keyframes is False
    assert query(catalog_of(root), indexed) == []
    assert of(index(root, media=MediaRequest(keyframes=True))).keyframes is True
    assert query(catalog_of(root), indexed) == [("3", "mp4")]

    a_dataset(tmp_path, {"c.tar": {"7.mp4": clip()}})
    index(root)
    assert query(catalog_of(root), indexed) == [("3", "mp4"), ("7", "mp4")]


def test_progress_tells_the_phase_with_shards_and_bytes(tmp_path: Path) -> None:
    told = Told()
    root = pictures(tmp_path, 3)
    index(root, media=ALL, progress=told)
    assert ("media", 3, sum(path.stat().st_size for path in tmp_path.glob("*.tar"))) in told.phases


@pytest.mark.usefixtures("faulty_store")
def test_facts_of_a_dataset_at_a_url_are_those_of_the_same_on_a_disk(tmp_path: Path) -> None:
    url, catalog = uploaded(a_dataset(tmp_path / "disk", a_medley()), "faulty://bucket/media"), str(tmp_path / "meta")
    index(str(tmp_path / "disk"), media=ALL)
    index(url, catalog=catalog, media=ALL)

    facts = "SELECT * FROM v_media"
    assert query(os.path.join(catalog, "catalog.sqlite"), facts) == query(catalog_of(tmp_path / "disk"), facts)


def test_prepare_asks_for_media_too_and_remembers(tmp_path: Path) -> None:
    root = pictures(tmp_path, 1)
    report = prepare(root, None, PrepareRequest(index=IndexRequest(media=MediaRequest(selection="png"))))
    assert report.index is not None
    assert of(report.index).counts == {"image": 3}
    pictures(tmp_path, 1, first=1)
    again = prepare(root)
    assert again.index is not None
    assert of(again.index).counts == {"image": 6}
    with pytest.raises(UsageError):
        prepare(root, None, PrepareRequest(index=IndexRequest(media=MediaRequest(selection="a b"))))


def test_inspect_shows_the_facts_from_the_catalog_and_reads_no_medium(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, a_medley())
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


def values(root: str, name: str, generation: int = 1) -> list[int]:
    return [int(value) for value in read_column_values(locate(root), name, generation)]


def test_columns_are_made_of_facts_of_media_in_one_go(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, a_medley())
    wanted = {
        "w": "media:jpg:width",
        "h": "media:jpg:height",
        "p": "media:jpg:pixels",
        "a": "media:jpg:aspect_milli",
        "ms": "media:mp4:duration_ms",
        "f": "media:mp4:frames",
        "r": "media:wav:rate",
        "s": "media:wav:samples",
    }
    index(root, media=ALL, columns=wanted)

    assert values(root, "w") == [40, 0, 0, 0, 0, 0]  # as seen: it lies on its side
    assert values(root, "h") == [60, 0, 0, 0, 0, 0]
    assert values(root, "p") == [2400, 0, 0, 0, 0, 0]
    assert values(root, "a") == [666, 0, 0, 0, 0, 0]
    assert values(root, "ms") == [0, 0, 333, 0, 0, 0]
    assert values(root, "f") == [0, 0, 8, 0, 0, 0]
    assert values(root, "r") == [0, 0, 0, 8000, 0, 0]
    assert values(root, "s") == [0, 0, 0, 800, 0, 0]


def test_a_column_of_facts_follows_them(tmp_path: Path) -> None:
    root = pictures(tmp_path, 2)
    index(root, media=ALL, columns={"w": "media:png:width"})
    rewritten(tmp_path / "001.tar", {"0003.png": an_image("PNG", (77, 5))})
    pictures(tmp_path, 1, first=2)
    report = index(root)

    assert [column.state for column in report.columns] == ["made"]
    assert sorted(values(root, "w", 2)) == [1, 2, 3, 7, 8, 9, 77]
    assert [column.state for column in index(root).columns] == ["current"]


def test_a_column_of_facts_is_refused_where_there_are_none_and_out_of_date_where_they_were_dropped(
    tmp_path: Path,
) -> None:
    root = pictures(tmp_path, 1)
    with pytest.raises(UsageError, match="no media facts") as caught:
        index(root, columns={"w": "media:png:width"})
    assert "--media png" in caught.value.hint

    index(root, media=ALL, columns={"w": "media:png:width"})
    report = index(root, media=MediaRequest(drop=True))
    assert [column.state for column in report.columns] == ["outdated"]
    assert [(f.code, f.severity) for f in report.findings] == [("WDS314", "warning")]
