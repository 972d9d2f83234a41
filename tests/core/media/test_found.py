from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.findings import Finding
from wdsctl.core.media.found import Found, FoundMedium, load_found, save_found
from wdsctl.core.media.stored import Form, Numbers

FOUND = Found(
    (
        FoundMedium(0, "jpg", 7, Form("image", "JPEG", "RGB", orientation=1), Numbers(48, 32)),
        FoundMedium(1, "mp4", 9, Form("video", "mp4", codec="h264"), Numbers(64, 48, 1 / 3, 8, 24, 1), b"WKI1..."),
        FoundMedium(3, "mp4", 9, Form("unreadable", reason="it is empty"), Numbers()),
        FoundMedium(4, "mp4", 9, Form("video", "mp4", codec="h264"), Numbers(), b"\0"),
    ),
    (Finding(code="WDS320", severity="warning", message="it is empty", shard="a.tar", key="3", part="mp4"),),
    (7,),
)


@pytest.mark.parametrize("found", [FOUND, Found(())])
def test_what_is_saved_is_loaded(tmp_path: Path, found: Found) -> None:
    save_found(found, str(tmp_path / "a"))
    assert load_found(str(tmp_path / "a")) == found


def test_a_damaged_file_is_nothing(tmp_path: Path) -> None:
    save_found(FOUND, str(tmp_path / "a"))
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1])
    assert load_found(str(tmp_path / "a")) is None
