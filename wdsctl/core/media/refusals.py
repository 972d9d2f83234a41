"""Why Pillow does not open an image: the true cause, from a few fields of its header."""

from __future__ import annotations

import io
import struct

from PIL import TiffImagePlugin

from wdsctl.core.media.jpeg import JPEG_LS_FRAME, frame_segment
from wdsctl.core.media.kinds import decoder_package, has_reader
from wdsctl.core.media.sniff import sniff

SNIFFED_BYTES = 64
NO_IMAGE = "not an image of a supported format"
_DAMAGED = "its header is damaged or cut off"

#: Start-of-frame markers of JPEG -> the kind of JPEG, for those that decoders usually lack.
_RARE_JPEG = {0xC3: "lossless", 0xC5: "hierarchical", 0xC6: "hierarchical", 0xC7: "hierarchical"}
_RARE_JPEG |= {0xC9: "arithmetic-coded", 0xCA: "arithmetic-coded", 0xCB: "lossless"}
_RARE_JPEG |= {0xCD: "hierarchical", 0xCE: "hierarchical", 0xCF: "hierarchical"}

#: Values of the tag SampleFormat.
_SAMPLE_FORMATS = {1: "unsigned", 2: "signed", 3: "floating-point", 5: "complex integer", 6: "complex"}
#: Values of the tag Compression that Pillow does not know, or knows only if libtiff was built with them.
_COMPRESSIONS = {34887: "LERC", 34892: "DNG JPEG", 34925: "LZMA", 50000: "Zstandard", 50001: "WebP", 50002: "JPEG XL"}
_COMPRESSIONS |= {52546: "JPEG XL", 34712: "JPEG 2000", 33003: "JPEG 2000", 33005: "JPEG 2000"}


def explain_refusal(data: bytes) -> str:
    """The cause, as a phrase about the file: `it is a JPEG of 12 bits per channel, which Pillow does not read`.

    `data`: the file, or as much of its beginning as is known.
    """
    if not data:
        return "it is empty"
    content = sniff(data[:SNIFFED_BYTES], len(data), name="jxl")  # bare JPEG XL has too short a signature otherwise
    if content.kind != "image":
        kind = {"utf-8": "text", "object": "JSON", "array": "JSON"}.get(content.format, content.format or "")
        return f"{NO_IMAGE}: its content is {kind}" if kind else NO_IMAGE
    if not has_reader(content.format):
        return f"it is {content.format.upper()}, which needs the package {decoder_package(content.format)}"
    try:
        what = _unusual(content.format, data)
    except (struct.error, SyntaxError, ValueError, LookupError, TypeError, OSError, OverflowError, UserWarning):
        what = ""  # Pillow warns of a damaged directory, and a program may turn warnings into errors
    return f"it is {what}, which Pillow does not read" if what else _DAMAGED


def _unusual(form: str, data: bytes) -> str:
    """What is rare about the file, in words; empty if nothing is, so that something must be damaged."""
    if form == "jpeg":
        return _unusual_jpeg(data)
    if form == "tiff":
        return _unusual_tiff(data)
    return _unusual_bmp(data) if form == "bmp" else ""


def _unusual_jpeg(data: bytes) -> str:
    marker, content = frame_segment(data)
    if marker == JPEG_LS_FRAME:
        return "JPEG-LS"
    if not marker:
        return ""
    kind, bits, channels = _RARE_JPEG.get(marker, ""), content[0], content[5]
    facts = [f"{bits} bits per channel"] if bits != 8 else []
    if channels not in (1, 3, 4):
        facts.append(f"{channels} channels")
    name = f"a {kind} JPEG" if kind else "a JPEG"
    return f"{name} of {' and '.join(facts)}" if facts else name if kind else ""


def _unusual_tiff(data: bytes) -> str:
    header = data[:16] if data[2:3] in (b"\x2b", b"\0") and b"\x2b" in data[2:4] else data[:8]
    tags = TiffImagePlugin.ImageFileDirectory_v2(header)
    file = io.BytesIO(data)
    file.seek(tags.next)
    tags.load(file)
    if TiffImagePlugin.IMAGEWIDTH not in tags:
        return ""
    bits = tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))
    form = tags.get(TiffImagePlugin.SAMPLEFORMAT, (1,))
    compression = tags.get(TiffImagePlugin.COMPRESSION, 1)
    if compression in _COMPRESSIONS:
        return f"a TIFF with {_COMPRESSIONS[compression]} compression"
    channels, numbers = tags.get(TiffImagePlugin.SAMPLESPERPIXEL, 1), _SAMPLE_FORMATS.get(form[0], "")
    is_plain = bits[0] <= 16 and not (bits[0] == 16 and form[0] == 3)
    if channels <= 4 and (is_plain or (bits[0] == 32 and channels == 1)):
        return ""  # Pillow refuses it for another reason
    return f"a TIFF of {channels} {'channel' if channels == 1 else 'channels'} with {bits[0]} bits {numbers}".rstrip()


def _unusual_bmp(data: bytes) -> str:
    size, bits, compression = struct.unpack_from("<I10xHI", data, 14)
    return f"a BMP of {bits} bits per pixel with compression {compression}" if size >= 40 and compression > 3 else ""
