"""Detect the format of a part from its first bytes. Its name decides only for bare JPEG XL: see `sniff`.

A table of signatures comes first, then containers whose contents decide their kind, then text. Uses the standard
library only. Cost: some microseconds a part, plus parsing JSON. 4 KiB are enough for all formats but long JSON.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import USUAL_EXTENSION, MediaType

SniffedFormat = tuple[MediaType, str]

_RIFF_FORMATS: dict[bytes, SniffedFormat] = {
    b"WEBP": ("image", "webp"),
    b"WAVE": ("audio", "wav"),
    b"AVI ": ("video", "avi"),
}
_AUDIO_BRANDS = {b"M4A ", b"M4B ", b"M4P ", b"F4A ", b"F4B "}
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_AVIF_BRANDS = {b"avif", b"avis"}
_OGG_VIDEO = (b"\x80theora", b"\x01video", b"BBCD\0")
_OGG_AUDIO = (b"\x01vorbis", b"OpusHead", b"\x7fFLAC", b"Speex   ")
_DOCTYPE = re.compile(rb"\x42\x82[\x81-\x88](webm|matroska)")
_CODEC = re.compile(rb"\x86[\x81-\xa0]([VA])_[A-Z]")
_CLUSTER = b"\x1f\x43\xb6\x75"
_BMP_HEADERS = {12, 40, 52, 56, 64, 108, 124}  # the sizes that the second header of a BMP can have

# kbit/s by the four bits of the frame header: MPEG-1 layer II and III, then MPEG-2 and 2.5 (both layers alike).
_MPEG1_LAYER2 = (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384)
_MPEG1_LAYER3 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MPEG2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MPEG1_RATES = (44_100, 48_000, 32_000)


def sniff_media(head: bytes) -> SniffedFormat | None:
    """Return (kind, format) of a media container, or None."""
    for look in (_riff, _iso_media, _matroska, _ogg, _flv, _bmp, _id3_tagged, _mpeg_audio, _adts, _transport_stream):
        found = look(head)
        if found:
            return found
    return None


def _riff(head: bytes) -> SniffedFormat | None:
    if head[:4] in {b"RIFF", b"RF64"}:
        return _RIFF_FORMATS.get(head[8:12])
    if head[:4] == b"FORM" and head[8:12] in {b"AIFF", b"AIFC"}:
        return "audio", "aiff"
    return None


def _iso_media(head: bytes) -> SniffedFormat | None:
    """Detect ISO base media: a 4-byte size, then the name of a box.

    The first byte of the size rules out text such as `the wide`.
    """
    if len(head) < 12 or head[0] >= 0x09:
        return None
    if head[4:8] == b"ftyp":
        return _iso_media_by_brand(head)
    return ("video", "mov") if head[4:8] in {b"moov", b"mdat", b"wide"} else None


def _iso_media_by_brand(head: bytes) -> SniffedFormat:
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, end, 4))}
    if brands & _AVIF_BRANDS:
        return "image", "avif"
    if brands & _HEIC_BRANDS:
        return "image", "heic"
    if head[8:12] in _AUDIO_BRANDS or _is_audio_only(head):
        return "audio", "m4a"
    return "video", "mov" if head[8:12] == b"qt  " else "mp4"


def _is_audio_only(head: bytes) -> bool:
    """Whether the head holds the whole table of contents, which lists audio but no video."""
    start = head.find(b"moov") - 4
    if start < 0 or start + int.from_bytes(head[start : start + 4], "big") > len(head):
        return False
    handlers = {head[at.end() + 8 : at.end() + 12] for at in re.finditer(b"hdlr", head)}
    return b"soun" in handlers and b"vide" not in handlers


def _matroska(head: bytes) -> SniffedFormat | None:
    if not head.startswith(b"\x1a\x45\xdf\xa3"):
        return None
    doctype = _DOCTYPE.search(head, 0, 128)
    form = doctype.group(1).decode() if doctype else "matroska"
    tracks, cluster, _ = head.partition(_CLUSTER)
    codecs = set(_CODEC.findall(tracks))
    # Without a cluster in the head, a video track may still follow.
    return ("audio" if codecs == {b"A"} and cluster else "video"), form


def _ogg(head: bytes) -> SniffedFormat | None:
    """Detect Ogg: the first pages of all streams are at the start of the file and name their codecs."""
    found: SniffedFormat | None = None
    at = 0
    while head.startswith(b"OggS\0", at) and head[at + 5 : at + 6] and head[at + 5] & 2:
        segments = head[at + 26] if len(head) > at + 26 else 0
        body = at + 27 + segments
        if head.startswith(_OGG_VIDEO, body):
            return "video", "ogg"
        if head.startswith(_OGG_AUDIO, body):
            found = ("audio", "ogg")
        at = body + sum(head[at + 27 : body])
    return found or (("audio", "ogg") if head.startswith(b"OggS\0") else None)


def _flv(head: bytes) -> SniffedFormat | None:
    if head[:4] != b"FLV\x01" or len(head) < 9:
        return None
    return ("audio" if head[4] & 0b101 == 0b100 else "video"), "flv"


def _bmp(head: bytes) -> SniffedFormat | None:
    if head[:2] != b"BM" or head[6:10] != b"\0\0\0\0":
        return None
    return ("image", "bmp") if int.from_bytes(head[14:18], "little") in _BMP_HEADERS else None


def _id3_tagged(head: bytes) -> SniffedFormat | None:
    """Detect what follows an ID3v2 tag: MP3, sometimes FLAC or AAC."""
    is_tag = head[:3] == b"ID3" and len(head) >= 10 and head[3] in {2, 3, 4} and max(head[6:10]) < 0x80
    if not is_tag:
        return None
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    after = head[10 + size :]
    if after.startswith(b"fLaC"):
        return "audio", "flac"
    return _adts(after) or ("audio", "mp3")


def _mpeg_audio(head: bytes) -> SniffedFormat | None:
    """Detect MPEG audio: a frame header, and a second one where the first frame ends, if the head reaches so far."""
    size = _mpeg_frame_bytes(head)
    if not size:
        return None
    following = head[size : size + 4]
    if len(following) == 4 and not _mpeg_frame_bytes(following):
        return None
    return "audio", "mp3" if head[1] & 0b110 == 0b010 else "mp2"


def _mpeg_frame_bytes(head: bytes) -> int:
    """Return the size of the MPEG audio frame that begins here; 0 if there is none.

    Layer I is left out: the byte order mark of UTF-16 would pass for its header.
    """
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return 0
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3  # version 3: MPEG-1, 2: MPEG-2, 0: 2.5; layer 1: III, 2: II
    rate_index, bitrate_index = head[2] >> 2 & 3, head[2] >> 4
    if version == 1 or layer not in {1, 2} or rate_index == 3 or bitrate_index in {0, 15}:
        return 0
    is_first = version == 3
    table = (_MPEG1_LAYER3 if layer == 1 else _MPEG1_LAYER2) if is_first else _MPEG2
    rate = _MPEG1_RATES[rate_index] // {3: 1, 2: 2, 0: 4}[version]
    samples_by_8 = 72 if layer == 1 and not is_first else 144
    return samples_by_8 * table[bitrate_index] * 1000 // rate + (head[2] >> 1 & 1)


def _adts(head: bytes) -> SniffedFormat | None:
    size = _adts_frame_bytes(head)
    if not size:
        return None
    following = head[size : size + 7]
    return None if len(following) == 7 and not _adts_frame_bytes(following) else ("audio", "aac")


def _adts_frame_bytes(head: bytes) -> int:
    if len(head) < 7 or head[0] != 0xFF or head[1] & 0xF6 != 0xF0 or head[2] >> 2 & 0xF > 12:
        return 0
    size = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    return size if size > 7 else 0


def _transport_stream(head: bytes) -> SniffedFormat | None:
    if len(head) >= 188 * 3 and head[0] == head[188] == head[376] == 0x47 and b"\0" in head[:188]:
        return "video", "mpegts"
    return None


ContentKind = Literal[
    "image", "video", "audio", "text", "integer", "number", "json", "array", "archive", "pickle", "empty", "binary"
]


@dataclass(frozen=True, slots=True)
class SniffedContent:
    """`format` is the usual short name: jpeg, mp4, utf-8, object (of JSON), npy, gzip; empty if there is none."""

    kind: ContentKind
    format: str = ""


JPEG_SIGNATURE = b"\xff\xd8\xff"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JXL_CODESTREAM = b"\xff\x0a"

#: (offset, magic, kind, format). Text does not begin like any of these by accident. Functions check what could be text
#: more closely: BM, ID3, PK, or `wide` at the place of a box's name.
SIGNATURES: tuple[tuple[int, bytes, ContentKind, str], ...] = (
    (0, JPEG_SIGNATURE, "image", "jpeg"),
    (0, PNG_SIGNATURE, "image", "png"),
    (0, b"GIF87a", "image", "gif"),
    (0, b"GIF89a", "image", "gif"),
    (0, b"II*\0", "image", "tiff"),
    (0, b"MM\0*", "image", "tiff"),
    (0, b"II+\0", "image", "tiff"),
    (0, b"MM\0+", "image", "tiff"),
    (0, b"\0\0\0\x0cjP  \r\n\x87\n", "image", "jpeg2000"),
    (0, b"\xff\x4f\xff\x51", "image", "jpeg2000"),
    (0, b"\0\0\0\x0cJXL \r\n\x87\n", "image", "jxl"),
    (0, b"fLaC\0", "audio", "flac"),
    (0, b"fLaC\x80", "audio", "flac"),
    (0, b"NIST_1A\n", "audio", "sphere"),
    (0, b"caff\0\1\0\0", "audio", "caf"),
    (0, b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0", "audio", "w64"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "video", "asf"),
    (0, b"\0\0\1\xba", "video", "mpeg"),
    (0, b"\0\0\1\xb3", "video", "mpeg"),
    (0, b"\x93NUMPY", "array", "npy"),
    (0, b"\x89HDF\r\n\x1a\n", "array", "hdf5"),
    (0, b"\x1f\x8b\x08", "archive", "gzip"),
    (0, b"\x28\xb5\x2f\xfd", "archive", "zstd"),
    (0, b"\xfd7zXZ\0", "archive", "xz"),
    (0, b"\x04\x22\x4d\x18", "archive", "lz4"),
    (0, b"7z\xbc\xaf\x27\x1c", "archive", "7z"),
    (257, b"ustar", "archive", "tar"),
    (0, b"%PDF-", "binary", "pdf"),
    (0, b"PAR1\x15", "binary", "parquet"),
)

#: Formats that fixed bytes cannot identify: (pattern from the first byte on, kind, format).
SIGNATURE_PATTERNS: tuple[tuple[re.Pattern[bytes], ContentKind, str], ...] = (
    (re.compile(rb"\x00\x00\x01\x00[\x01-\x40]\x00...\x00", re.DOTALL), "image", "ico"),
    (re.compile(rb"\x01\xda[\x00\x01][\x01\x02]\x00[\x01-\x03]"), "image", "sgi"),
    (re.compile(rb"\n[\x00\x02-\x05][\x00\x01][\x01\x02\x04\x08].{60}\x00[\x01-\x04]", re.DOTALL), "image", "pcx"),
    # TGA has no magic. The patterns match its kind, its color table (described, or absent), bits a pixel and flags.
    (re.compile(rb".\x00[\x02\x03\n\x0b]\x00{5}.{8}[\x01\x08\x10\x18 ][\x00-\x2f]", re.DOTALL), "image", "tga"),
    (re.compile(rb".\x01[\x01\t].{4}[\x0f\x10\x18 ].{8}\x08[\x00-\x2f]", re.DOTALL), "image", "tga"),
    (re.compile(rb"P[456]\s+(#[^\n]*\n\s*)*\d+\s+(#[^\n]*\n\s*)*\d+\s"), "image", "pnm"),
    # The size of the header, from 24, and after the size of the data the encoding, from 1 to 27.
    (re.compile(rb"\.snd\x00\x00..{5}\x00\x00\x00[\x01-\x1b]", re.DOTALL), "audio", "au"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "archive", "bzip2"),
    (re.compile(rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\."), "pickle", "torch"),
    # The length of the header as a little-endian u64, then the header, a JSON object.
    (re.compile(rb"....[\x00-\xff]\x00\x00\x00\{[ \"}]", re.DOTALL), "array", "safetensors"),
)

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def sniff(head: bytes, size: int | None = None, *, name: str = "") -> SniffedContent:
    """Return the content of a part from its first bytes `head` and its whole size (None: `head` is all of it).

    `name`: the name of the part, or its extension. JPEG XL without a container begins with two bytes that raw numbers
    begin with, too, such as the token 2815. Such a part is JPEG XL only if its name says so.
    """
    if not head:
        return SniffedContent("empty" if not size else "binary")
    is_whole = size is None or size <= len(head)
    return (
        _by_signature(head)
        or _by_media(head)
        or _by_container(head, is_whole=is_whole)
        or _by_text(head, is_whole=is_whole)
        or _by_name(head, name)
        or SniffedContent("binary")
    )


def _by_signature(head: bytes) -> SniffedContent | None:
    for offset, magic, kind, form in SIGNATURES:
        if head.startswith(magic, offset):
            return SniffedContent(kind, form)
    for pattern, kind, form in SIGNATURE_PATTERNS:
        if pattern.match(head):
            return SniffedContent(kind, form)
    return None


def _by_media(head: bytes) -> SniffedContent | None:
    found = sniff_media(head)
    return SniffedContent(*found) if found else None


def _by_container(head: bytes, *, is_whole: bool) -> SniffedContent | None:
    if head.startswith(b"PK"):
        return _zip(head)
    return SniffedContent("pickle", "pickle") if _is_pickle(head, is_whole=is_whole) else None


def _zip(head: bytes) -> SniffedContent | None:
    if head.startswith((b"PK\5\6", b"PK\7\x08")):
        return SniffedContent("archive", "zip")
    if not head.startswith(b"PK\3\4"):
        return None
    # torch and numpy write a member with a known name first.
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name.endswith(b".npy"):
        return SniffedContent("array", "npz")
    if name.endswith((b"/data.pkl", b"/version", b"/.format_version")):
        return SniffedContent("pickle", "torch")
    return SniffedContent("archive", "zip")


def _is_pickle(head: bytes, *, is_whole: bool) -> bool:
    """Detect pickle protocols 2 to 5. Older ones are plain text without a mark."""
    if len(head) < 4 or head[0] != 0x80 or not 2 <= head[1] <= 5:
        return False
    if is_whole and head[-1:] != b".":
        return False
    return head[1] < 4 or head[2:3] == b"\x95" or is_whole


def _by_text(head: bytes, *, is_whole: bool) -> SniffedContent | None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _utf16_text(head, is_whole=is_whole)
    if _CONTROL.search(head):
        return None
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=is_whole)
    except UnicodeDecodeError:
        return None
    return _text_content(text.strip(), is_whole=is_whole)


def _utf16_text(head: bytes, *, is_whole: bool) -> SniffedContent | None:
    try:
        text = codecs.getincrementaldecoder("utf-16")().decode(head, final=is_whole)
    except UnicodeDecodeError:
        return None
    printable = sum(char.isprintable() or char.isspace() for char in text)
    return SniffedContent("text", "utf-16") if printable >= 0.95 * len(text) else None


def _text_content(text: str, *, is_whole: bool) -> SniffedContent:
    if is_whole and _INTEGER.fullmatch(text):
        return SniffedContent("integer", "utf-8")
    if is_whole and _NUMBER.fullmatch(text):
        return SniffedContent("number", "utf-8")
    form = {"{": "object", "[": "array", '"': "string"}.get(text[:1])
    if form and _is_json(text, is_whole=is_whole):
        return SniffedContent("json", form)
    return SniffedContent("text", "utf-8")


def _is_json(text: str, *, is_whole: bool) -> bool:
    """Whether the text is JSON. If the head cuts the text off, whether parsing fails only at the cut."""
    try:
        read_json(text)
    except json.JSONDecodeError as error:
        if is_whole:
            return False
        # The parser reports the start of an unterminated string; else a position at most a token before the end.
        return error.msg.startswith("Unterminated string") or error.pos >= len(text) - 12
    except ValueError:
        return False  # an integer of more digits than Python reads, or nesting deeper than its stack
    return True


def _by_name(head: bytes, name: str) -> SniffedContent | None:
    is_jxl = head.startswith(_JXL_CODESTREAM) and name.lower().rpartition(".")[2] == "jxl"
    return SniffedContent("image", "jxl") if is_jxl else None


#: Format -> its usual file extension.
_USUAL_EXTENSION = {**USUAL_EXTENSION, "gzip": "gz", "bzip2": "bz2", "hdf5": "h5"}
_EXTENSION_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,16}")


def extension_of_content(head: bytes, size: int) -> str:
    """The usual extension of the media file, array, archive or PDF that begins with `head`; `bin` for anything else.

    Text is `bin` too: a column could hold text in one row and a number or JSON in the next, and get different names.
    """
    found = sniff(head[:4096], size)
    if found.kind not in ("image", "video", "audio", "array", "archive") and found.format != "pdf":
        return "bin"
    ending = _USUAL_EXTENSION.get(found.format, found.format)
    return ending if _EXTENSION_PATTERN.fullmatch(ending) else "bin"
