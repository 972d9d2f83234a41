"""`--media` for datasets of shards and for folders of media files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder
from tests.cli.conftest import Wdsctl
from tests.core.media_samples import an_image, media_shards, members


@pytest.fixture
def tars(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "tars", media_shards())


@pytest.fixture
def clips(tmp_path: Path) -> str:
    return a_folder(tmp_path / "clips", members())


def test_index_media_indexes_and_prints_media_facts(wdsctl: Wdsctl, tars: str) -> None:
    result = wdsctl("index", tars, "--media")

    assert result.code == 0
    assert "media by auto: 3 images, 1 audio file, 1 video, 2 unreadable" in result.stdout.splitlines()
    assert "warning[WDS320]: a media file is unreadable" in result.stdout
    assert wdsctl("index", tars).stdout.splitlines()[0].startswith(f"{tars}: up to date")


def test_json_documents_have_media_counts_lines_and_facts(wdsctl: Wdsctl, tars: str) -> None:
    media = wdsctl("index", tars, "--media", "jpg,mp4", "--json").document["media"]
    shown = wdsctl("inspect", tars, "--json").document

    assert (media["selection"], media["state"]) == ("jpg,mp4", "made")
    assert media["counts"] == {"image": 1, "video": 1, "unreadable": 2}
    assert shown["media"]["lines"] == media["lines"]
    clip = shown["first"][2]["parts"][0]
    assert (clip["facts"]["codec"], clip["facts"]["audio"]["rate_hz"]) == ("h264", 48_000)


def test_inspect_prints_media_table(wdsctl: Wdsctl, tars: str) -> None:
    assert "media by" not in wdsctl("inspect", tars, "--samples", "0").stdout + wdsctl("index", tars).stdout
    wdsctl("index", tars, "--media")
    lines = wdsctl("inspect", tars, "--samples", "0").stdout.splitlines()

    at = lines.index("media by auto: 3 images, 1 audio file, 1 video, 2 unreadable")
    assert lines[at + 1].split() == ["part", "kind", "media", "size", "width", "height", "total", "each", "format"]
    assert any(line.split()[:3] == ["mp4", "video", "1"] for line in lines[at + 2 :])


def test_index_drop_media_removes_media_facts(wdsctl: Wdsctl, tars: str) -> None:
    wdsctl("index", tars, "--media")
    assert "media by auto: none (dropped)" in wdsctl("index", tars, "--drop-media").stdout
    assert wdsctl("inspect", tars, "--json").document["media"] is None


def test_prepare_reads_media_facts(wdsctl: Wdsctl, tars: str, tmp_path: Path) -> None:
    result = wdsctl("prepare", tars, "--media", "mp4", "--media-index", "--no-input", "--json")
    assert result.document["index"]["media"]["keyframes"] is True

    raw = a_folder(tmp_path / "raw", {f"{i}.jpg": an_image() for i in range(3)})
    prepared = wdsctl("prepare", raw, tmp_path / "shards", "--media", "--no-input")
    assert "  media  media by auto: 3 images" in prepared.stdout.splitlines()


@pytest.mark.parametrize(
    "words", [["--media", "a b"], ["--media", "jpg", "--drop-media"], ["--media-index"], ["--media=a/b"]]
)
def test_index_exits_with_2_for_invalid_media_options(wdsctl: Wdsctl, tars: str, words: list[str]) -> None:
    result = wdsctl("index", tars, *words)
    assert (result.code, result.stdout) == (2, "")


def test_index_exits_with_5_if_media_selection_matches_nothing(wdsctl: Wdsctl, tars: str) -> None:
    result = wdsctl("index", tars, "--media", "tiff")
    assert (result.code, "error[WDS323]" in result.stdout) == (5, True)


@pytest.mark.parametrize("command", ["index", "prepare"])
def test_folder_of_media_gets_its_own_catalog(wdsctl: Wdsctl, clips: str, command: str) -> None:
    result = wdsctl(command, "--media", f"{clips}/", "--no-input")
    lines = result.stdout.splitlines()

    assert result.code == 0
    assert lines[0].startswith(f"{clips}: a folder of media, 7 files, ")
    assert "media by auto: 3 images, 1 audio file, 1 video, 2 unreadable" in lines
    repeated = wdsctl(command, clips, "--no-input")
    assert (repeated.code, repeated.stdout.splitlines()[0].startswith(f"{clips}: up to date (7 files")) == (0, True)


def test_inspect_describes_folder_of_media(wdsctl: Wdsctl, clips: str) -> None:
    wdsctl("index", clips, "--media")
    result = wdsctl("inspect", clips)
    lines = result.stdout.splitlines()

    assert result.code == 0
    assert lines[0].startswith(f"{clips}: a folder of media, 7 files, ")
    assert lines[-4] == "first files"
    assert lines[-3].split() == f"1.jpg {len(members()['1.jpg'])} B 60x40 JPEG RGB, EXIF orientation 6".split()
    assert wdsctl("inspect", clips, "--json").document["media"]["counts"]["image"] == 3

    Path(clips, "new.png").write_bytes(an_image("PNG"))
    stale = wdsctl("inspect", clips)
    assert (stale.code, "error[WDS305]" in stale.stdout) == (5, True)


@pytest.mark.parametrize("words", [["--column", "n=size:jpg"], ["--drop-column", "n"], ["--missing", "keep"]])
def test_index_refuses_shard_options_for_folder_of_media(wdsctl: Wdsctl, clips: str, words: list[str]) -> None:
    assert wdsctl("index", clips, "--media", *words).code == 2
    assert not Path(clips, ".wdsctl").exists()


@pytest.mark.parametrize("words", [["validate"], ["split", "8,1,1"]])
def test_commands_that_need_samples_refuse_folder_of_media(wdsctl: Wdsctl, clips: str, words: list[str]) -> None:
    wdsctl("index", clips, "--media")
    command, *ratios = words
    result = wdsctl(command, clips, *ratios, "--json")
    assert (result.code, result.document["error"]["code"]) == (3, "WDS322")


def test_index_without_media_refuses_folder_without_shards(wdsctl: Wdsctl, clips: str) -> None:
    result = wdsctl("index", clips, "--json")
    assert (result.code, result.document["error"]["code"]) == (3, "WDS003")


def test_index_media_dry_run_writes_nothing(wdsctl: Wdsctl, clips: str) -> None:
    result = wdsctl("index", clips, "--media", "--dry-run")
    assert (result.code, "would be read" in result.stdout) == (0, True)
    assert not Path(clips, ".wdsctl").exists()
