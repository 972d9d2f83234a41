"""Looks at one part, or one file, that may be a medium."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wdsctl.core.findings import Finding
from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Facts, Unreadable, VideoFacts
from wdsctl.core.media.found import FoundMedium
from wdsctl.core.media.probe import probe
from wdsctl.core.media.selection import Claim
from wdsctl.core.media.stored import stored
from wdsctl.core.sniff import sniff
from wdsctl.core.storage import Storage

HEAD = 64 << 10  # bytes of every part that are read in one go with those of others: most headers end in them
AT_ONCE = 256  # parts whose heads are read together


class Candidate(NamedTuple):
    """Something that may be a medium, and where it is. `name`: the sample's key, or the file's path."""

    row: int
    name: str
    part: str
    path: str
    offset: int
    size: int
    claim: Claim


def look(storage: Storage, candidate: Candidate, head: bytes) -> Facts | Unreadable | None:
    """Its facts; None where its content says that it is no medium, and its name does not say that it is one.

    Raises what reading raises. Cost: some 0.1 to 10 ms, and pages of 256 KiB behind the head where they are needed.
    """
    content = sniff(head, candidate.size)
    if content.kind in ("image", "audio", "video"):
        source = ByteRange.of(storage, candidate.path, candidate.offset, candidate.size, head=head)
        return probe(source, content)
    if candidate.claim == "maybe":
        return None
    return Unreadable(reason="it is empty" if content.kind == "empty" else "its content is no image, sound or video")


def medium_of(
    storage: Storage, candidate: Candidate, facts: Facts | Unreadable, *, keyframes: bool = False
) -> FoundMedium:
    """What the catalog is to keep of it; with `keyframes`, where a video can be entered. That reads the whole video."""
    index = None
    if keyframes and isinstance(facts, VideoFacts):
        from wdsctl.core.media.seeking import keyframes_of

        source = ByteRange.whole(storage, candidate.path, candidate.offset, candidate.size)
        index = keyframes_of(source, facts.format)
    return FoundMedium(candidate.row, candidate.part, candidate.size, *stored(facts), index)


def unreadable_findings(unreadable: Iterable[tuple[Candidate, str]], shard: str) -> list[Finding]:
    """What could not be read, one finding a part and reason. `shard`: where a sample is; of files, empty."""
    first: dict[tuple[str, str], Candidate] = {}
    counts: dict[tuple[str, str], int] = {}
    for candidate, reason in unreadable:
        kind = (candidate.part, reason)
        first.setdefault(kind, candidate)
        counts[kind] = counts.get(kind, 0) + 1
    return [
        Finding(
            code="WDS320",
            severity="warning",
            message=reason,
            shard=shard or candidate.name,
            key=candidate.name if shard else "",
            part=part if shard else "",
            count=counts[part, reason],
        )
        for (part, reason), candidate in first.items()
    ]
