from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.build import a_dataset, an_image
from tests.cli.conftest import Stream, Wdsctl, a_tar
from tests.core.media_files import a_media_file
from tests.energon import SPLIT, an_energon_dataset


@pytest.fixture
def indexed(wdsctl: Wdsctl, shards: Path) -> Path:
    assert wdsctl("index", shards).code == 0
    return shards


def test_inspect_json_document_has_all_fields(wdsctl: Wdsctl, indexed: Path) -> None:
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
        "statuses",
        "looked_at",
        "parts",
        "splits",
        "shard_list",
        "first",
        "stale",
        "columns",
        "media",
        "excluded",
        "polylithic",
        "absent_fields",
        "views",
    }


def test_inspect_names_energon_splits_that_are_not_imported(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = an_energon_dataset(tmp_path, split=SPLIT.replace("{0..2}", "{0..7}"))
    wdsctl("index", root)
    shown = wdsctl("inspect", root).stdout
    assert "no splits yet: those of .nv-meta/split.yaml are not imported (`wdsctl index" in shown


@pytest.mark.parametrize("samples", ["1", "5", "1e1"])
def test_inspect_samples_limits_number_of_samples(wdsctl: Wdsctl, indexed: Path, samples: str) -> None:
    assert len(wdsctl("inspect", indexed, "--samples", samples, "--json").document["shown"]) == float(samples)


def test_inspect_zero_samples_prints_summary_only(wdsctl: Wdsctl, indexed: Path) -> None:
    assert wdsctl("inspect", indexed, "--samples", 0, "--json").document["first"] == []


def test_inspect_prints_summary_lines(wdsctl: Wdsctl, indexed: Path) -> None:
    result = wdsctl("inspect", indexed)
    assert result.code == 0
    assert result.stdout.startswith(f"{indexed}: 10 shards, 30 samples, ")
    assert "no splits yet" in result.stdout


def test_inspect_prints_relative_paths(wdsctl: Wdsctl, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(indexed.parent)
    lines = wdsctl("inspect", "shards").stdout.splitlines()
    assert lines[0].startswith("shards: 10 shards")
    assert lines[2].startswith("  catalog      shards/.wdsctl/catalog.sqlite")


def test_inspect_json_document_has_media_facts(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "films", {"a.tar": {"1.mp4": a_media_file("mp4", video="libx264"), "1.txt": b"words"}})
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


def test_inspect_exits_with_5_for_missing_offsets_file(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    assert wdsctl("inspect", shards).code == 0
    (shards / ".wdsctl" / "offsets-1.bin").unlink()
    assert wdsctl("inspect", shards).code == 5


def test_inspect_exits_with_5_for_truncated_shard(wdsctl: Wdsctl, truncated: Path) -> None:
    wdsctl("index", truncated)
    assert wdsctl("inspect", truncated).code == 5


def test_inspect_omits_empty_tables(wdsctl: Wdsctl, tmp_path: Path) -> None:
    a_tar(tmp_path / "s" / "a.tar", {"readme": b"1"})
    wdsctl("index", tmp_path / "s")
    shown = wdsctl("inspect", tmp_path / "s").stdout
    assert "#empty" not in shown
    assert "share" not in shown
    assert "no splits yet" not in shown


def test_inspect_help_text_has_relative_paths(wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shards.parent)
    result = wdsctl("inspect", "shards")
    assert result.stderr.splitlines()[-1] == (
        "  help: run `wdsctl prepare shards` to create one; or pass the folder of an existing catalog: "
        "`--catalog DIR`, or `catalog=` in Python"
    )


@pytest.fixture
def mixed_dataset(wdsctl: Wdsctl, tmp_path: Path) -> str:
    members = {
        "k.jpg": an_image("JPEG"),
        "k.txt": b"\x1b[2Jclear " + "wörds and blanks ".encode() * 20,
        "k.json": b'{"caption": "a cat", "nothing": null, "box": [1, 2]}',
        "k.bin": bytes(range(256)),
        "k.mp4": a_media_file("mp4", video="libx264"),
    }
    root = a_dataset(tmp_path / "medley", {"a.tar": members})
    wdsctl("index", root)
    return root


def test_inspect_key_prints_parts_of_sample(wdsctl: Wdsctl, mixed_dataset: str) -> None:
    result = wdsctl("inspect", mixed_dataset, "--key", "k")
    lines = result.stdout.splitlines()

    assert (result.code, lines[2].startswith("k  in a.tar, position 0, ")) == (0, True)
    assert "  jpg" in result.stdout
    assert "48x32 JPEG RGB" in result.stdout
    assert any(line.startswith(r"    \x1b[2Jclear wörds") for line in lines)
    assert '      "box": [1, 2]' in lines
    assert "    00  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................" in lines
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("images", ["auto", "blocks", "kitty", "iterm", "sixel", "none"])
def test_inspect_draws_images_on_terminal_and_escapes_data(
    wdsctl: Wdsctl, mixed_dataset: str, monkeypatch: pytest.MonkeyPatch, images: str
) -> None:
    for name in ("KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL", "TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    shown = wdsctl(
        "inspect", mixed_dataset, "--samples", "1", "--images", images, stdout=Stream(is_terminal=True)
    ).stdout

    marks = {"kitty": "\x1b_G", "iterm": "\x1b]1337;File=", "sixel": "\x1bP0;1q", "blocks": "▀", "auto": "▀"}
    assert {mark for mark in marks.values() if mark in shown} == ({marks[images]} if images in marks else set())
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown.replace("\x07\n", "")  # the terminators of iTerm2's escapes
    plain = re.sub(r"\x1b\[[\d;]*m|\x1b_G.*?\x1b\\|\x1b\]1337.*?\x07|\x1bP.*?\x1b\\", "", shown)
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines()[1:])) <= 80


def test_inspect_no_color_draws_no_images(wdsctl: Wdsctl, mixed_dataset: str) -> None:
    shown = wdsctl("inspect", mixed_dataset, "--samples", "1", "--no-color", stdout=Stream(is_terminal=True)).stdout
    assert ("▀" in shown, "\x1b" in shown) == (False, False)


def test_inspect_key_json_document_has_values_of_parts(wdsctl: Wdsctl, mixed_dataset: str) -> None:
    (sample,) = wdsctl("inspect", mixed_dataset, "--key", "k", "--json").document["shown"]
    parts = {part["name"]: part for part in sample["parts"]}
    assert parts["json"]["value"] == {"caption": "a cat", "nothing": None, "box": [1, 2]}
    assert (parts["jpg"]["facts"]["width"], parts["mp4"]["facts"]["codec"]) == (48, "h264")
    assert parts["bin"]["head_hex"].startswith("000102")


def test_inspect_stats_prints_table_and_json_document(wdsctl: Wdsctl, indexed: Path) -> None:
    shown = wdsctl("inspect", indexed, "--stats", "--random", "7", "--seed", "3")
    assert shown.code == 0
    assert "contents: of 7 samples (175 B) that were read, drawn by seed 3" in shown.stdout
    assert max(map(len, shown.stdout.splitlines()[1:])) <= 80
    document = wdsctl("inspect", indexed, "--stats", "--random", "7", "--seed", "3", "--json").document
    assert (document["samples"], document["read"], document["seed"]) == (30, 7, 3)
    assert {key["path"] for key in document["keys"]} == {"caption"}


def test_inspect_prints_blend_file_as_tree(wdsctl: Wdsctl, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wdsctl("split", indexed, "8,1,1")
    monkeypatch.chdir(indexed.parent)
    Path("blend.yaml").write_text("splits: {train: {blend: [{path: shards, weight: 3}, {path: none}]}}")
    result = wdsctl("inspect", "blend.yaml", "--samples", "1e3")
    assert result.code == 5
    assert "  ├ shards" in result.stdout
    assert "error[WDS002]" in result.stdout
    assert "  --> blend.yaml:1 (train)" in result.stdout
    (split,) = wdsctl("inspect", "blend.yaml", "--json").document["splits"]
    assert split["tree"]["children"][0]["children"][0]["share"] == 0.75


@pytest.mark.parametrize(
    "words",
    [
        ["--key", "a", "--random", "2"],
        ["--samples", "1", "--random", "2"],
        ["--stats", "--key", "a"],
        ["--seed", "1"],
        ["--shard", "a.tar"],
        ["--split", "train"],
        ["--samples", "-1"],
        ["--samples", "many"],
    ],
)
def test_inspect_exits_with_2_for_invalid_options(wdsctl: Wdsctl, indexed: Path, words: list[str]) -> None:
    result = wdsctl("inspect", indexed, *words)
    assert (result.code, result.stdout) == (2, "")
