"""Level `hashes`: does the hash of a shard match the recorded one?

SHA-256 values come from the catalog (`wdsctl index --hash`), and from files next to the shards in the format of
coreutils' sha256sum (`SHARD.sha256`, `SHA256SUMS`).
https://www.gnu.org/software/coreutils/manual/html_node/md5sum-invocation.html

The index.json of MDS shards may have other hashes; those that Python computes are compared.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wdsctl.core.catalog.ledger_checks import LocatedFinding
from wdsctl.core.errors import Finding, PermissionDenied, StorageError
from wdsctl.core.shards.in_place.folder_index import ListedFile
from wdsctl.core.shards.in_place.kinds import INDEX_FILE
from wdsctl.core.storage.storage import Storage
from wdsctl.core.text import pluralize
from wdsctl.core.validate.headers import ReadShard

HASH_CHUNK_BYTES = 8 << 20  # bytes per read
CHECKSUM_FILE_NAMES = (
    "SHA256SUMS",
    "SHA256SUMS.txt",
    "sha256sums.txt",
    "sha256sum.txt",
    "sha256sums",
    "checksums.sha256",
)

_MAX_CHECKSUM_FILE_BYTES = 64 << 20  # enough for 600,000 shards at about a hundred bytes per line
_LINE = re.compile(r"(\\?)([0-9a-fA-F]{64})(?: [ *](.*))?")
_ESCAPES = re.compile(r"\\([\\nr])")


class ExpectedHash(NamedTuple):
    """The expected hash of a shard in lower-case hex, and the file or catalog that it comes from."""

    sha256: str
    source: str
    algorithm: str = "sha256"  # a name in hashlib


def file_hashes(read: ReadShard, size: int, algorithms: Iterable[str] = ("sha256",)) -> dict[str, str]:
    """Compute hashes of a file of `size` bytes, in hex, by algorithm. SHA-256 takes 0.5 to 2 ns a byte on one core."""
    digests = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    for offset in range(0, size, HASH_CHUNK_BYTES):
        data = read(offset, min(HASH_CHUNK_BYTES, size - offset))
        for digest in digests.values():
            digest.update(data)
    return {name: digest.hexdigest() for name, digest in digests.items()}


def index_hashes(listed: Mapping[str, ListedFile]) -> dict[str, list[ExpectedHash]]:
    """The hashes in the index.json of MDS shards that Python can compute, by shard."""
    return {
        path: [
            ExpectedHash(digest.lower(), INDEX_FILE, name)
            for name, digest in shard.hashes.items()
            if name in hashlib.algorithms_available and not name.startswith("shake")
        ]
        for path, shard in listed.items()
    }


_ALGORITHM_NAMES = {"sha256": "SHA-256", "sha1": "SHA-1", "md5": "MD5"}


def check_hashes(
    shard: str, read: ReadShard, size: int, expected: Sequence[ExpectedHash]
) -> tuple[LocatedFinding, ...]:
    """Report each expected hash that does not match. Reads nothing without one. Raises storage errors."""
    if not expected:
        return ()
    found = file_hashes(read, size, {each.algorithm for each in expected})
    return tuple(
        LocatedFinding(
            Finding(
                code="WDS151",
                severity="error",
                message=f"expected {_ALGORITHM_NAMES.get(each.algorithm, each.algorithm)} {each.sha256[:12]}... "
                f"({each.source}), found {found[each.algorithm][:12]}...",
                shard=shard,
            ),
            covers_shard=True,
        )
        for each in expected
        if each.sha256 != found[each.algorithm]
    )


def read_checksum_files(
    storage: Storage, root: str, shards: Iterable[str]
) -> tuple[dict[str, list[ExpectedHash]], list[Finding]]:
    """Read the checksum files next to the shards: hashes by shard, and a finding for each invalid file."""
    known = set(shards)
    expected: dict[str, list[ExpectedHash]] = {}
    findings: list[Finding] = []
    folders = sorted({"", *(path.rpartition("/")[0] for path in known)})
    files = [f"{folder}/{name}" if folder else name for folder in folders for name in CHECKSUM_FILE_NAMES]
    for path in (*files, *(f"{shard}.sha256" for shard in sorted(known))):
        text = _read_text(storage, os.path.join(root, path), path, findings)
        if text is None:
            continue
        folder = path.rpartition("/")[0]
        own_shard = path.removesuffix(".sha256") if path.removesuffix(".sha256") in known else ""
        checksums, invalid_lines = _parse_checksums(text, own_shard)
        if invalid_lines:
            message = pluralize(invalid_lines, "line is not a checksum", "lines are not checksums")
            findings.append(_bad_checksum_file(path, message))
        for name, sha256 in checksums:
            shard = f"{folder}/{name.removeprefix('./')}" if folder else name.removeprefix("./")
            if shard in known:
                expected.setdefault(shard, []).append(ExpectedHash(sha256, path))
            elif own_shard:
                findings.append(_bad_checksum_file(path, f"it names {name!r}, but belongs to {own_shard}"))
    return expected, findings


def _read_text(storage: Storage, path: str, shown: str, findings: list[Finding]) -> str | None:
    if not storage.exists(path):
        return None
    try:
        size = storage.size(path)
        if size > _MAX_CHECKSUM_FILE_BYTES:
            findings.append(_bad_checksum_file(shown, f"it has {size:,} bytes"))
            return None
        return storage.read(path, 0, size).decode()
    except (StorageError, PermissionDenied) as error:
        findings.append(Finding(code=error.code, severity="error", message=error.message, shard=shown))
    except UnicodeDecodeError:
        findings.append(_bad_checksum_file(shown, "it is not UTF-8"))
    return None


def _parse_checksums(text: str, own_shard: str) -> tuple[list[tuple[str, str]], int]:
    """Parse lines into (name, SHA-256), and count invalid lines. A hash without a name belongs to `own_shard`."""
    checksums, invalid = [], 0
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip("\ufeff"))
        if match is None or (match[3] is None and not own_shard):
            invalid += bool(line.strip()) and not line.startswith("#")
            continue
        name = match[3] if match[3] is not None else own_shard.rpartition("/")[2]
        if match[1]:  # coreutils: a backslash at the start means that the name is escaped
            name = _ESCAPES.sub(lambda found: {"\\": "\\", "n": "\n", "r": "\r"}[found[1]], name)
        checksums.append((name, match[2].lower()))
    return checksums, invalid


def _bad_checksum_file(path: str, reason: str) -> Finding:
    return Finding(code="WDS153", severity="warning", message=reason, shard=path)


def find_unhashed(expected: Mapping[str, Sequence[ExpectedHash]]) -> Iterator[Finding]:
    """Yield one note for all shards without an expected hash."""
    unhashed = sorted(shard for shard, hashes in expected.items() if not hashes)
    if unhashed:
        yield Finding(
            code="WDS152",
            severity="note",
            message="the catalog has no SHA-256 of these shards to compare with",
            shard=unhashed[0],
            count=len(unhashed),
        )
