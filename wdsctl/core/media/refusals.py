"""Why Pillow does not open an image: the true cause, from a few fields of its header."""

from __future__ import annotations

import io
import struct

from PIL import TiffImagePlugin as Tiff

from wdsctl.core.media.jpeg import JPEG_LS_FRAME, frame_segment
from wdsctl.core.media.kinds import decoder_package, has_reader
from wdsctl.core.media.png import find_wrong_chunk
from wdsctl.core.media.sniff import sniff

SNIFFED_BYTES = 64
_SVG_BYTES = 4096  # an XML declaration, comments and a DOCTYPE may precede the element
NO_IMAGE = "not an image of a supported format"
_DAMAGED = "its header is damaged or cut off"

#: Start-of-frame markers of JPEG -> the kind of JPEG, for those that decoders usually lack.
_RARE_JPEG = {0xC3: "lossless", 0xC5: "hierarchical", 0xC6: "hierarchical", 0xC7: "hierarchical"}
_RARE_JPEG |= {0xC9: "arithmetic-coded", 0xCA: "arithmetic-coded", 0xCB: "lossless"}
_RARE_JPEG |= {0xCD: "hierarchical", 0xCE: "hierarchical", 0xCF: "hierarchical"}

#: Values of the tag SampleFormat.
_SAMPLE_FORMATS = {1: "unsigned", 2: "signed", 3: "floating-point", 4: "of an undefined type", 5: "complex integer"}
_SAMPLE_FORMATS |= {6: "complex"}
#: Values of the tag PhotometricInterpretation, except for gray and RGB.
_COLORS = {0: "whose 0 is white", 3: "as palette indices", 4: "of a mask", 5: "in CMYK", 6: "in YCbCr", 8: "in CIELAB"}
_COLORS |= {9: "in ICCLAB", 10: "in ITULAB", 32803: "of a color filter", 32844: "in LogL", 32845: "in LogLuv"}
_NO_COLORS = -1
_COLORS |= {34892: "of linear raw", _NO_COLORS: "without a color model"}
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
    if content.format == "utf-8" and b"<svg" in (start := data[:_SVG_BYTES].lower()) and b"<html" not in start:
        return "it is an SVG drawing, which has no pixels until it is rendered"
    if content.kind != "image":
        kind = {"utf-8": "text", "object": "JSON", "array": "JSON"}.get(content.format, content.format or "")
        return f"{NO_IMAGE}: its content is {kind}" if kind else NO_IMAGE
    if not has_reader(content.format):
        return f"it is {content.format.upper()}, which needs the package {decoder_package(content.format)}"
    if content.format == "png" and (kind := find_wrong_chunk(data)):
        return f"the checksum of its chunk {kind} is wrong"
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
    tags = Tiff.ImageFileDirectory_v2(header)
    file = io.BytesIO(data)
    file.seek(tags.next)
    tags.load(file)
    compression = tags.get(Tiff.COMPRESSION, 1)
    if Tiff.IMAGEWIDTH not in tags:
        return ""
    if compression in _COMPRESSIONS:
        return f"a TIFF with {_COMPRESSIONS[compression]} compression"
    channels, bits = tags.get(Tiff.SAMPLESPERPIXEL, 1), tags.get(Tiff.BITSPERSAMPLE, (1,))
    forms, extras = tags.get(Tiff.SAMPLEFORMAT, (1,)), tags.get(Tiff.EXTRASAMPLES, ())
    colors = tags.get(Tiff.PHOTOMETRIC_INTERPRETATION, 0)
    in_planes = channels > 1 and tags.get(Tiff.PLANAR_CONFIGURATION, 1) == 2
    if channels <= Tiff.MAX_SAMPLESPERPIXEL:
        all_bits = bits * channels if len(bits) == 1 else bits[:channels]
        key = (colors, forms[:1] if len(set(forms)) == 1 else forms, tags.get(Tiff.FILLORDER, 1), all_bits, extras)
        if len(all_bits) != channels or ((tags.prefix, *key) in Tiff.OPEN_INFO and not (in_planes and extras)):
            return ""  # damaged, or Pillow refuses it for another reason
        is_reversed = tags.prefix == Tiff.MM and (Tiff.II, *key) in Tiff.OPEN_INFO
    else:
        is_reversed = False
    depth = " and ".join(map(str, dict.fromkeys(bits))) + (" bit" if bits == (1,) else " bits")
    words = [f"{channels} {'channel' if channels == 1 else 'channels'} with {depth}", _SAMPLE_FORMATS.get(forms[0], "")]
    words.append(_COLORS.get(tags.get(Tiff.PHOTOMETRIC_INTERPRETATION, _NO_COLORS), ""))
    words += ["in separate planes"] if in_planes else []
    words += ["in big-endian order"] if is_reversed else []
    return "a TIFF of " + " ".join(word for word in words if word)


def _unusual_bmp(data: bytes) -> str:
    size, bits, compression = struct.unpack_from("<I10xHI", data, 14)
    return f"a BMP of {bits} bits per pixel with compression {compression}" if size >= 40 and compression > 3 else ""
