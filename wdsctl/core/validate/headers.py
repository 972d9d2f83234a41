"""Level `headers`: are headers of media and arrays valid, and do media match their facts in the catalog?"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping

import numpy as np

from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.catalog_facts import facts_to_columns
from wdsctl.core.media.facts import MediumFacts, Unreadable
from wdsctl.core.media.kinds import ARRAY_KINDS, MAX_DECODABLE_BYTES, MEDIA_KINDS, PartKind, part_kind
from wdsctl.core.media.probe import HEADER_READ_BYTES, probe_media
from wdsctl.core.media.sniff import SniffedContent, sniff
from wdsctl.core.samples.array_facts import parse_npy_header
from wdsctl.core.samples.evidence import FORMATS_BY_EXTENSION
from wdsctl.core.zip_errors import HELD_ZIP_ERRORS

ReadShard = Callable[[int, int], bytes]  # (offset in the shard, bytes) -> exactly these bytes
CatalogFacts = Mapping[tuple[int, str], MediumFacts | Unreadable]  # by the sample's position and the part's name


def has_known_header(part: str) -> bool:
    return part_kind(part) in MEDIA_KINDS | ARRAY_KINDS


def read_part_header(read: ReadShard, part: PartToCheck) -> tuple[bytes, SniffedContent]:
    """The first bytes of a part, and their sniffed format."""
    head = read(part.offset, min(part.size, HEADER_READ_BYTES))
    return head, sniff(head, part.size, name=part.part)


def check_header(
    read: ReadShard, part: PartToCheck, catalog_facts: CatalogFacts, findings: LocatedFindingCollector
) -> None:
    """Add defects of a part's header to `findings`. Raises storage errors.

    Takes 0.1 to 10 ms per medium. Reads 64 KiB, or more if the header is longer.
    """
    if part.size == 0:
        findings.add("WDS140", "it is empty", part)
        return
    head, content = read_part_header(read, part)
    kind = part_kind(part.part)
    if kind in MEDIA_KINDS:
        _check_medium(read, part, head, content, catalog_facts, findings)
    elif kind == "npy":
        if defect := npy_error(read, part):
            findings.add("WDS140", defect, part)
    elif defect := _zip_error(read, part, kind):
        findings.add("WDS140", defect, part)


def _check_medium(
    read: ReadShard,
    part: PartToCheck,
    head: bytes,
    content: SniffedContent,
    catalog_facts: CatalogFacts,
    findings: LocatedFindingCollector,
) -> None:
    if content.kind not in MEDIA_KINDS:
        found = f"{content.format} ({content.kind})" if content.format else content.kind
        findings.add("WDS140", f"it is not an image, audio or video: {found}", part)
        return
    facts = probe_media(part_byte_range(read, part, head), content)
    if isinstance(facts, Unreadable):
        findings.add("WDS140", facts.reason, part)
        return
    extension = part.part.rpartition(".")[2].lower()
    formats = FORMATS_BY_EXTENSION.get(extension)
    if formats is not None and content.format not in formats:
        kind = f" ({content.kind})" if content.kind != part_kind(part.part) else ""
        findings.add(
            "WDS142", f"the extension is {extension}, but the content is {content.format}{kind}", part, "warning"
        )
    indexed = catalog_facts.get((part.position, part.part))
    if indexed is not None and facts_to_columns(indexed) != facts_to_columns(facts):
        findings.add("WDS141", _describe_difference(indexed, facts), part)


def part_byte_range(read: ReadShard, part: PartToCheck, head: bytes = b"") -> ByteRangeFile:
    """Open a part as a file that reads on demand."""
    return ByteRangeFile(lambda start, size: read(part.offset + start, size), part.size, head=head)


def _describe_difference(indexed: MediumFacts | Unreadable, facts: MediumFacts) -> str:
    """Describe the first fact that differs, with both values."""
    old, new = facts_to_columns(indexed), facts_to_columns(facts)
    names = (*old[0]._fields, *old[1]._fields)
    name, was, now = next(
        values for values in zip(names, (*old[0], *old[1]), (*new[0], *new[1]), strict=True) if values[1] != values[2]
    )
    return f"{name} is {now}, but {was} in the catalog"


def npy_error(read: ReadShard, part: PartToCheck) -> str:
    """Return why an array's header is invalid or does not fit the part's size; empty if valid. Allocates nothing."""
    head = io.BytesIO(read(part.offset, min(part.size, HEADER_READ_BYTES)))
    try:
        shape, dtype = parse_npy_header(head)
    except ValueError as error:
        return f"its header is damaged: {' '.join(str(error).split())[:120]}"
    return array_size_error(shape, dtype, part.size - head.tell())


def array_size_error(shape: tuple[int, ...], dtype: np.dtype[np.generic], data_bytes: int) -> str:
    """Return why an array of this shape is not `data_bytes` long, or would never load; empty if valid."""
    if dtype.hasobject:
        return "it contains Python objects, which wdsctl never loads"
    expected = dtype.itemsize
    for length in shape:
        expected *= length
    return (
        ""
        if expected == data_bytes
        else f"its header declares {expected:,} bytes of data, but there are {data_bytes:,}"
    )


def _zip_error(read: ReadShard, part: PartToCheck, kind: PartKind) -> str:
    """Return why an npz or torch.save file has an invalid table of contents, or unpacks to too much; empty if valid."""
    source = part_byte_range(read, part)
    if source.read(2) != b"PK":
        # Up to torch 1.5, torch.save wrote a plain pickle, which can only be checked by running it.
        is_bare_pickle = kind == "torch" and sniff(source.read(HEADER_READ_BYTES)).kind == "pickle"
        return "" if is_bare_pickle else "it is not a zip archive"
    source.seek(0)
    try:
        with zipfile.ZipFile(source) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except HELD_ZIP_ERRORS as error:
        if source.failure is not None:
            raise source.failure from error
        return f"its table of contents is damaged: {error}"
    return f"it unpacks to {size:,} bytes, above {MAX_DECODABLE_BYTES:,}" if size > MAX_DECODABLE_BYTES else ""
