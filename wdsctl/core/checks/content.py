"""Level `content`: does a part hold what its name promises, to the last byte? Decoded as the loader would, and dropped.

Nothing is ever unpickled or run. What promises more than there is memory for is refused by its header.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable

from wdsctl.core.checks.headers import Read, header_of, npy_header, npy_trouble, source_of
from wdsctl.core.checks.kinds import MAX_BYTES, MEDIA, Kind, kind_of
from wdsctl.core.checks.placed import Gathered, Sight
from wdsctl.core.json_reader import JsonReader
from wdsctl.core.media.byte_range import KEPT
from wdsctl.core.torch_file import ForeignPickle, unpickled

_BAD_ZIP = (
    zipfile.BadZipFile,
    ValueError,
    EOFError,
    OSError,
    struct.error,
    NotImplementedError,  # zipfile's, of a way of packing that it does not know
    zlib.error,
    RuntimeError,
)
_BAD_PICKLE = (
    *(pickle.UnpicklingError, ValueError, TypeError, AttributeError, LookupError, EOFError, MemoryError, OverflowError),
)
_CHUNK = 1 << 20  # bytes of a packed member at a time


def wants_content(part: str) -> bool:
    return kind_of(part) != "other"


def check_content(read: Read, sight: Sight, found: Gathered) -> None:
    """Adds what is wrong to `found`. Raises what reading raises. Empty parts are told of by the scan already.

    Memory: the part, and what it decodes to; of sounds and videos some pages and frames. Cost: what decoding takes.
    """
    if sight.size == 0:
        return
    kind = kind_of(sight.part)
    if kind in MEDIA:
        _check_medium(read, sight, found)
        return
    if sight.size > MAX_BYTES:
        found.add("WDS146", f"it has {sight.size:,} bytes, and at most {MAX_BYTES:,} are decoded", sight)
        return
    if kind == "npy":
        if said := npy_trouble(read, sight):
            found.add("WDS143", said, sight)
        return
    if kind in ("json", "lines"):
        _check_json(read(sight.offset, sight.size), sight, found)
        return
    code, said = _CHECKS[kind](read(sight.offset, sight.size))
    if code:
        found.add(code, said, sight)


def _check_medium(read: Read, sight: Sight, found: Gathered) -> None:
    header = header_of(read, sight)
    if header.content.kind == "image":
        if sight.size > MAX_BYTES:
            found.add("WDS146", f"the image has {sight.size:,} bytes, and at most {MAX_BYTES:,} are decoded", sight)
            return
        from wdsctl.core.media.whole_image import judge_image

        verdict = judge_image(read(sight.offset, sight.size))
    elif header.content.kind in ("audio", "video"):
        from wdsctl.core.media.whole_stream import judge_stream

        source = source_of(read, sight, header.head)
        source.most, source.kept = 3 * sight.size, KEPT  # decoded, and its checksums compared
        verdict = judge_stream(source, header.content.format)
    else:
        return  # the headers' level has told
    if verdict.is_ == "doubtful":
        found.add("WDS147", verdict.reason, sight, "warning")
    elif verdict.is_ != "sound":
        found.add("WDS146" if verdict.is_ == "too large" else "WDS143", verdict.reason, sight)


Said = tuple[str, str]  # the code of what is wrong, and words for it; both empty where nothing is
FINE: Said = ("", "")


def text_trouble(data: bytes) -> Said:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return "WDS145", f"it is not UTF-8: {error.reason} at byte {error.start:,}"
    return FINE


def json_trouble(data: bytes) -> Said:
    """As the loader reads it: in UTF-8, whatever value."""
    return _json_trouble(data, JsonReader())


def _json_trouble(data: bytes, reader: JsonReader) -> Said:
    if (said := text_trouble(data)) != FINE:
        return said
    try:
        reader.read(data)
    except json.JSONDecodeError as error:
        return "WDS144", f"{error.msg}, at character {error.pos:,}"
    except RecursionError:
        return "WDS144", "it is nested too deep"
    except ValueError:  # an integer of more digits than Python reads
        return "WDS144", "it has a number of too many digits"
    return FINE


def _check_json(data: bytes, sight: Sight, found: Gathered) -> None:
    """What does not parse is an error, what other readers take otherwise a warning."""
    reader = JsonReader()
    odd: dict[str, str] = {}
    is_lines = kind_of(sight.part) == "lines"
    for number, piece in enumerate(data.splitlines() if is_lines else [data], 1):
        if is_lines and not piece.strip():
            continue
        where = f"line {number}: " if is_lines else ""
        code, said = _json_trouble(piece, reader)
        if code:
            found.add(code, f"{where}{said}", sight)
            return
        odd = {code: f"{where}{said}" for code, said in reader.odd.items()} | odd
    for code, said in sorted(odd.items()):
        found.add(code, said, sight, "warning")


def _integer_trouble(data: bytes) -> Said:
    try:
        int(data)
    except ValueError:
        return "WDS143", f"it is no whole number: {data[:40]!r}"
    return FINE


def _npz_trouble(data: bytes) -> Said:
    return _archive_trouble(data, _check_arrays)


def _torch_trouble(data: bytes) -> Said:
    if not data.startswith(b"PK"):
        return FINE  # of before torch 1.6: the headers' level has looked at what there is
    return _archive_trouble(data, _check_pickle)


def _archive_trouble(data: bytes, check: Callable[[zipfile.ZipFile], str]) -> Said:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > MAX_BYTES:
                return "WDS146", f"it unpacks to {size:,} bytes, and at most {MAX_BYTES:,} are decoded"
            for member in archive.infolist():
                with archive.open(member) as file:
                    while file.read(_CHUNK):  # to the end: the checksum is compared there
                        pass
            said = check(archive)
    except _BAD_ZIP as error:
        return "WDS143", f"the archive is damaged: {error}"
    return ("WDS143", said) if said else FINE


def _check_arrays(archive: zipfile.ZipFile) -> str:
    for member in archive.infolist():
        data = archive.read(member)
        try:
            shape, dtype = npy_header(file := io.BytesIO(data))
        except (ValueError, SyntaxError, TypeError) as error:
            return f"{member.filename}: its header is damaged: {error}"
        needed = dtype.itemsize
        for side in shape:
            needed *= side
        if dtype.hasobject:
            return f"{member.filename} holds Python objects, which are never loaded"
        if needed != len(data) - file.tell():
            return f"{member.filename}: its header promises {needed:,} bytes, and there are {len(data) - file.tell():,}"
    return ""


def _check_pickle(archive: zipfile.ZipFile) -> str:
    names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
    if len(names) != 1:
        return "it is none of torch.save: it has no data.pkl"
    try:
        unpickled(archive.read(names[0]))
    except ForeignPickle as error:
        return f"it holds a {error}, which is made by code and never loaded"
    except _BAD_PICKLE as error:
        return f"its pickle is damaged: {type(error).__name__}"
    return ""


_CHECKS: dict[Kind, Callable[[bytes], Said]] = {
    "text": text_trouble,
    "integer": _integer_trouble,
    "npz": _npz_trouble,
    "torch": _torch_trouble,
}
