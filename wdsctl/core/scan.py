"""Scans one shard: which samples and parts it holds, where, and what is wrong with it. Reads headers, never data.

Members with one key that stand side by side are one sample. Cost: about 1 µs a member on one core; memory: about 60
bytes a sample of two parts for as long as the shard is scanned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.findings import Finding
from wdsctl.core.members import Bytes, Ending, Ints, Members, Odd, Read, walk

Status = Literal["ok", "partial", "bad", "unreadable"]

_DOT, _SLASH, _META = ord("."), ord("/"), ord("_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardScan:
    """The samples of one shard as columns, in tar order. Offsets are bytes from the start of the shard."""

    status: Status
    keys: bytes  # all keys, one after the other, UTF-8
    key_sizes: NDArray[np.uint32]  # (samples,)
    offsets: Ints  # (samples,): the first header of each sample
    sizes: Ints  # (samples,): from there to the end of its last part, padding included
    counts: NDArray[np.uint16]  # (samples,): parts of each
    extensions: tuple[str, ...]  # part names, in the order they first appear
    part_names: NDArray[np.uint16]  # (parts,): index into `extensions`
    part_offsets: Ints  # (parts,): first byte of the data
    part_sizes: Ints  # (parts,)
    findings: tuple[Finding, ...]

    @property
    def samples(self) -> int:
        return len(self.offsets)

    @property
    def code(self) -> str | None:
        """The code of what is gravely wrong with the shard, if anything is."""
        return next((finding.code for finding in self.findings if finding.severity == "error"), None)

    def layout_hash(self) -> str:
        """A name for where everything is: 32 hex digits. Two shards with one hash are read alike."""
        digest = blake2b(digest_size=16)
        columns = (self.key_sizes, self.offsets, self.counts, self.part_names, self.part_offsets, self.part_sizes)
        for column in (self.keys, "\0".join(self.extensions).encode(), *(c.tobytes() for c in columns)):
            digest.update(len(column).to_bytes(8, "little"))
            digest.update(column)
        return digest.hexdigest()

    def key_list(self, rows: slice = slice(None)) -> list[str]:
        """The keys of these samples."""
        ends = np.append(0, np.cumsum(self.key_sizes, dtype=np.int64))
        start, stop, _ = rows.indices(self.samples)
        first = int(ends[start])
        blob = self.keys[first : int(ends[stop])]
        bounds = (ends[start : stop + 1] - first).tolist()
        if blob.isascii():
            text = blob.decode("ascii")
            return [text[a:b] for a, b in pairwise(bounds)]
        return [blob[a:b].decode() for a, b in pairwise(bounds)]


@dataclass(slots=True)
class _Columns:
    """What a scan has gathered so far: a list of arrays a column."""

    keys: list[bytes]
    key_sizes: list[Ints]
    offsets: list[Ints]
    starts: list[Ints]  # index of each sample's first part
    names: list[NDArray[np.uint16]]
    part_offsets: list[Ints]
    part_sizes: list[Ints]
    parts: int
    last_key: bytes


def scan_shard(shard: str, read: Read, size: int) -> ShardScan:
    """Scan a shard of `size` bytes; `shard` is the name its findings carry. Raises what `read` raises, nothing else."""
    columns = _Columns([], [], [], [], [], [], [], 0, b"")
    table = _Extensions()
    noticed = _Noticed(shard)
    ending = Ending("not a tar", 0)
    for item in walk(read, size) if size else ():
        if isinstance(item, Members):
            _add(columns, item, table, noticed)
        elif isinstance(item, Odd):
            noticed.odd(item)
        else:
            ending = item
    return _finish(columns, table, noticed, ending)


class _Extensions:
    """Part names by number, in order of first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def number(self, name: bytes) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def encode(self, matrix: Bytes) -> NDArray[np.uint16]:
        """Numbers for names in rows of zero-padded bytes. A handful of distinct names is the case to be quick at."""
        width = matrix.shape[1]
        if width > 8:
            return np.array([self.number(name) for name in _strings(matrix)], np.uint16)
        words = np.zeros((len(matrix), 8), np.uint8)
        words[:, :width] = matrix
        codes = words.view(np.uint64).ravel()
        numbers = np.empty(len(codes), np.uint16)
        left = np.ones(len(codes), np.bool_)
        while left.any():
            code = codes[int(left.argmax())]
            same = codes == code
            numbers[same] = self.number(code.tobytes().rstrip(b"\0"))
            left &= ~same
        return numbers

    def list(self) -> tuple[str, ...]:
        return tuple(name.decode("utf-8", "backslashreplace") for name in self.numbers)


def _strings(matrix: Bytes) -> list[bytes]:
    """The rows as bytes, their zero padding gone."""
    rows: list[bytes] = np.ascontiguousarray(matrix).view(f"S{matrix.shape[1]}").ravel().tolist()
    return rows


def _add(columns: _Columns, members: Members, table: _Extensions, noticed: _Noticed) -> None:
    """Split names into keys and parts, and members into samples."""
    names, sizes, dots = members.names, _lengths(members.names), _first_dots(members.names)
    keyed = (dots > 0) & (dots < sizes - 1) & ~_is_meta(names, dots)
    if not keyed.all():
        noticed.nameless(members, ~keyed)
        names, sizes, dots = names[keyed], sizes[keyed], dots[keyed]
        members = Members(members.header[keyed], members.data[keyed], members.size[keyed], names)
    if len(names) == 0:
        return
    noticed.empty(members)
    keys = np.where(np.arange(names.shape[1]) < dots[:, None], names, 0).astype(np.uint8)
    first = np.ones(len(keys), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    first[0] = _strings(keys[:1])[0] != columns.last_key
    columns.last_key = _strings(keys[-1:])[0]
    _add_keys(columns, names[first], dots[first], noticed)
    columns.offsets.append(members.header[first])
    columns.starts.append(columns.parts + np.flatnonzero(first))
    columns.names.append(table.encode(_shifted(names, dots + 1, sizes)))
    columns.part_offsets.append(members.data)
    columns.part_sizes.append(members.size)
    columns.parts += len(names)


def _lengths(names: Bytes) -> Ints:
    lengths: Ints = (names != 0).sum(axis=1)
    return lengths


def _first_dots(names: Bytes) -> Ints:
    """Where the key ends in each name: the first dot of the file name. 0 where there is none or it begins with one."""
    dots = names == _DOT
    slashes = names == _SLASH
    if slashes.any():
        width = names.shape[1]
        start = np.where(slashes.any(axis=1), width - slashes[:, ::-1].argmax(axis=1), 0)
        dots &= np.arange(width) >= start[:, None]
        dots &= (dots.argmax(axis=1) > start)[:, None]
    found: Ints = dots.argmax(axis=1)
    return found


def _is_meta(names: Bytes, dots: Ints) -> NDArray[np.bool_]:
    """WebDataset's own members, `__name__...`."""
    meta = np.zeros(len(names), np.bool_)
    if names.shape[1] >= 4:
        for row in np.flatnonzero((names[:, 0] == _META) & (names[:, 1] == _META)):
            meta[row] = b"__" in names[row, 2 : dots[row]].tobytes()
    return meta


def _shifted(names: Bytes, starts: Ints, ends: Ints) -> Bytes:
    """Each row from its own start to its own end, padded with zeros."""
    widths = ends - starts
    across = np.arange(int(widths.max()))
    columns = np.minimum(starts[:, None] + across, names.shape[1] - 1)
    return np.where(across < widths[:, None], np.take_along_axis(names, columns, axis=1), 0).astype(np.uint8)


def _add_keys(columns: _Columns, names: Bytes, sizes: Ints, noticed: _Noticed) -> None:
    blob = names[np.arange(names.shape[1]) < sizes[:, None]].tobytes()
    if not blob.isascii():
        blob, sizes = noticed.utf8(blob, sizes)
    columns.keys.append(blob)
    columns.key_sizes.append(sizes)


# -- what is noticed on the way -------------------------------------------------------------------------------------


class _Noticed:
    """Counts what is odd while members go by; one finding a kind, with the first place."""

    def __init__(self, shard: str) -> None:
        self.shard = shard
        self.first: dict[str, Finding] = {}
        self.counts: dict[str, int] = {}

    def note(self, finding: Finding, count: int = 1) -> None:
        self.first.setdefault(finding.code, finding)
        self.counts[finding.code] = self.counts.get(finding.code, 0) + count

    def odd(self, member: Odd) -> None:
        message = f"members that are no regular files, such as {member.name!r}"
        self.note(Finding(code="WDS111", severity="note", message=message, shard=self.shard, offset=member.offset))

    def nameless(self, members: Members, which: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(which)
        name = _strings(members.names[rows[:1]])[0].decode("utf-8", "backslashreplace")
        message = f"members whose names make no key, such as {name!r}"
        offset = int(members.header[rows[0]])
        self.note(Finding(code="WDS112", severity="note", message=message, shard=self.shard, offset=offset), len(rows))

    def empty(self, members: Members) -> None:
        rows = np.flatnonzero(members.size == 0)
        if len(rows):
            name = _strings(members.names[rows[:1]])[0].decode("utf-8", "backslashreplace")
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
        try:
            blob.decode()
        except UnicodeDecodeError:
            ends = np.cumsum(sizes).tolist()
            keys = [blob[a:b].decode("utf-8", "backslashreplace") for a, b in zip([0, *ends], ends, strict=False)]
            bad = next(key for key in keys if "\\x" in key)
            self.note(
                Finding(code="WDS116", severity="warning", message="keys are not UTF-8", shard=self.shard, key=bad)
            )
            encoded = [key.encode() for key in keys]
            return b"".join(encoded), np.array([len(key) for key in encoded], np.int64)
        return blob, sizes

    def findings(self) -> Iterator[Finding]:
        for code, finding in self.first.items():
            yield replace(finding, count=self.counts[code])


# -- the end --------------------------------------------------------------------------------------------------------


def _finish(columns: _Columns, table: _Extensions, noticed: _Noticed, ending: Ending) -> ShardScan:
    starts = _joined(columns.starts)
    offsets, part_offsets = _joined(columns.offsets), _joined(columns.part_offsets)
    part_sizes, part_names = _joined(columns.part_sizes), _joined(columns.names).astype(np.uint16)
    key_sizes, keys = _joined(columns.key_sizes), b"".join(columns.keys)
    kept = _kept_samples(starts, columns.last_key, ending)
    if kept < len(starts):
        keys = keys[: int(key_sizes[:kept].sum())]
        parts = int(starts[kept])
        key_sizes, offsets, starts = key_sizes[:kept], offsets[:kept], starts[:kept]
        part_offsets, part_sizes, part_names = part_offsets[:parts], part_sizes[:parts], part_names[:parts]
    counts = np.diff(np.append(starts, len(part_sizes)))
    ends = part_offsets + part_sizes + -part_sizes % 512
    scan = ShardScan(
        status=_status(ending, kept),
        keys=keys,
        key_sizes=key_sizes.astype(np.uint32),
        offsets=offsets,
        sizes=(ends[starts + counts - 1] if kept else starts) - offsets,
        counts=counts.astype(np.uint16),
        extensions=table.list(),
        part_names=part_names,
        part_offsets=part_offsets,
        part_sizes=part_sizes,
        findings=(),
    )
    findings = [*_ending_findings(noticed.shard, ending, kept), *noticed.findings(), *_sample_findings(noticed, scan)]
    return replace(scan, findings=tuple(findings))


def _joined(arrays: Sequence[NDArray[Any]]) -> Ints:
    joined: Ints = np.concatenate(arrays) if arrays else np.empty(0, np.int64)
    return joined


def _kept_samples(starts: Ints, last_key: bytes, ending: Ending) -> int:
    """All samples, but for the last where the member that is cut short belongs to it: half a sample is none."""
    cut = ending.name.encode("utf-8", "surrogateescape")
    if ending.how == "truncated" and len(starts) and cut.startswith(last_key + b"."):
        return len(starts) - 1
    return len(starts)


def _status(ending: Ending, samples: int) -> Status:
    if ending.how in ("truncated", "bad header"):
        return "partial" if samples else "bad"
    return "bad" if ending.how == "not a tar" else "ok"


def _ending_findings(shard: str, ending: Ending, samples: int) -> Iterator[Finding]:
    member = f"member {ending.name!r} " if ending.name else "the last member "
    said = {
        "truncated": ("WDS102", "error", f"truncated: {member}needs {ending.missing:,} more bytes than the file has"),
        "bad header": ("WDS103", "error", "a header is damaged; what follows it is left out"),
        "not a tar": ("WDS101", "error", "not a tar file"),
        "no mark": ("WDS114", "warning", "no end-of-archive mark"),
        "trailing data": ("WDS117", "warning", "data after the end-of-archive mark, which no reader sees"),
    }
    if ending.how in said:
        code, severity, message = said[ending.how]
        if samples and severity == "error":
            message += f"; the {samples:,} samples before it are good"
        yield Finding(code=code, severity=severity, message=message, shard=shard, offset=ending.offset)  # type: ignore[arg-type]
    elif samples == 0:
        yield Finding(code="WDS115", severity="warning", message="no samples in this shard", shard=shard)


def _sample_findings(noticed: _Noticed, scan: ShardScan) -> Iterator[Finding]:
    yield from _repeated_parts(noticed.shard, scan)
    hashes = np.sort(_key_hashes(scan))
    if (hashes[1:] == hashes[:-1]).any():
        yield from _repeated_keys(noticed.shard, scan, scan.key_list())


def _key_hashes(scan: ShardScan) -> NDArray[np.uint64]:
    """A hash a key: equal keys have equal hashes, others seldom do. Much cheaper than a set of a million strings."""
    if scan.samples == 0:
        return np.empty(0, np.uint64)
    starts = np.append(0, np.cumsum(scan.key_sizes[:-1], dtype=np.int64))
    places = np.arange(len(scan.keys)) - np.repeat(starts, scan.key_sizes)
    weights = np.random.default_rng(0).integers(1, 1 << 63, int(scan.key_sizes.max()), np.uint64) | np.uint64(1)
    return np.add.reduceat(np.frombuffer(scan.keys, np.uint8) * weights[places], starts)


def _repeated_parts(shard: str, scan: ShardScan) -> Iterator[Finding]:
    """One part twice in one sample."""
    samples = np.repeat(np.arange(scan.samples), scan.counts)
    codes = np.sort(samples * np.int64(1 << 16) + scan.part_names)
    twice = codes[1:][codes[1:] == codes[:-1]]
    if len(twice):
        row, name = divmod(int(twice[0]), 1 << 16)
        yield Finding(
            code="WDS107",
            severity="error",
            message="samples have a part twice",
            shard=shard,
            key=scan.key_list()[row],
            part=scan.extensions[name],
            offset=int(scan.offsets[row]),
            count=len(np.unique(twice >> 16)),
        )


def _repeated_keys(shard: str, scan: ShardScan, keys: list[str]) -> Iterator[Finding]:
    """A key that comes again is a duplicate if a part does, too; otherwise its members are interleaved with others'."""
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
    said = {
        "WDS104": "keys whose members do not stand side by side",
        "WDS105": "keys that come a second time, with the same parts",
    }
    for code, rows in found.items():
        if rows:
            yield Finding(
                code=code,
                severity="error",
                message=said[code],
                shard=shard,
                key=keys[rows[0]],
                offset=int(scan.offsets[rows[0]]),
                count=len(rows),
            )
