"""Level `content`: does every part decode to its last byte, as the loader would decode it?

Nothing is unpickled or executed. Parts whose header declares more than `MAX_DECODABLE_BYTES` are not decoded.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from functools import partial

from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck
from wdsctl.core.checkpoint.torch_file import PICKLE_ERRORS, UnsupportedPickle, unpickle_safely
from wdsctl.core.json_text import JsonReader
from wdsctl.core.media.byte_range import MAX_KEPT_PAGES
from wdsctl.core.media.kinds import ARRAY_KINDS, MAX_DECODABLE_BYTES, MEDIA_KINDS, PartKind, part_kind
from wdsctl.core.samples.array_facts import parse_npy_header
from wdsctl.core.samples.stored_values import (
    RAW_IMAGE_EXTENSION,
    STORED_VALUE_ERRORS,
    raw_image_to_png,
    stored_value_decoder,
)
from wdsctl.core.validate.headers import (
    ReadShard,
    array_size_error,
    npy_error,
    part_byte_range,
    read_part_header,
)
from wdsctl.core.zip_errors import HELD_ZIP_ERRORS

_SIZE_LIMIT = f"at most {MAX_DECODABLE_BYTES:,} bytes are decoded"
_CHUNK_BYTES = 1 << 20  # bytes per read of a compressed member


def has_decodable_content(part: str) -> bool:
    return part_kind(part) != "other" or _stored_decoder(part) is not None


def _stored_decoder(part: str) -> Callable[[bytes], object] | None:
    """What decodes a value of a shard in another format than tar; None for other parts."""
    extension = part.rpartition(".")[2].lower()
    return raw_image_to_png if extension == RAW_IMAGE_EXTENSION else stored_value_decoder(extension)


def check_content(
    read: ReadShard, part: PartToCheck, findings: LocatedFindingCollector, *, is_decoded: bool = False
) -> None:
    """Add defects of a part's content to `findings`. Raises storage errors. `headers` reports empty media and arrays.

    `is_decoded`: the loader has decoded the part without complaint, so that images and npz are not decoded again.
    Takes the time of decoding. Memory: the part and its decoded form; for audio and video a few pages and frames.
    """
    kind = part_kind(part.part)
    if (part.size == 0 and kind in MEDIA_KINDS | ARRAY_KINDS) or (is_decoded and kind == "npz"):
        return
    if kind in MEDIA_KINDS:
        _check_medium(read, part, findings, is_decoded=is_decoded)
        return
    if part.size > MAX_DECODABLE_BYTES:
        findings.add("WDS146", f"it has {part.size:,} bytes; {_SIZE_LIMIT}", part)
        return
    if kind == "npy":
        if defect := npy_error(read, part):
            findings.add("WDS143", defect, part)
        return
    data = read(part.offset, part.size) if part.size else b""
    if kind in ("json", "lines"):
        _check_json(data, part, findings)
        return
    if decode := _stored_decoder(part.part):
        try:
            decode(data)
        except STORED_VALUE_ERRORS as error:
            findings.add("WDS143", str(error), part)
        return
    code, message = _CHECKS[kind](data)
    if code:
        findings.add(code, message, part)


def _check_medium(read: ReadShard, part: PartToCheck, findings: LocatedFindingCollector, *, is_decoded: bool) -> None:
    head, content = read_part_header(read, part)
    if content.kind == "image":
        if part.size > MAX_DECODABLE_BYTES:
            findings.add("WDS146", f"the image has {part.size:,} bytes; {_SIZE_LIMIT}", part)
            return
        from wdsctl.core.media.decode_check import check_decoded_image, check_image_decodes

        check = check_decoded_image if is_decoded else check_image_decodes
        verdict = check(read(part.offset, part.size))
    elif content.kind in ("audio", "video"):
        from wdsctl.core.media.decode_check import check_stream_decodes

        source = part_byte_range(read, part, head)
        # Decode the stream, and compare its checksums.
        source.max_read_bytes, source.max_kept_pages = 3 * part.size, MAX_KEPT_PAGES
        verdict = check_stream_decodes(source, content.format)
    else:
        return  # the level `headers` reports it
    if verdict.outcome == "doubtful":
        findings.add("WDS147", verdict.reason, part, "warning")
    elif verdict.outcome != "sound":
        findings.add("WDS146" if verdict.outcome == "too large" else "WDS143", verdict.reason, part)


Defect = tuple[str, str]  # code and message; both empty if there is no defect
NO_DEFECT: Defect = ("", "")


def text_defect(data: bytes) -> Defect:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return "WDS145", f"it is not UTF-8: {error.reason} at byte {error.start:,}"
    return NO_DEFECT


def json_defect(data: bytes, reader: JsonReader | None = None) -> Defect:
    """Return why the loader could not read JSON: it accepts any value in UTF-8. `reader` collects oddities."""
    if (defect := text_defect(data)) != NO_DEFECT:
        return defect
    try:
        (reader or JsonReader()).read(data)
    except json.JSONDecodeError as error:
        return "WDS144", f"{error.msg}, at character {error.pos:,}"
    except ValueError as error:
        return "WDS144", str(error)
    return NO_DEFECT


def _check_json(data: bytes, part: PartToCheck, findings: LocatedFindingCollector) -> None:
    """Add an error for JSON that does not parse, and a warning for JSON that other readers read differently."""
    reader = JsonReader()
    oddities: dict[str, str] = {}
    is_lines = part_kind(part.part) == "lines"
    for number, text in enumerate(data.splitlines() if is_lines else [data], 1):
        if is_lines and not text.strip():
            continue
        prefix = f"line {number}: " if is_lines else ""
        code, message = json_defect(text, reader)
        if code:
            findings.add(code, f"{prefix}{message}", part)
            return
        oddities = {code: f"{prefix}{odd}" for code, odd in reader.oddities.items()} | oddities
    for code, message in sorted(oddities.items()):
        findings.add(code, message, part, "warning")


def _integer_defect(data: bytes) -> Defect:
    try:
        int(data)
    except ValueError:
        return "WDS143", f"it is not a whole number: {data[:40]!r}"
    return NO_DEFECT


def _torch_defect(data: bytes) -> Defect:
    if not data.startswith(b"PK"):
        return NO_DEFECT  # a plain pickle, as before torch 1.6: the level `headers` checks it
    return _archive_defect(data, _pickle_error)


def _archive_defect(data: bytes, find_error: Callable[[zipfile.ZipFile], str]) -> Defect:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > MAX_DECODABLE_BYTES:
                return "WDS146", f"it unpacks to {size:,} bytes; {_SIZE_LIMIT}"
            for member in archive.infolist():
                with archive.open(member) as file:
                    while file.read(_CHUNK_BYTES):  # to the end, where zipfile compares the checksum
                        pass
            defect = find_error(archive)
    except HELD_ZIP_ERRORS as error:
        return "WDS143", f"the archive is damaged: {error}"
    return ("WDS143", defect) if defect else NO_DEFECT


def _arrays_error(archive: zipfile.ZipFile) -> str:
    for member in archive.infolist():
        data = archive.read(member)
        try:
            shape, dtype = parse_npy_header(file := io.BytesIO(data))
        except ValueError as error:
            return f"{member.filename}: its header is damaged: {error}"
        if defect := array_size_error(shape, dtype, len(data) - file.tell()):
            return f"{member.filename}: {defect}"
    return ""


def _pickle_error(archive: zipfile.ZipFile) -> str:
    names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
    if len(names) != 1:
        return "it has no data.pkl, so torch.save did not write it"
    try:
        unpickle_safely(archive.read(names[0]))
    except UnsupportedPickle as error:
        return f"it contains a {error}, which wdsctl never loads, because loading runs code"
    except PICKLE_ERRORS as error:
        return f"its pickle is damaged: {type(error).__name__}"
    return ""


_CHECKS: dict[PartKind, Callable[[bytes], Defect]] = {
    "text": text_defect,
    "integer": _integer_defect,
    "npz": partial(_archive_defect, find_error=_arrays_error),
    "torch": _torch_defect,
}
