"""Level `hashes`: is every byte of a shard what it was when somebody noted its SHA-256?

Who notes it: `wdsctl index --hash` in the catalog, and files beside the shards in the format of coreutils' sha256sum
(`SHARD.sha256`, `SHA256SUMS`). https://www.gnu.org/software/coreutils/manual/html_node/md5sum-invocation.html
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wdsctl.core.checks.headers import Read
from wdsctl.core.checks.placed import Placed
from wdsctl.core.counted import counted
from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.storage import Storage

CHUNK = 8 << 20  # bytes hashed at a time
SUMS = ("SHA256SUMS", "SHA256SUMS.txt", "sha256sums.txt", "sha256sum.txt", "sha256sums", "checksums.sha256")

_LARGEST = 64 << 20  # bytes of a file of sums: a hundred of each line would be 600,000 shards
_LINE = re.compile(r"(\\?)([0-9a-fA-F]{64})(?: [ *](.*))?")
_ESCAPES = re.compile(r"\\([\\nr])")


class Expected(NamedTuple):
    """A hash that a shard is to have, in small hex, and who says so."""

    sha256: str
    source: str


def file_hash(read: Read, size: int) -> str:
    """SHA-256 of a file of `size` bytes, in hex. Cost: some 0.5 to 2 GB/s on one core."""
    digest = hashlib.sha256()
    for at in range(0, size, CHUNK):
        digest.update(read(at, min(CHUNK, size - at)))
    return digest.hexdigest()


def check_hashes(shard: str, read: Read, size: int, expected: Sequence[Expected]) -> tuple[Placed, ...]:
    """One finding a hash that does not fit. Where none is expected, nothing is read. Raises what reading raises."""
    if not expected:
        return ()
    now = file_hash(read, size)
    return tuple(
        Placed(
            Finding(
                code="WDS151",
                severity="error",
                message=f"its SHA-256 is {now[:12]}..., and {each.sha256[:12]}... in {each.source}",
                shard=shard,
            ),
            is_whole=True,
        )
        for each in expected
        if each.sha256 != now
    )


def read_sums(storage: Storage, root: str, shards: Iterable[str]) -> tuple[dict[str, list[Expected]], list[Finding]]:
    """What the files of sums beside the shards say, by shard; and a finding for each that cannot be understood."""
    known = set(shards)
    said: dict[str, list[Expected]] = {}
    findings: list[Finding] = []
    folders = sorted({"", *(path.rpartition("/")[0] for path in known)})
    files = [f"{folder}/{name}" if folder else name for folder in folders for name in SUMS]
    for path in (*files, *(f"{shard}.sha256" for shard in sorted(known))):
        text = _text(storage, os.path.join(root, path), path, findings)
        if text is None:
            continue
        folder = path.rpartition("/")[0]
        own = path.removesuffix(".sha256") if path.removesuffix(".sha256") in known else ""
        sums, odd = _parsed(text, own)
        if odd:
            findings.append(_not_sums(path, f"{counted(odd, 'line is no sum', 'lines are no sums')}"))
        for name, sha256 in sums:
            shard = _joined(folder, name)
            if shard in known:
                said.setdefault(shard, []).append(Expected(sha256, path))
            elif own:
                findings.append(_not_sums(path, f"it names {name!r}, and lies beside {own}"))
    return said, findings


def _text(storage: Storage, path: str, shown: str, findings: list[Finding]) -> str | None:
    if not storage.exists(path):
        return None
    try:
        size = storage.size(path)
        if size > _LARGEST:
            findings.append(_not_sums(shown, f"it has {size:,} bytes"))
            return None
        return storage.read(path, 0, size).decode()
    except (StorageError, PermissionDenied) as error:
        findings.append(Finding(code=error.code, severity="error", message=error.message, shard=shown))
    except UnicodeDecodeError:
        findings.append(_not_sums(shown, "it is not UTF-8"))
    return None


def _parsed(text: str, own: str) -> tuple[list[tuple[str, str]], int]:
    """(name, sum) of each line, and how many lines are none. A sum alone is that of the shard it lies beside."""
    sums, odd = [], 0
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip("\ufeff"))
        if match is None or (match[3] is None and not own):
            odd += bool(line.strip()) and not line.startswith("#")
            continue
        name = match[3] if match[3] is not None else own.rpartition("/")[2]
        if match[1]:  # coreutils: a backslash before the sum says that the name is escaped
            name = _ESCAPES.sub(lambda found: {"\\": "\\", "n": "\n", "r": "\r"}[found[1]], name)
        sums.append((name, match[2].lower()))
    return sums, odd


def _joined(folder: str, name: str) -> str:
    name = name.removeprefix("./")
    return f"{folder}/{name}" if folder else name


def _not_sums(path: str, why: str) -> Finding:
    return Finding(code="WDS153", severity="warning", message=why, shard=path)


def unhashed(shards: Sequence[str], expected: Mapping[str, Sequence[Expected]]) -> Iterator[Finding]:
    """One note for all shards that nobody has noted a hash of."""
    without = [shard for shard in shards if not expected.get(shard)]
    if without:
        yield Finding(
            code="WDS152",
            severity="note",
            message="no SHA-256 is known of such shards: their bytes cannot be held against anything",
            shard=without[0],
            count=len(without),
        )
