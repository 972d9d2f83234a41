"""The names of files in zips, from their bytes: `zipfile` decodes them differently in different versions of Python.

An entry may say that its name is UTF-8, by a flag or in an extra field. Many tools write UTF-8 without saying so, and
others the encoding of their machine, of which the zip has no trace.

Source: PKWARE, APPNOTE.TXT, 4.4.4 (bit 11 of the flags), 4.6.9 (the extra field 0x7075, Unicode Path).
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Sequence

UTF8_FLAG = 1 << 11
_UNICODE_PATH = 0x7075
#: Encodings that a zip without UTF-8 may have, in the order in which an error tries them.
_CANDIDATES = ("gb18030", "shift_jis", "euc-kr", "cp437")


def decode_zip_name(raw: bytes, flags: int, extra: bytes) -> str | None:
    """The name of an entry; None if the zip does not say its encoding, and the bytes are not UTF-8.

    Raises UnicodeDecodeError if the entry says that its name is UTF-8, and it is not.
    """
    if flags & UTF8_FLAG:
        return raw.decode()
    if (name := _read_unicode_path(raw, extra)) is not None:
        return name.decode()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _read_unicode_path(raw: bytes, extra: bytes) -> bytes | None:
    """The name in UTF-8 of the extra field, if it belongs to this name: tools that rename entries leave an old one."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        field = extra[at + 4 : at + 4 + length]
        if kind == _UNICODE_PATH and len(field) > 5 and field[0] == 1:
            return field[5:] if struct.unpack_from("<I", field, 1)[0] == zlib.crc32(raw) else None
        at += 4 + length
    return None


def raw_zip_name(entry: zipfile.ZipInfo) -> bytes:
    """The bytes of the name of an entry that `zipfile` has read."""
    return entry.orig_filename.encode("utf-8" if entry.flag_bits & UTF8_FLAG else "cp437")


def guess_encoding(names: Sequence[bytes]) -> str:
    """An encoding in which all these names can be read, to suggest to the user; names cannot prove theirs."""
    for encoding in _CANDIDATES:
        try:
            for name in names:
                name.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return _CANDIDATES[-1]
