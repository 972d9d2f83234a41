"""Findings of a tar scan: one per kind, with its first position and a count.

Some are about members (unusual names, links, sizes), others about the shard: its end, duplicate parts, repeated keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import Finding
from wdsctl.core.samples.naming import split_name
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_blocks import TarMembers, rows_to_bytes
from wdsctl.core.shards.tar_members import MAX_NAME_BYTES, ArchiveEnd, SpecialMember
from wdsctl.core.text import pluralize

_SLASH = ord("/")


class FindingCollector:
    """Counts the findings about members during a scan: one finding per kind, with the first position."""

    def __init__(self, shard: str) -> None:
        self.shard = shard
        self.first: dict[str, Finding] = {}
        self.counts: dict[str, int] = {}

    def add(self, finding: Finding, count: int = 1) -> None:
        self.first.setdefault(finding.code, finding)
        self.counts[finding.code] = self.counts.get(finding.code, 0) + count

    def add_special_member(self, member: SpecialMember) -> None:
        if member.is_too_long:
            message = f"members whose names have more than {MAX_NAME_BYTES:,} bytes, such as {member.name!r}..."
            finding = Finding(code="WDS165", severity="error", message=message, shard=self.shard, offset=member.offset)
            self.add(finding)
            return
        split = None if member.is_folder else split_name(member.name)
        if split is None:
            message = f"members that are not regular files, such as {member.name!r}"
            self.add(Finding(code="WDS111", severity="note", message=message, shard=self.shard, offset=member.offset))
            return
        message = "parts that are links or other special files (skipped)"
        finding = Finding(
            code="WDS118",
            severity="warning",
            message=message,
            shard=self.shard,
            key=split[0],
            part=split[1],
            offset=member.offset,
        )
        self.add(finding)

    def add_keyless_members(self, members: TarMembers, which: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(which)
        name = rows_to_bytes(members.names[rows[:1]])[0].decode("utf-8", "backslashreplace")
        message = f"members whose names have no key, such as {name!r}"
        offset = int(members.header_offsets[rows[0]])
        self.add(Finding(code="WDS112", severity="note", message=message, shard=self.shard, offset=offset), len(rows))

    def add_unsafe_names(self, members: TarMembers) -> None:
        """Report names that do not unpack as they are: absolute ones, and those with `..` in them."""
        names = members.names
        is_absolute = names[:, 0] == _SLASH
        if not is_absolute.any() and b".." not in names.tobytes():
            return
        all_names = rows_to_bytes(names)
        rows = [i for i, name in enumerate(all_names) if is_absolute[i] or b".." in name.split(b"/")]
        if rows:
            name = all_names[rows[0]].decode("utf-8", "backslashreplace")
            message = f"names that lead out of the folder in which the tar is unpacked, such as {name!r}"
            offset = int(members.header_offsets[rows[0]])
            finding = Finding(code="WDS128", severity="warning", message=message, shard=self.shard, offset=offset)
            self.add(finding, len(rows))

    def add_empty_parts(self, members: TarMembers) -> None:
        rows = np.flatnonzero(members.sizes == 0)
        if len(rows):
            name = rows_to_bytes(members.names[rows[:1]])[0].decode("utf-8", "backslashreplace")
            key, _, part = name[name.rfind("/") + 1 :].partition(".")
            finding = Finding(
                code="WDS110",
                severity="warning",
                message="parts of 0 bytes",
                shard=self.shard,
                key=name[: name.rfind("/") + 1] + key,
                part=part,
                offset=int(members.header_offsets[rows[0]]),
            )
            self.add(finding, len(rows))

    def normalize_keys(self, blob: bytes, sizes: Int64Array) -> tuple[bytes, Int64Array]:
        """Return the keys as valid UTF-8: bytes that are not UTF-8 become \\xNN."""
        if _are_all_utf8(blob, sizes):
            return blob, sizes
        ends = np.cumsum(sizes).tolist()
        raw = [blob[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        keys = [key.decode("utf-8", "backslashreplace") for key in raw]
        odd = [text for text, key in zip(keys, raw, strict=True) if text.encode() != key]
        finding = Finding(code="WDS116", severity="warning", message="keys are not UTF-8", shard=self.shard, key=odd[0])
        self.add(finding, len(odd))
        encoded = [key.encode() for key in keys]
        return b"".join(encoded), np.array([len(key) for key in encoded], np.int64)

    def findings(self) -> Iterator[Finding]:
        for code, finding in self.first.items():
            yield replace(finding, count=self.counts[code])


def _are_all_utf8(blob: bytes, sizes: Int64Array) -> bool:
    """Whether each of the keys joined in `blob` is UTF-8: `blob` is, and no key begins inside a character."""
    starts = np.cumsum(sizes) - sizes
    if (np.frombuffer(blob, np.uint8)[starts] & 0xC0 == 0x80).any():
        return False
    try:
        blob.decode()
    except UnicodeDecodeError:
        return False
    return True


_MAX_DIRECT_KEYS = 100  # samples; the keys of more are compared by hash
_ROWS = 1 << 16  # keys hashed at a time


def ending_findings(
    shard: str, ending: ArchiveEnd, samples: int, compressed: str = "", hidden_samples: int = 0
) -> Iterator[Finding]:
    """Yield the finding about the end of a file, or about a shard without samples.

    `compressed`: the compression of a file that is not a tar. `hidden_samples`: samples after the end-of-archive
    marker.
    """
    name = ending.name.decode("utf-8", "backslashreplace")
    member = f"member {name!r} " if name else "the last member "
    hidden = f": {pluralize(hidden_samples, 'sample')}" if hidden_samples else ""
    messages = {
        "truncated": (
            "WDS102",
            "error",
            f"truncated: {member}needs {ending.missing_bytes:,} more bytes than the file has",
        ),
        "bad header": ("WDS103", "error", "damaged header; everything after it is skipped"),
        "not a tar": ("WDS101", "error", "not a tar file"),
        "no mark": ("WDS114", "warning", "no end-of-archive marker: the shard may be cut off"),
        "trailing data": (
            "WDS117",
            "error" if hidden_samples else "warning",
            f"data after the end-of-archive marker, where readers stop{hidden}",
        ),
    }
    if compressed:
        message = f"compressed with {compressed}, but the name does not say so; `wdsctl convert` decompresses it"
        yield Finding(code="WDS113", severity="error", message=message, shard=shard, offset=0)
    elif ending.kind in messages:
        code, severity, message = messages[ending.kind]
        if samples and severity == "error" and not hidden_samples:
            good = "sample before it is" if samples == 1 else f"{samples:,} samples before it are"
            message += f"; the {good} good"
        yield Finding(code=code, severity=severity, message=message, shard=shard, offset=ending.offset)  # type: ignore[arg-type]
    elif samples == 0:
        yield Finding(code="WDS115", severity="warning", message="no samples in this shard", shard=shard)


def duplicate_findings(shard: str, scan: ShardScan) -> Iterator[Finding]:
    """Yield findings about parts that repeat in a sample, and keys that repeat in the shard."""
    yield from _repeated_parts(shard, scan)
    if _may_repeat_keys(scan):
        yield from _repeated_keys(shard, scan, scan.decode_keys())


def _may_repeat_keys(scan: ShardScan) -> bool:
    """Whether a key repeats. For large shards, two different keys with one hash also count, which is rare."""
    if scan.samples <= _MAX_DIRECT_KEYS:
        return len(set(scan.decode_keys())) < scan.samples
    hashes = np.sort(_key_hashes(scan))
    return bool((hashes[1:] == hashes[:-1]).any())


def _key_hashes(scan: ShardScan) -> NDArray[np.uint64]:
    """Return a hash of each key. Equal keys have equal hashes; different ones rarely do.

    Much cheaper than a set of a million strings.
    """
    weights = np.random.default_rng(0).integers(1, 1 << 63, int(scan.key_sizes.max()), np.uint64) | np.uint64(1)
    letters = np.frombuffer(scan.keys, np.uint8)
    ends = np.cumsum(scan.key_sizes, dtype=np.int64)
    hashes = np.empty(scan.samples, np.uint64)
    for at in range(0, scan.samples, _ROWS):
        sizes = scan.key_sizes[at : at + _ROWS]
        first, last = int(ends[at] - sizes[0]), int(ends[at + len(sizes) - 1])
        starts = np.cumsum(sizes, dtype=np.int64) - sizes
        positions = np.arange(last - first) - np.repeat(starts, sizes)
        hashes[at : at + len(sizes)] = np.add.reduceat(letters[first:last] * weights[positions], starts)
    return hashes


def _repeated_parts(shard: str, scan: ShardScan) -> Iterator[Finding]:
    """Yield the finding about samples that hold a part twice."""
    samples = np.repeat(np.arange(scan.samples), scan.counts)
    codes = np.sort((samples << 32) + scan.part_names)
    twice = codes[1:][codes[1:] == codes[:-1]]
    if len(twice):
        row, name = divmod(int(twice[0]), 1 << 32)
        yield Finding(
            code="WDS107",
            severity="error",
            message="samples with a duplicate part",
            shard=shard,
            key=scan.decode_keys()[row],
            part=scan.extensions[name],
            offset=int(scan.offsets[row]),
            count=len(np.unique(twice >> 32)),
        )


def repeated_key_rows(scan: ShardScan, keys: list[str]) -> dict[str, list[int]]:
    """The samples whose key an earlier sample has, ascending, by the code of their finding.

    A key whose parts repeat, too, is a duplicate. Otherwise members of other samples separate the members of the key.
    """
    bounds = np.append(0, np.cumsum(scan.counts, dtype=np.int64)).tolist()
    parts_of = [set(scan.part_names[a:b].tolist()) for a, b in pairwise(bounds)]
    seen: dict[str, set[int]] = {}
    found: dict[str, list[int]] = {"WDS104": [], "WDS105": []}
    for row, key in enumerate(keys):
        if key in seen:
            found["WDS105" if seen[key] & parts_of[row] else "WDS104"].append(row)
            seen[key] |= parts_of[row]
        else:
            seen[key] = parts_of[row]
    return found


def _repeated_keys(shard: str, scan: ShardScan, keys: list[str]) -> Iterator[Finding]:
    """Yield findings about keys that repeat."""
    messages = {
        "WDS104": "keys whose files are not adjacent",
        "WDS105": "duplicate keys with the same parts",
    }
    for code, rows in repeated_key_rows(scan, keys).items():
        if rows:
            yield Finding(
                code=code,
                severity="error",
                message=messages[code],
                shard=shard,
                key=keys[rows[0]],
                offset=int(scan.offsets[rows[0]]),
                count=len(rows),
            )
