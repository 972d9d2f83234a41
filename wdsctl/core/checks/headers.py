"""Level `headers`: does a part begin as its name promises, and is a medium what the catalog says of it?"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from wdsctl.core.checks.kinds import ARRAYS, MAX_BYTES, MEDIA, Kind, kind_of
from wdsctl.core.checks.placed import Gathered, Sight
from wdsctl.core.evidence import PROMISED
from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.media.probe import probe
from wdsctl.core.media.stored import stored
from wdsctl.core.sniff import Content, sniff

HEAD = 64 << 10  # bytes of every part that are looked at first: most headers end in them

Read = Callable[[int, int], bytes]  # (offset in the shard, bytes) -> exactly these bytes
Known = Mapping[tuple[int, str], Facts | Unreadable]  # by the sample's place and the part's name

_BAD_NPY = (ValueError, SyntaxError, TypeError, EOFError, struct.error, OverflowError)


class Header(NamedTuple):
    """The first bytes of a part, and what they are."""

    head: bytes
    content: Content


def wants_header(part: str) -> bool:
    return kind_of(part) in MEDIA | ARRAYS


def header_of(read: Read, sight: Sight) -> Header:
    head = read(sight.offset, min(sight.size, HEAD))
    return Header(head, sniff(head, sight.size))


def check_header(read: Read, sight: Sight, known: Known, found: Gathered) -> None:
    """Adds what is wrong to `found`. Raises what reading raises. Empty parts are told of by the scan already.

    Cost: some 0.1 to 10 ms a medium, and 64 KiB of it; more where its header is longer.
    """
    if sight.size == 0:
        return
    header = header_of(read, sight)
    kind = kind_of(sight.part)
    if kind in MEDIA:
        _check_medium(read, sight, header, known, found)
    elif kind == "npy":
        if said := npy_trouble(read, sight):
            found.add("WDS140", said, sight)
    elif said := _zip_trouble(read, sight, kind):
        found.add("WDS140", said, sight)


def _check_medium(read: Read, sight: Sight, header: Header, known: Known, found: Gathered) -> None:
    content = header.content
    if content.kind not in MEDIA:
        words = f"{content.format} ({content.kind})" if content.format else content.kind
        found.add("WDS140", f"it is no image, sound or video: {words}", sight)
        return
    facts = probe(source_of(read, sight, header.head), content)
    if isinstance(facts, Unreadable):
        found.add("WDS140", facts.reason, sight)
        return
    if said := _misnamed(sight.part, content):
        found.add("WDS142", said, sight, "warning")
    before = known.get((sight.row, sight.part))
    if before is not None and stored(before) != stored(facts):
        found.add("WDS141", _difference(before, facts), sight)


def source_of(read: Read, sight: Sight, head: bytes = b"") -> ByteRange:
    """A part as a file that reads what is asked of it."""
    return ByteRange(lambda at, size: read(sight.offset + at, size), sight.size, head=head)


def _misnamed(part: str, content: Content) -> str:
    """A medium under the name of another format; empty where the name does not lie, or promises nothing."""
    name = part.rpartition(".")[2].lower()
    promised = PROMISED.get(name)
    if promised is not None and content.format not in promised:
        kind = f" ({content.kind})" if content.kind != kind_of(part) else ""
        return f"the name says {name}, and it is {content.format}{kind}"
    return ""


def _difference(before: Facts | Unreadable, now: Facts) -> str:
    old, new = stored(before), stored(now)
    pairs = [*zip(old[0]._fields, old[0], new[0], strict=True), *zip(old[1]._fields, old[1], new[1], strict=True)]
    name, was, is_ = next(pair for pair in pairs if pair[1] != pair[2])
    return f"{name} is {is_}, and {was} in the catalog"


def npy_trouble(read: Read, sight: Sight) -> str:
    """Whether the header of an array fits its size: nothing is allocated by what a header claims."""
    head = io.BytesIO(read(sight.offset, min(sight.size, HEAD)))
    try:
        shape, dtype = npy_header(head)
    except _BAD_NPY as error:
        return f"its header is damaged: {' '.join(str(error).split())[:120]}"
    if dtype.hasobject:
        return "it holds Python objects, which are never loaded"
    needed = dtype.itemsize * _product(shape)
    have = sight.size - head.tell()
    return "" if needed == have else f"its header promises {needed:,} bytes of data, and there are {have:,}"


def npy_header(file: io.BytesIO) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Shape and type of what follows. Raises what is in _BAD_NPY. Source: numpy.lib.format."""
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {version} is not known")
    shape, _, dtype = reader(file)
    return shape, dtype


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for side in shape:
        total *= side
    return total


def _zip_trouble(read: Read, sight: Sight, kind: Kind) -> str:
    """Of npz and torch.save: whether the table of contents can be read, and what it unpacks to."""
    source = source_of(read, sight)
    if source.read(2) != b"PK":
        # torch.save wrote a bare pickle up to 1.5; what is in one cannot be told without running it.
        return "" if kind == "torch" and sniff(source.read(HEAD)).kind == "pickle" else "it is no zip archive"
    source.seek(0)
    try:
        with zipfile.ZipFile(source) as archive:
            size = sum(member.file_size for member in archive.infolist())
    # NotImplementedError is zipfile's, of a version of the form that it does not know.
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, struct.error, NotImplementedError) as error:
        if source.failure is not None:
            raise source.failure from error
        return f"its table of contents is damaged: {error}"
    return f"it unpacks to {size:,} bytes, above {MAX_BYTES:,}" if size > MAX_BYTES else ""
