"""What a scan notices while members go by: counts of what is odd, one finding a kind, with the first place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.findings import Finding
from wdsctl.core.member_names import strings
from wdsctl.core.members import LONGEST_NAME, Odd
from wdsctl.core.naming import split_name
from wdsctl.core.plain_members import Ints, Members

_SLASH = ord("/")


class Noticed:
    """Counts what is odd while members go by; one finding a kind, with the first place."""

    def __init__(self, shard: str) -> None:
        self.shard = shard
        self.first: dict[str, Finding] = {}
        self.counts: dict[str, int] = {}

    def note(self, finding: Finding, count: int = 1) -> None:
        self.first.setdefault(finding.code, finding)
        self.counts[finding.code] = self.counts.get(finding.code, 0) + count

    def odd(self, member: Odd) -> None:
        if member.is_too_long:
            message = f"members whose names have more than {LONGEST_NAME:,} bytes, such as {member.name!r}..."
            finding = Finding(code="WDS165", severity="error", message=message, shard=self.shard, offset=member.offset)
            self.note(finding)
            return
        split = None if member.is_folder else split_name(member.name)
        if split is None:
            message = f"members that are no regular files, such as {member.name!r}"
            self.note(Finding(code="WDS111", severity="note", message=message, shard=self.shard, offset=member.offset))
            return
        message = "parts that are links, or otherwise no regular files: their samples are without them"
        finding = Finding(
            code="WDS118",
            severity="warning",
            message=message,
            shard=self.shard,
            key=split[0],
            part=split[1],
            offset=member.offset,
        )
        self.note(finding)

    def nameless(self, members: Members, which: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(which)
        name = strings(members.names[rows[:1]])[0].decode("utf-8", "backslashreplace")
        message = f"members whose names make no key, such as {name!r}"
        offset = int(members.header[rows[0]])
        self.note(Finding(code="WDS112", severity="note", message=message, shard=self.shard, offset=offset), len(rows))

    def leading_out(self, members: Members) -> None:
        """Names that an archiver would not unpack as they are: absolute ones, and those with `..` in them."""
        names = members.names
        is_absolute = names[:, 0] == _SLASH
        if not is_absolute.any() and b".." not in names.tobytes():
            return
        all_names = strings(names)
        rows = [i for i, name in enumerate(all_names) if is_absolute[i] or b".." in name.split(b"/")]
        if rows:
            name = all_names[rows[0]].decode("utf-8", "backslashreplace")
            message = f"names that lead out of any folder they are unpacked in, such as {name!r}"
            offset = int(members.header[rows[0]])
            finding = Finding(code="WDS128", severity="warning", message=message, shard=self.shard, offset=offset)
            self.note(finding, len(rows))

    def empty(self, members: Members) -> None:
        rows = np.flatnonzero(members.size == 0)
        if len(rows):
            name = strings(members.names[rows[:1]])[0].decode("utf-8", "backslashreplace")
            key, _, part = name[name.rfind("/") + 1 :].partition(".")
            finding = Finding(
                code="WDS110",
                severity="warning",
                message="parts of 0 bytes",
                shard=self.shard,
                key=name[: name.rfind("/") + 1] + key,
                part=part,
                offset=int(members.header[rows[0]]),
            )
            self.note(finding, len(rows))

    def utf8(self, blob: bytes, sizes: Ints) -> tuple[bytes, Ints]:
        """The keys as valid UTF-8: odd bytes become \\xNN."""
        if _all_utf8(blob, sizes):
            return blob, sizes
        ends = np.cumsum(sizes).tolist()
        raw = [blob[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        keys = [key.decode("utf-8", "backslashreplace") for key in raw]
        odd = [text for text, key in zip(keys, raw, strict=True) if text.encode() != key]
        finding = Finding(code="WDS116", severity="warning", message="keys are not UTF-8", shard=self.shard, key=odd[0])
        self.note(finding, len(odd))
        encoded = [key.encode() for key in keys]
        return b"".join(encoded), np.array([len(key) for key in encoded], np.int64)

    def findings(self) -> Iterator[Finding]:
        for code, finding in self.first.items():
            yield replace(finding, count=self.counts[code])


def _all_utf8(blob: bytes, sizes: Ints) -> bool:
    """Whether each of these keys, joined in `blob`, is UTF-8: the whole is, and none begins inside a letter."""
    starts = np.cumsum(sizes) - sizes
    if (np.frombuffer(blob, np.uint8)[starts] & 0xC0 == 0x80).any():
        return False
    try:
        blob.decode()
    except UnicodeDecodeError:
        return False
    return True
