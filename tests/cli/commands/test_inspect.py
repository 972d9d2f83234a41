from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset
from tests.cli.conftest import Wdsctl, a_tar
from tests.core.films import a_film


@pytest.fixture
def indexed(wdsctl: Wdsctl, shards: Path) -> Path:
    assert wdsctl("index", shards).code == 0
    return shards


def test_everything_is_in_the_document(wdsctl: Wdsctl, indexed: Path) -> None:
    document = wdsctl("inspect", indexed, "--json").document

    assert (document["schema"], document["command"]) == (1, "inspect")
    assert {part["name"]: part["samples"] for part in document["parts"]} == {"txt": 30, "json": 30}
    assert len(document["shard_list"]) == 10
    assert [sample["key"] for sample in document["first"]] == ["0/0000", "0/0001", "0/0002"]
    assert set(document) == {
        "schema",
        "command",
        "root",
        "catalog",
        "catalog_bytes",
        "generation",
        "sample_type",
        "field_map",
        "shards",
        "samples",
        "size_bytes",
        "parts",
        "splits",
        "shard_list",
        "first",
        "stale",
        "columns",
        "media",
    }


@pytest.mark.parametrize("samples", [0, 1, 5])
def test_as_many_first_samples_as_asked_for(wdsctl: Wdsctl, indexed: Path, samples: int) -> None:
    assert len(wdsctl("inspect", indexed, "--samples", samples, "--json").document["first"]) == samples


def test_people_read_lines(wdsctl: Wdsctl, indexed: Path) -> None:
    result = wdsctl("inspect", indexed)
    assert result.code == 0
    assert result.stdout.startswith(f"{indexed}: 10 shards, 30 samples, ")
    assert "no splits yet" in result.stdout


def test_paths_are_shown_as_people_type_them(wdsctl: Wdsctl, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(indexed.parent)
    lines = wdsctl("inspect", "shards").stdout.splitlines()
    assert lines[0].startswith("shards: 10 shards")
    assert lines[2].startswith("  catalog      shards/.wdsctl/catalog.sqlite")


def test_facts_of_media_are_objects_in_the_document(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "films", {"a.tar": {"1.mp4": a_film("mp4", video="libx264"), "1.txt": b"words"}})
    assert wdsctl("index", root).code == 0

    video, text = wdsctl("inspect", root, "--json").document["first"][0]["parts"]
    assert video["facts"] == {
        "kind": "video",
        "format": "mp4",
        "codec": "h264",
        "width": 64,
        "height": 48,
        "display_width": 64,
        "display_height": 48,
        "rotation": 0,
        "duration_s": pytest.approx(1 / 3),
        "fps": 24.0,
        "fps_ratio": [24, 1],
        "frames": 8,
        "frames_are": "stated",
        "has_audio": False,
        "audio": None,
    }
    assert text["facts"] is None
    assert "64x48 h264 24 fps 0.33 s, no sound" in wdsctl("inspect", root).stdout


def test_what_is_gravely_wrong_is_no_success(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    assert wdsctl("inspect", shards).code == 0
    (shards / ".wdsctl" / "offsets-1.bin").unlink()
    assert wdsctl("inspect", shards).code == 5


def test_a_bad_shard_is_no_success(wdsctl: Wdsctl, truncated: Path) -> None:
    wdsctl("index", truncated)
    assert wdsctl("inspect", truncated).code == 5


def test_tables_without_rows_are_left_out(wdsctl: Wdsctl, tmp_path: Path) -> None:
    a_tar(tmp_path / "s" / "a.tar", {"readme": b"1"})
    wdsctl("index", tmp_path / "s")
    shown = wdsctl("inspect", tmp_path / "s").stdout
    assert "#empty" not in shown
    assert "share" not in shown
    assert "no splits yet" not in shown


def test_paths_in_sentences_are_as_one_would_type_them_here(
    wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shards.parent)
    result = wdsctl("inspect", "shards")
    assert result.stderr.splitlines()[-1] == (
        "  help: `wdsctl prepare shards` makes it; one that is kept elsewhere is named by --catalog"
    )
