"""What is wrong with a shard as a whole: how it ends, parts that come twice, keys that come again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.counted import counted
from wdsctl.core.findings import Finding
from wdsctl.core.members import Ending
from wdsctl.core.shard_scan import ShardScan

_FEW = 100  # samples up to which their keys are compared as they are
_ROWS = 1 << 16  # keys hashed at a time


def ending_findings(
    shard: str, ending: Ending, samples: int, compressed: str = "", unread: int = 0
) -> Iterator[Finding]:
    """`compressed`: what a file that is no tar was compressed with. `unread`: samples behind the end mark."""
    name = ending.name.decode("utf-8", "backslashreplace")
    member = f"member {name!r} " if name else "the last member "
    said = {
        "truncated": ("WDS102", "error", f"truncated: {member}needs {ending.missing:,} more bytes than the file has"),
        "bad header": ("WDS103", "error", "a header is damaged; what follows it is left out"),
        "not a tar": ("WDS101", "error", "not a tar file"),
        "no mark": ("WDS114", "warning", "no end-of-archive mark"),
        "trailing data": _trailing(unread),
    }
    if compressed:
        message = f"compressed with {compressed}, though the name does not say so: `wdsctl convert` unpacks it"
        yield Finding(code="WDS113", severity="error", message=message, shard=shard, offset=0)
    elif ending.how in said:
        code, severity, message = said[ending.how]
        if samples and severity == "error" and not unread:
            good = "sample before it is" if samples == 1 else f"{samples:,} samples before it are"
            message += f"; the {good} good"
        yield Finding(code=code, severity=severity, message=message, shard=shard, offset=ending.offset)  # type: ignore[arg-type]
    elif samples == 0:
        yield Finding(code="WDS115", severity="warning", message="no samples in this shard", shard=shard)


def _trailing(unread: int) -> tuple[str, str, str]:
    message = "data after the end-of-archive mark, which no reader sees"
    return ("WDS117", "error", f"{message}: {counted(unread, 'sample')}") if unread else ("WDS117", "warning", message)


def sample_findings(shard: str, scan: ShardScan) -> Iterator[Finding]:
    """Parts that come twice in a sample, keys that come again in the shard."""
    yield from _repeated_parts(shard, scan)
    if _may_repeat_keys(scan):
        yield from _repeated_keys(shard, scan, scan.key_list())


def _may_repeat_keys(scan: ShardScan) -> bool:
    """Whether a key comes again, or, seldom, two have one hash."""
    if scan.samples <= _FEW:
        return len(set(scan.key_list())) < scan.samples
    hashes = np.sort(_key_hashes(scan))
    return bool((hashes[1:] == hashes[:-1]).any())


def _key_hashes(scan: ShardScan) -> NDArray[np.uint64]:
    """A hash a key: equal keys have equal hashes, others seldom do. Much cheaper than a set of a million strings."""
    weights = np.random.default_rng(0).integers(1, 1 << 63, int(scan.key_sizes.max()), np.uint64) | np.uint64(1)
    letters = np.frombuffer(scan.keys, np.uint8)
    ends = np.cumsum(scan.key_sizes, dtype=np.int64)
    hashes = np.empty(scan.samples, np.uint64)
    for at in range(0, scan.samples, _ROWS):
        sizes = scan.key_sizes[at : at + _ROWS]
        first, last = int(ends[at] - sizes[0]), int(ends[at + len(sizes) - 1])
        starts = np.cumsum(sizes, dtype=np.int64) - sizes
        places = np.arange(last - first) - np.repeat(starts, sizes)
        hashes[at : at + len(sizes)] = np.add.reduceat(letters[first:last] * weights[places], starts)
    return hashes


def _repeated_parts(shard: str, scan: ShardScan) -> Iterator[Finding]:
    """One part twice in one sample."""
    samples = np.repeat(np.arange(scan.samples), scan.counts)
    codes = np.sort((samples << 32) + scan.part_names)
    twice = codes[1:][codes[1:] == codes[:-1]]
    if len(twice):
        row, name = divmod(int(twice[0]), 1 << 32)
        yield Finding(
            code="WDS107",
            severity="error",
            message="samples have a part twice",
            shard=shard,
            key=scan.key_list()[row],
            part=scan.extensions[name],
            offset=int(scan.offsets[row]),
            count=len(np.unique(twice >> 32)),
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
