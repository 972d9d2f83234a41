"""The result of probing the media of a shard, or of some files, and its form in a result file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from wdsctl.core.errors import Finding
from wdsctl.core.job_results import EncodedResult
from wdsctl.core.media.catalog_facts import MediaMeasures, SharedFacts


class ScannedMedium(NamedTuple):
    """One medium. `row`: the position of its sample in the shard, or of the file in the unit."""

    row: int
    part: str
    size: int  # bytes
    media_format: SharedFacts
    measures: MediaMeasures
    keyframes: bytes | None = None  # the keyframe index of a video, if it was built


@dataclass(frozen=True, slots=True)
class MediaScan:
    """The media of a shard or of some files, with findings."""

    media: tuple[ScannedMedium, ...]
    findings: tuple[Finding, ...] = ()
    failed_rows: tuple[int, ...] = ()  # files that could not be read; the next run reads them again
    is_unreadable: bool = False  # the shard could not be read


def encode_media_scan(_unit: object, found: MediaScan) -> EncodedResult | None:
    """Encode a scan for a result file. Returns None for an unreadable shard, so that the next run scans it again."""
    if found.is_unreadable:
        return None
    forms: dict[SharedFacts, int] = {}
    parts: dict[str, int] = {}
    rows = [
        [
            each.row,
            parts.setdefault(each.part, len(parts)),
            each.size,
            forms.setdefault(each.media_format, len(forms)),
            len(each.keyframes or b""),
            *each.measures,
        ]
        for each in found.media
    ]
    facts = {
        "parts": list(parts),
        "forms": list(forms),
        "media": rows,
        "findings": [asdict(finding) for finding in found.findings],
        "failed": found.failed_rows,
    }
    return facts, [each.keyframes or b"" for each in found.media]


def decode_media_scan(_unit: object, facts: Mapping[str, Any], data: memoryview) -> MediaScan:
    forms = [SharedFacts(*form) for form in facts["forms"]]
    at, media = 0, []
    for row, part, size, form, indexed, *numbers in facts["media"]:
        if min(row, part, size, form, indexed) < 0:
            raise ValueError(row)
        blob = bytes(data[at : at + indexed]) or None
        at += indexed
        media.append(ScannedMedium(row, facts["parts"][part], size, forms[form], MediaMeasures(*numbers), blob))
    findings = tuple(Finding(**finding) for finding in facts["findings"])
    return MediaScan(tuple(media), findings, tuple(facts["failed"]))
