"""Units of `--media`: probe the media of one shard, or some files of a media folder, for their facts.

Facts come from the first bytes of each part, and from more of it only if its format needs that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from operator import attrgetter
from typing import NamedTuple
from zlib import crc32

from wdsctl.core.errors import Finding, PermissionDenied, StorageError
from wdsctl.core.job_results import ResultFolder
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.catalog_facts import facts_to_columns
from wdsctl.core.media.facts import MediumFacts, Unreadable, VideoFacts
from wdsctl.core.media.media_scan import MediaScan, ScannedMedium, decode_media_scan, encode_media_scan
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.selection import MediaGuess, parse_media_selection
from wdsctl.core.media.sniff import sniff
from wdsctl.core.offsets.read import Offsets, open_cached_offsets
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.read_parts import IndexedShard, batch_ranges, read_parts
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange, Storage

MEDIA_FORMAT_VERSION = 4  # raise it if a change of the code changes facts: all media are then probed again

MEDIA_HEAD_BYTES = 64 << 10  # read from every part, in batches: most headers end within them

_MEAN_UNIT_FILES = 256  # the mean number of files in a unit; the maximum is twice as many


_ReadError = StorageError | PermissionDenied


class MediaCandidate(NamedTuple):
    """A part or file that may be a medium, and its position. `name`: the sample's key, or the file's path."""

    row: int
    name: str
    part: str
    path: str
    offset: int
    size: int
    claim: MediaGuess


def probe_part(storage: Storage, candidate: MediaCandidate, head: bytes) -> MediumFacts | Unreadable | None:
    """The media facts of a part; None if neither its content nor its name says that it is a medium.

    Returns `Unreadable` if only the name does. Raises StorageError, PermissionDenied. Cost: about 0.1 to 10 ms, and
    reads of 256 KiB pages behind the head if the format needs them.
    """
    content = sniff(head, candidate.size, name=candidate.part)
    if content.kind in ("image", "audio", "video"):
        source = ByteRangeFile.from_storage(storage, candidate.path, candidate.offset, candidate.size, head=head)
        return probe_media(source, content)
    if candidate.claim == "maybe":
        return None
    return Unreadable(
        reason="it is empty" if content.kind == "empty" else "its content is not an image, audio or video"
    )


def build_medium(
    storage: Storage, candidate: MediaCandidate, facts: MediumFacts | Unreadable, *, keyframes: bool = False
) -> ScannedMedium:
    """The row of the catalog for a medium. `keyframes`: also index the keyframes of a video, which reads all of it."""
    index = None
    if keyframes and isinstance(facts, VideoFacts):
        from wdsctl.core.media.keyframes import read_keyframe_index

        source = ByteRangeFile.for_full_read(storage, candidate.path, candidate.offset, candidate.size)
        index = read_keyframe_index(source, facts.format)
    return ScannedMedium(candidate.row, candidate.part, candidate.size, *facts_to_columns(facts), index)


def unreadable_findings(unreadable: Iterable[tuple[MediaCandidate, str]], shard: str) -> list[Finding]:
    """Report media that could not be read, one finding per part name and reason.

    `shard`: the path of the shard; empty for a media folder.
    """
    first: dict[tuple[str, str], MediaCandidate] = {}
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


@dataclass(frozen=True, slots=True)
class MediaShardUnit:
    """A shard to probe. `shard_index`: in the offsets file. `digest`: of the shard's content and the settings, hex."""

    root: str
    offsets_path: str
    shard_index: int
    selection: str
    digest: str
    keyframes: bool = False

    @property
    def label(self) -> str:
        """The path of the shard, for messages."""
        return open_cached_offsets(self.offsets_path).shards[self.shard_index].path


def shard_results(folder: str) -> ResultFolder[MediaShardUnit, MediaScan]:
    return ResultFolder(folder, attrgetter("digest"), encode_media_scan, decode_media_scan)


def run_media_unit(unit: MediaShardUnit) -> MediaScan:
    """Probe the media of one shard. If the shard cannot be read, the result has a finding and `is_unreadable`."""
    try:
        return probe_shard(unit)
    except (StorageError, PermissionDenied) as error:
        path = open_cached_offsets(unit.offsets_path).shards[unit.shard_index].path
        failure = Finding(
            code=error.code,
            severity="error",
            message=f"cannot read the media of the shard: {error.message}",
            shard=path,
        )
        return MediaScan((), (failure,), is_unreadable=True)


def probe_shard(unit: MediaShardUnit) -> MediaScan:
    """Probe the media of one shard. Raises StorageError and PermissionDenied."""
    offsets = open_cached_offsets(unit.offsets_path)
    # If a sample has a part twice, the last one counts, as everywhere else.
    media: dict[tuple[int, str], ScannedMedium] = {}
    unreadable: list[tuple[MediaCandidate, str]] = []
    with closing(IndexedShard(unit.root, offsets, unit.shard_index)) as shard:
        candidates = media_candidates(offsets, unit.shard_index, shard.path, unit.selection)
        heads = ((each, [(each.part, each.offset, min(each.size, MEDIA_HEAD_BYTES))]) for each in candidates)
        for candidate, [head] in read_parts(shard, heads):
            facts = probe_part(shard.storage, candidate, head)
            if isinstance(facts, Unreadable):
                unreadable.append((candidate, facts.reason))
            if facts is not None:
                media[candidate.row, candidate.part] = build_medium(
                    shard.storage, candidate, facts, keyframes=unit.keyframes
                )
    return MediaScan(tuple(media.values()), tuple(unreadable_findings(unreadable, shard.relative_path)))


def media_candidates(offsets: Offsets, shard_index: int, path: str, selection: str) -> Iterator[MediaCandidate]:
    """The parts of a shard that may be media, in tar order."""
    media_selection = parse_media_selection(selection)
    # The guess for each part of a layout, by its name; None if the guess also depends on the sample's key.
    by_layout = [
        None if media_selection.globs else [media_selection.guess_by_name(f".{part}") for part in layout]
        for layout in offsets.layouts
    ]
    first, end = offsets.shard_row[shard_index : shard_index + 2].tolist()
    layouts = offsets.check_range(first, end).layout
    for row in range(first, end):
        claims = by_layout[0 if layouts is None else int(layouts[row])]
        if claims is not None and not any(claim != "no" for claim in claims):
            continue
        key = offsets.key(row)
        for i, (part, at, size) in enumerate(offsets.parts(row)):
            claim = media_selection.guess_by_name(f"{key.rpartition('/')[2]}.{part}") if claims is None else claims[i]
            if claim != "no":
                yield MediaCandidate(row - first, key, part, path, at, size, claim)


@dataclass(frozen=True, slots=True)
class MediaFilesUnit:
    """Some files of a media folder."""

    root: str
    files: tuple[ShardFile, ...]
    selection: str
    keyframes: bool = False

    @property
    def label(self) -> str:
        """The first file, for messages."""
        return self.files[0].path


def split_into_units(
    root: str, files: Sequence[ShardFile], selection: str, *, keyframes: bool = False
) -> Iterator[MediaFilesUnit]:
    """Divide files, in path order, into units.

    The ends of units depend on hashes of paths, so that new and deleted files change few units, and the results of the
    other units can be reused.
    """
    some: list[ShardFile] = []
    for file in files:
        some.append(file)
        if len(some) == 2 * _MEAN_UNIT_FILES or crc32(file.path.encode()) % _MEAN_UNIT_FILES == 0:
            yield MediaFilesUnit(root, tuple(some), selection, keyframes)
            some = []
    if some:
        yield MediaFilesUnit(root, tuple(some), selection, keyframes)


def files_results(folder: str) -> ResultFolder[MediaFilesUnit, MediaScan]:
    return ResultFolder(folder, _files_digest, encode_media_scan, decode_media_scan)


def _files_digest(unit: MediaFilesUnit) -> str:
    digest = blake2b(f"{MEDIA_FORMAT_VERSION}\0{unit.selection}\0{unit.keyframes}".encode(), digest_size=16)
    for file in unit.files:
        digest.update(f"\0{file.path}\0{file.size}\0{file.mtime_ns}".encode())
    return digest.hexdigest()


def probe_files(unit: MediaFilesUnit) -> MediaScan:
    """Probe the files of a unit. A file that cannot be read becomes a finding; the others are still probed."""
    media: list[ScannedMedium] = []
    unreadable: list[tuple[MediaCandidate, str]] = []
    findings: list[Finding] = []
    failed_rows: list[int] = []
    storage = storage_for(unit.root)
    try:
        for candidate, head in _read_file_heads(storage, _file_candidates(unit)):
            medium = _probe_file(storage, candidate, head, keyframes=unit.keyframes)
            if isinstance(medium, StorageError | PermissionDenied):
                failed_rows.append(candidate.row)
                findings.append(
                    Finding(code=medium.code, severity="error", message=medium.message, shard=candidate.name)
                )
            elif medium is not None:
                media.append(medium)
                if medium.media_format.kind == "unreadable":
                    unreadable.append((candidate, medium.media_format.reason or ""))
    finally:
        storage.close()
    return MediaScan(tuple(media), (*findings, *unreadable_findings(unreadable, "")), tuple(failed_rows))


def part_name_from_path(path: str) -> str:
    """The part name of a file outside a shard: its last extension, in lower case."""
    return os.path.basename(path).rpartition(".")[2].lower() if "." in os.path.basename(path) else ""


def _file_candidates(unit: MediaFilesUnit) -> list[MediaCandidate]:
    selection = parse_media_selection(unit.selection)
    return [
        MediaCandidate(
            i, file.path, part_name_from_path(file.path), os.path.join(unit.root, file.path), 0, file.size, claim
        )
        for i, file in enumerate(unit.files)
        if (claim := selection.guess_by_name(os.path.basename(file.path))) != "no"
    ]


def _probe_file(
    storage: Storage, candidate: MediaCandidate, head: bytes | _ReadError, *, keyframes: bool
) -> ScannedMedium | _ReadError | None:
    if not isinstance(head, bytes):
        return head
    try:
        facts = probe_part(storage, candidate, head)
        return None if facts is None else build_medium(storage, candidate, facts, keyframes=keyframes)
    except (StorageError, PermissionDenied) as error:
        return error


def _read_file_heads(
    storage: Storage, candidates: Iterable[MediaCandidate]
) -> Iterator[tuple[MediaCandidate, bytes | _ReadError]]:
    """Read the first bytes of each file, in batches. If a batch fails, read its files one by one."""
    heads = ((each, [FileRange(each.path, 0, min(each.size, MEDIA_HEAD_BYTES))]) for each in candidates)
    for batch in batch_ranges(heads):
        try:
            data: list[bytes | _ReadError] = [*storage.read_many([head for _, [head] in batch])]
        except (StorageError, PermissionDenied):
            data = [_read_or_error(storage, head) for _, [head] in batch]
        yield from zip([candidate for candidate, _ in batch], data, strict=True)


def _read_or_error(storage: Storage, head: FileRange) -> bytes | _ReadError:
    try:
        return storage.read(*head)
    except (StorageError, PermissionDenied) as error:
        return error
