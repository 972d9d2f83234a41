from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.errors import Finding
from wdsctl.core.job_results import ResultFolder
from wdsctl.core.media.catalog_facts import MediaMeasures, SharedFacts
from wdsctl.core.media.media_scan import MediaScan, ScannedMedium, decode_media_scan, encode_media_scan

SCAN = MediaScan(
    (
        ScannedMedium(0, "jpg", 7, SharedFacts("image", "JPEG", "RGB", orientation=1), MediaMeasures(48, 32)),
        ScannedMedium(
            1, "mp4", 9, SharedFacts("video", "mp4", codec="h264"), MediaMeasures(64, 48, 1 / 3, 8, 24, 1), b"WKI1..."
        ),
        ScannedMedium(3, "mp4", 9, SharedFacts("unreadable", reason="it is empty"), MediaMeasures()),
        ScannedMedium(4, "mp4", 9, SharedFacts("video", "mp4", codec="h264"), MediaMeasures(), b"\0"),
    ),
    (Finding(code="WDS320", severity="warning", message="it is empty", shard="a.tar", key="3", part="mp4"),),
    (7,),
)


@pytest.mark.parametrize("scan", [SCAN, MediaScan(())])
def test_media_scan_round_trips_through_result_folder(tmp_path: Path, scan: MediaScan) -> None:
    results: ResultFolder[str, MediaScan] = ResultFolder(str(tmp_path), str, encode_media_scan, decode_media_scan)
    results.save(["a"], [scan])
    assert results.load("a") == scan


def test_encode_media_scan_of_unreadable_shard_is_none() -> None:
    assert encode_media_scan(None, MediaScan((), SCAN.findings, is_unreadable=True)) is None
