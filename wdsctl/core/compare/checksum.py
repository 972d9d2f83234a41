"""`checksum`: write the hashes of all shards in the format of coreutils' `sha256sum`, and verify such lists.

If a name has a backslash or a line break, the line begins with a backslash, and the name is written with `\\\\`, `\\n`
and `\\r`. https://www.gnu.org/software/coreutils/manual/html_node/cksum-output-modes.html
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wdsctl.core.catalog.ledger_checks import read_checks
from wdsctl.core.catalog.presence import no_shards_error
from wdsctl.core.dataset.location import DatasetLocation, locate, shell_command_at
from wdsctl.core.errors import Finding, InputError, PermissionDenied, StorageError
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.shards.list import ShardFile, is_linked_outside, list_shards
from wdsctl.core.storage.open import storage_for, workers_for
from wdsctl.core.urls import is_url

HashAlgorithm = Literal["sha256", "sha512", "blake2b", "sha1", "md5"]

#: Algorithms by the number of hex digits. BLAKE2b has as many as SHA-512, so a line must name it.
ALGORITHM_BY_HEX_DIGITS: dict[int, HashAlgorithm] = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}

CHECKSUM_CHUNK_BYTES = 4 << 20  # bytes per read

_PLAIN = re.compile(rb"(\\?)([0-9a-fA-F]{32,128}) [ *](.+)", re.DOTALL)
_TAGGED = re.compile(rb"(\\?)([A-Za-z0-9-]{3,12}) ?\((.+)\) ?= ([0-9a-fA-F]{32,128})", re.DOTALL)
_TAGS: dict[bytes, HashAlgorithm] = {
    b"MD5": "md5",
    b"SHA1": "sha1",
    b"SHA256": "sha256",
    b"SHA2-256": "sha256",
    b"SHA512": "sha512",
    b"SHA2-512": "sha512",
    b"BLAKE2b": "blake2b",
}
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


class ChecksumLine(NamedTuple):
    """A line of a checksum file: the hash in lower-case hex, the file's name, and the algorithm if given."""

    digest: str
    name: str
    algorithm: HashAlgorithm | None


def format_checksum_line(digest: str, name: str) -> bytes:
    """Format one line of a checksum file, with its newline."""
    escaped, is_escaped = _escape_name(name)
    return b"%s%s  %s\n" % (b"\\" if is_escaped else b"", digest.encode(), escaped)


def format_verdict_line(name: str, result: str) -> bytes:
    """Format a line such as `name: OK`. Like coreutils, escapes only names that contain a line break."""
    escaped, is_escaped = _escape_name(name) if "\n" in name else (os.fsencode(name), False)
    return b"%s%s: %s\n" % (b"\\" if is_escaped else b"", escaped, result.encode())


def parse_checksum_lines(lines: Iterable[bytes]) -> Iterator[ChecksumLine | None]:
    """Parse the lines of a checksum file; None for an invalid line. Skips blank lines and comments."""
    for number, each in enumerate(lines):
        text = each.removeprefix(b"\xef\xbb\xbf") if number == 0 else each
        text = text.removesuffix(b"\n").removesuffix(b"\r")
        if text.strip() and not text.startswith(b"#"):
            yield _parse_checksum_line(text)


def choose_algorithm(checksum: ChecksumLine, requested: HashAlgorithm | None) -> HashAlgorithm | None:
    """Return the algorithm of the line, else the requested one, else the one with hashes of this length.

    Returns None if the hash does not have the length of the algorithm.
    """
    by_length = ALGORITHM_BY_HEX_DIGITS.get(len(checksum.digest))
    algorithm = checksum.algorithm or requested or by_length
    if by_length is None or algorithm is None or len(checksum.digest) != 2 * hash_constructor(algorithm)().digest_size:
        return None
    return algorithm


def hash_constructor(algorithm: HashAlgorithm) -> Callable[[], hashlib._Hash]:
    """Return a function that creates a hash object of this algorithm."""
    return lambda: hashlib.new(algorithm, usedforsecurity=False)


def hash_bytes(read: Callable[[int, int], bytes], size: int, algorithm: HashAlgorithm) -> str:
    """Hash a file of `size` bytes, and return hex digits. Runs at 0.3 to 2 GB/s on one core."""
    digest = hash_constructor(algorithm)()
    for offset in range(0, size, CHECKSUM_CHUNK_BYTES):
        digest.update(read(offset, min(CHECKSUM_CHUNK_BYTES, size - offset)))
    return digest.hexdigest()


def _escape_name(name: str) -> tuple[bytes, bool]:
    raw = os.fsencode(name)
    escaped = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return escaped, escaped != raw


def _parse_checksum_line(text: bytes) -> ChecksumLine | None:
    plain = _PLAIN.fullmatch(text)
    tagged = None if plain else _TAGGED.fullmatch(text)
    if plain:
        escape, digest, name, algorithm = plain[1], plain[2], plain[3], None
    elif tagged and tagged[2] in _TAGS:
        escape, digest, name, algorithm = tagged[1], tagged[4], tagged[3], _TAGS[tagged[2]]
    else:
        return None
    if escape:
        if re.fullmatch(rb"(?:[^\\]|\\[\\nr])+", name, re.DOTALL) is None:
            return None
        name = re.sub(rb"\\[\\nr]", lambda match: _ESCAPES[match[0]], name)
    return ChecksumLine(digest.decode().lower(), os.fsdecode(name), algorithm)


CHECKSUM_PRELOAD_MODULES = ("wdsctl.core.compare.checksum",)

ChecksumOrigin = Literal["catalog", "read"]
ChecksumResult = Literal["OK", "FAILED", "FAILED open or read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardChecksum:
    """A shard with its hash in hex, or the error if reading failed. `source`: where the hash comes from."""

    path: str
    size_bytes: int
    digest: str
    source: ChecksumOrigin
    error: Finding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumVerdict:
    """The result for one line of a checksum file. `error`: why wdsctl could not read the file."""

    path: str
    result: ChecksumResult
    error: Finding | None = None


class _HashUnit(NamedTuple):
    root: str
    path: str
    size: int | None  # None: the current size of the file
    algorithm: HashAlgorithm


class _HashResult(NamedTuple):
    digest: str
    size: int
    error: Finding | None


def checksum(
    root: str,
    *,
    algorithm: HashAlgorithm = "sha256",
    ignore_catalog: bool = False,
    workers: int = 1,
    catalog: str | None = None,
    progress: Progress = SILENT_PROGRESS,
) -> Generator[ShardChecksum, None, None]:
    """Yield the hash of every shard, by path, as soon as it is available.

    Takes a SHA-256 from the catalog if `wdsctl index --hash` stored it and the size and time of the shard are
    unchanged, unless `ignore_catalog` is set or a validation found other bytes. Reads all other shards. If reading a
    shard fails, its result has an `error`. Raises what `locate` and the catalog raise, and InputError WDS003 if there
    are no shards.
    """
    location = open_dataset(root, catalog).location
    shards, catalog_hashes, findings = _list_shards(location)
    if not shards and not findings:
        raise no_shards_error(location)
    for finding in findings:
        yield ShardChecksum(path=finding.shard, size_bytes=0, digest="", source="read", error=finding)
    known: dict[str, str] = {}
    if catalog_hashes and not ignore_catalog and algorithm == "sha256":
        corrupt = _find_corrupt_shards(location)
        for shard in shards:
            stat = (shard.path, shard.size, shard.mtime_ns)
            if stat in catalog_hashes and shard.path not in corrupt:
                known[shard.path] = catalog_hashes[stat]
    units = [_HashUnit(location.root, each.path, each.size, algorithm) for each in shards if each.path not in known]
    with closing(_results_in_order(units, workers_for(location.root, workers), progress)) as results:
        for shard in shards:
            if shard.path in known:
                yield ShardChecksum(path=shard.path, size_bytes=shard.size, digest=known[shard.path], source="catalog")
                continue
            result = next(results)
            yield ShardChecksum(
                path=shard.path, size_bytes=shard.size, digest=result.digest, source="read", error=result.error
            )


def verify_checksums(
    root: str,
    lines: Iterable[bytes],
    *,
    algorithm: HashAlgorithm | None = None,
    workers: int = 1,
    catalog: str | None = None,
    origin: str = "",
    progress: Progress = SILENT_PROGRESS,
) -> Generator[ChecksumVerdict | None, None, None]:
    """Verify files below the root against a checksum file; yield a verdict per line, None for an invalid line.

    Reads every file, but fails names that are absolute or lead outside the root without reading. `origin`: the source
    of the lines, for messages. Raises InputError WDS007 if no line has a hash of this algorithm.
    """
    location = locate(root, catalog)
    checksums = [*parse_checksum_lines(lines)]
    algorithms = [None if each is None else choose_algorithm(each, algorithm) for each in checksums]
    if not any(algorithms):
        digits = 2 * hash_constructor(algorithm or "sha256")().digest_size
        raise InputError(
            f"no line is a checksum, such as `<{digits} hex digits>  <name>`",
            where=origin or location.display_path,
            hint="omit --algorithm: the checksums are from another algorithm"
            if any(checksums)
            else f"write checksums: {shell_command_at(location, 'checksum')}",
            code="WDS007",
        )
    units = [
        _HashUnit(location.root, each.name.removeprefix("./"), None, line_algorithm)
        for each, line_algorithm in zip(checksums, algorithms, strict=True)
        if each is not None and line_algorithm is not None and not _is_outside(each.name)
    ]
    with closing(_results_in_order(units, workers_for(location.root, workers), progress)) as results:
        for each in checksums:
            yield _to_verdict(each, algorithm, results)


def _to_verdict(
    checksum: ChecksumLine | None, requested: HashAlgorithm | None, results: Iterator[_HashResult]
) -> ChecksumVerdict | None:
    if checksum is None or choose_algorithm(checksum, requested) is None:
        return None
    if _is_outside(checksum.name):
        message = "the name leads outside the dataset, so the file is not read"
        refused = Finding(code="WDS002", severity="error", message=message, shard=checksum.name)
        return ChecksumVerdict(path=checksum.name, result="FAILED open or read", error=refused)
    result = next(results)
    if result.error is not None:
        return ChecksumVerdict(path=checksum.name, result="FAILED open or read", error=result.error)
    return ChecksumVerdict(path=checksum.name, result="OK" if result.digest == checksum.digest else "FAILED")


def _is_outside(name: str) -> bool:
    return os.path.isabs(name) or ".." in name.split("/") or "\0" in name


def _list_shards(location: DatasetLocation) -> tuple[list[ShardFile], dict[tuple[str, int, int], str], list[Finding]]:
    """Return the existing shards, the hashes in the catalog by (path, size, time), and errors about missing shards."""
    with OpenDataset(location) as dataset:
        if not dataset.has_catalog():
            listing = list_shards(location.root, only=location.single_file)
            return list(listing.shards), {}, _errors(listing.findings)
        rows = dataset.catalog.shards()
        exclude, selection = dataset.catalog.exclude_patterns(), dataset.catalog.selection()
    paths = [row.path for row in rows]
    listing = list_shards(location.root, exclude, only=location.single_file, catalog_paths=paths, selection=selection)
    known = {(row.path, row.size, row.mtime_ns): row.sha256 for row in rows if row.sha256}
    present = {shard.path for shard in listing.shards}
    missing = [
        Finding(
            code="WDS306", severity="error", message="the shard is in the catalog, but its file is missing", shard=path
        )
        for path in paths
        if path not in present and (is_url(location.root) or not is_linked_outside(location.root, path))
    ]
    return list(listing.shards), known, [*_errors(listing.findings), *missing]


def _find_corrupt_shards(location: DatasetLocation) -> set[str]:
    """Find shards whose hash was wrong in their last `validate --level hashes`."""
    with OpenDataset(location) as dataset, dataset.checked_ledger() as ledger:
        return {
            each.shard for each in read_checks(ledger).values() if each.level == "hashes" and "WDS151" in each.findings
        }


def _errors(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == "error"]


def _results_in_order(units: list[_HashUnit], workers: int, progress: Progress) -> Generator[_HashResult, None, None]:
    """Yield the results in the order of the units."""
    finished = run_units(
        _hash_unit,
        units,
        make_executor(workers, CHECKSUM_PRELOAD_MODULES),
        is_ordered=True,
        phase="read",
        progress=progress,
        size=lambda unit: UnitSize(1, unit.size or 0, unit.path),
    )
    with closing(finished):
        for each in finished:
            yield each.result()


def _hash_unit(unit: _HashUnit) -> _HashResult:
    path = os.path.join(unit.root, unit.path)
    storage = storage_for(unit.root, {} if unit.size is None else {path: unit.size})
    try:
        size = storage.size(path) if unit.size is None else unit.size
        return _HashResult(
            hash_bytes(lambda offset, count: storage.read(path, offset, count), size, unit.algorithm), size, None
        )
    except (StorageError, PermissionDenied) as error:
        unread = Finding(code=error.code, severity="error", message=error.message, shard=unit.path)
        return _HashResult("", unit.size or 0, unread)
    finally:
        storage.close()
