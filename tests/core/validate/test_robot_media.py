"""`validate` of a LeRobot dataset in place also checks its videos and images, which are not in shards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.prepare_requests import prepare_request
from tests.robots import CAMERAS, make_v21, make_v30
from wdsctl.core.errors import Finding
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.validate import validate


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = make_v21(tmp_path / "set")
    prepare(path, None, prepare_request(format_options={"drop": CAMERAS[1]}))
    return Path(path)


def check(root: Path, **request: object) -> list[Finding]:
    return [each for each in validate(str(root), ValidateRequest(**request)).findings if each.severity == "error"]  # type: ignore[arg-type]


def test_valid_videos_give_no_finding(root: Path) -> None:
    assert not check(root)


def test_missing_and_damaged_videos_are_both_reported(root: Path) -> None:
    missing, damaged, valid = sorted((root / "videos").rglob(f"*{CAMERAS[0]}/*.mp4"))
    missing.unlink()
    damaged.write_bytes(damaged.read_bytes()[:200])
    found = check(root)
    assert [each.code for each in found] == ["WDS231", "WDS233"]
    assert missing.name in found[0].message
    assert damaged.name in found[1].message
    assert valid.exists()


def test_level_content_decodes_videos(root: Path) -> None:
    video = next((root / "videos").rglob(f"*{CAMERAS[0]}/episode_000000.mp4"))
    data = bytearray(video.read_bytes())
    at = data.index(b"mdat") + 750  # past the text that the encoder leaves at the start
    data[at : at + 300] = bytes(byte ^ 0x5A for byte in data[at : at + 300])
    video.write_bytes(data)
    assert not check(root)
    (found,) = check(root, levels=("structure", "headers", "content"))
    assert found.code == "WDS233"
    assert "not every frame can be decoded" in found.message


def test_video_of_excluded_feature_is_not_checked(root: Path) -> None:
    for path in (root / "videos").rglob(f"*{CAMERAS[1]}/*.mp4"):
        path.unlink()
    assert not check(root)


def test_unreadable_metadata_is_reported(root: Path) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps({**info, "total_frames": 5}))
    assert [each.code for each in check(root)] == ["WDS233"]


def test_check_of_some_shards_opens_no_video(root: Path) -> None:
    next((root / "videos").rglob(f"*{CAMERAS[0]}/*.mp4")).unlink()
    assert not check(root, shards=("frames/**/*000000*",))


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_missing_or_truncated_image_file_is_reported(tmp_path: Path, damage: str) -> None:
    root = Path(make_v30(tmp_path / "set", cameras=(), has_images=True))
    prepare(str(root), None, prepare_request())
    assert not check(root)
    path = sorted(root.rglob("*.images"))[1]
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    (found,) = check(root)
    assert (found.code, found.shard) == ("WDS231", "frames/chunk-000/file-001.jsonl")
    assert ("is missing" in found.message) == (damage == "missing")
