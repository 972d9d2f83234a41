"""What was found in the media of one shard, or among some files, and the file that keeps it until the merge."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import NamedTuple
from zlib import crc32

from wdsctl.core.files import write_whole
from wdsctl.core.findings import Finding
from wdsctl.core.media.stored import Form, Numbers
from wdsctl.core.os_errors import translated

_CHECK = 4  # bytes at the start of the file: the CRC-32 of the rest


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
    head = json.dumps(facts, separators=(",", ":")).encode()
    pieces = [len(head).to_bytes(8, "little"), head, *(each.keyframes or b"" for each in found.media)]
    check = _crc(pieces).to_bytes(_CHECK, "little")
    write_whole(path, lambda file: file.writelines([check, *pieces]), durable=False)


def load_found(path: str) -> Found | None:
    """What was saved; None where the file was damaged (its machine went down before it was written out)."""
    with translated(path, "read"), open(path, "rb") as file:
        check, data = file.read(_CHECK), file.read()
    if crc32(data).to_bytes(_CHECK, "little") != check or len(data) < 8:
        return None
    at = 8 + int.from_bytes(data[:8], "little")
    facts = json.loads(data[8:at])
    forms = [Form(*form) for form in facts["forms"]]
    media = []
    for row, part, size, form, indexed, *numbers in facts["media"]:
        blob = data[at : at + indexed] or None
        at += indexed
        media.append(FoundMedium(row, facts["parts"][part], size, forms[form], Numbers(*numbers), blob))
    findings = tuple(Finding(**finding) for finding in facts["findings"])
    return Found(tuple(media), findings, tuple(facts["failed"]))


def _crc(pieces: Iterable[bytes]) -> int:
    check = 0
    for piece in pieces:
        check = crc32(piece, check)
    return check
