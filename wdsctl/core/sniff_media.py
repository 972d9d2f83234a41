"""The media containers whose first bytes need reading rather than comparing: what is in them decides their kind."""

from __future__ import annotations

import re
from typing import Literal

MediaKind = Literal["image", "video", "audio"]
Found = tuple[MediaKind, str]

_RIFF_FORMS: dict[bytes, Found] = {
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


def sniff(head: bytes) -> Found | None:
    """(kind, format) of a media container, or None."""
    for look in (_riff, _boxes, _matroska, _ogg, _flv, _bmp, _tagged, _mpeg_audio, _adts, _transport_stream):
        found = look(head)
        if found:
            return found
    return None


def _riff(head: bytes) -> Found | None:
    if head[:4] in {b"RIFF", b"RF64"}:
        return _RIFF_FORMS.get(head[8:12])
    if head[:4] == b"FORM" and head[8:12] in {b"AIFF", b"AIFC"}:
        return "audio", "aiff"
    return None


def _boxes(head: bytes) -> Found | None:
    """ISO base media: a 4-byte size, then the box's name. The size's first byte keeps text such as `the wide` out."""
    if len(head) < 12 or head[0] >= 0x09:
        return None
    if head[4:8] == b"ftyp":
        return _branded(head)
    return ("video", "mov") if head[4:8] in {b"moov", b"mdat", b"wide"} else None


def _branded(head: bytes) -> Found:
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, end, 4))}
    if brands & _AVIF_BRANDS:
        return "image", "avif"
    if brands & _HEIC_BRANDS:
        return "image", "heic"
    if head[8:12] in _AUDIO_BRANDS or _has_only_sound(head):
        return "audio", "m4a"
    return "video", "mov" if head[8:12] == b"qt  " else "mp4"


def _has_only_sound(head: bytes) -> bool:
    """Whether the whole table of contents lies in the head and names sound but no pictures."""
    start = head.find(b"moov") - 4
    if start < 0 or start + int.from_bytes(head[start : start + 4], "big") > len(head):
        return False
    handlers = {head[at.end() + 8 : at.end() + 12] for at in re.finditer(b"hdlr", head)}
    return b"soun" in handlers and b"vide" not in handlers


def _matroska(head: bytes) -> Found | None:
    if not head.startswith(b"\x1a\x45\xdf\xa3"):
        return None
    doctype = _DOCTYPE.search(head, 0, 128)
    form = doctype.group(1).decode() if doctype else "matroska"
    tracks, cluster, _ = head.partition(_CLUSTER)
    codecs = set(_CODEC.findall(tracks))
    # Without a cluster in sight a video track may still follow.
    return ("audio" if codecs == {b"A"} and cluster else "video"), form


def _ogg(head: bytes) -> Found | None:
    """The first page of every stream stands at the beginning and names its codec."""
    found: Found | None = None
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


def _flv(head: bytes) -> Found | None:
    if head[:4] != b"FLV\x01" or len(head) < 9:
        return None
    return ("audio" if head[4] & 0b101 == 0b100 else "video"), "flv"


def _bmp(head: bytes) -> Found | None:
    if head[:2] != b"BM" or head[6:10] != b"\0\0\0\0":
        return None
    return ("image", "bmp") if int.from_bytes(head[14:18], "little") in _BMP_HEADERS else None


def _tagged(head: bytes) -> Found | None:
    """An ID3v2 tag stands before MP3, and at times before FLAC and AAC."""
    is_tag = head[:3] == b"ID3" and len(head) >= 10 and head[3] in {2, 3, 4} and max(head[6:10]) < 0x80
    if not is_tag:
        return None
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    after = head[10 + size :]
    if after.startswith(b"fLaC"):
        return "audio", "flac"
    return _adts(after) or ("audio", "mp3")


def _mpeg_audio(head: bytes) -> Found | None:
    """A frame header that is sound, and a second one where the first says it ends (if the head reaches so far)."""
    size = _mpeg_frame_bytes(head)
    if not size:
        return None
    following = head[size : size + 4]
    if len(following) == 4 and not _mpeg_frame_bytes(following):
        return None
    return "audio", "mp3" if head[1] & 0b110 == 0b010 else "mp2"


def _mpeg_frame_bytes(head: bytes) -> int:
    """The size of the MPEG audio frame that begins here, 0 where none does. Layer I is left out: with it, the byte
    order mark of UTF-16 would pass for a header."""
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


def _adts(head: bytes) -> Found | None:
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


def _transport_stream(head: bytes) -> Found | None:
    if len(head) >= 188 * 3 and head[0] == head[188] == head[376] == 0x47 and b"\0" in head[:188]:
        return "video", "mpegts"
    return None
