"""What was found in the media of one shard, or among some files, and the file that keeps it until the merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from wdsctl.core.checked_file import UNFIT, load_checked, save_checked
from wdsctl.core.findings import Finding
from wdsctl.core.media.stored import Form, Numbers


class FoundMedium(NamedTuple):
    """One medium. `row`: the place of its sample in the shard, or of the file among those of the unit."""

    row: int
    part: str
    size: int  # bytes
    form: Form
    numbers: Numbers
    keyframes: bytes | None = None  # of a video that was indexed for seeking


@dataclass(frozen=True, slots=True)
class Found:
    """`failed`: files that could not be read, by row; the next run tries them again. Of a shard, always empty."""

    media: tuple[FoundMedium, ...]
    findings: tuple[Finding, ...] = ()
    failed: tuple[int, ...] = ()


def save_found(found: Found, path: str) -> None:
    forms: dict[Form, int] = {}
    parts: dict[str, int] = {}
    rows = [
        [
            each.row,
            parts.setdefault(each.part, len(parts)),
            each.size,
            forms.setdefault(each.form, len(forms)),
            len(each.keyframes or b""),
            *each.numbers,
        ]
        for each in found.media
    ]
    facts = {
        "parts": list(parts),
        "forms": list(forms),
        "media": rows,
        "findings": [asdict(finding) for finding in found.findings],
        "failed": found.failed,
    }
    save_checked(path, facts, [each.keyframes or b"" for each in found.media])


def load_found(path: str) -> Found | None:
    """What was saved; None where the file was damaged."""
    loaded = load_checked(path)
    if loaded is None:
        return None
    try:
        return _found(*loaded)
    except UNFIT:
        return None


def _found(facts: Mapping[str, Any], data: memoryview) -> Found:
    forms = [Form(*form) for form in facts["forms"]]
    at, media = 0, []
    for row, part, size, form, indexed, *numbers in facts["media"]:
        if min(row, part, size, form, indexed) < 0:
            raise ValueError(row)
        blob = bytes(data[at : at + indexed]) or None
        at += indexed
        media.append(FoundMedium(row, facts["parts"][part], size, forms[form], Numbers(*numbers), blob))
    findings = tuple(Finding(**finding) for finding in facts["findings"])
    return Found(tuple(media), findings, tuple(facts["failed"]))
