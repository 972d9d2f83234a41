"""The segments of a JPEG before its pixels, found as libjpeg finds them. Source: ITU-T T.81, B.1.

A decoder that reads other markers than libjpeg could give it too little memory, so garbage, fill bytes and wrong
lengths count as they do there.
"""

from __future__ import annotations

from collections.abc import Iterator

from wdsctl.core.media.sniff import JPEG_SIGNATURE

#: Start-of-frame markers of images that are coded by the cosine transform: baseline, extended and progressive, each by
#: Huffman or arithmetic coding. libjpeg decodes these at a fraction of their size, and no other.
_SCALABLE_FRAMES = (0xC0, 0xC1, 0xC2, 0xC9, 0xCA)
#: Markers among those of frames that begin something else: DHT, JPG, DAC.
_NO_FRAMES = (0xC4, 0xC8, 0xCC)
JPEG_LS_FRAME = 0xF7

_MAX_MARKERS = 100_000  # of a file: bounds the time for a file of nothing else


def jpeg_segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(marker, content) of the segments before the pixels. `data`: the file, or its beginning."""
    at = 2
    for _ in range(_MAX_MARKERS):
        at = data.find(b"\xff", at) + 1
        if not 0 < at < len(data):
            return
        marker = data[at]
        if marker in (0x00, 0xFF):
            continue
        at += 1
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:
            continue  # these have no content
        if marker in (0xD9, 0xDA):
            return
        size = int.from_bytes(data[at : at + 2], "big")
        yield marker, data[at + 2 : at + size]
        at += max(size, 2)


def frame_segment(data: bytes) -> tuple[int, bytes]:
    """(marker, content) of the segment that describes the frame; marker 0 if there is none."""
    for marker, content in jpeg_segments(data):
        if marker == JPEG_LS_FRAME or (0xC0 <= marker <= 0xCF and marker not in _NO_FRAMES):
            return marker, content
    return 0, b""


def is_scalable_jpeg(data: bytes) -> bool:
    """Whether libjpeg can decode the image at a fraction of its size: not if it is lossless, or no JPEG. Cost: 3 us.

    Of a lossless JPEG, libjpeg-turbo writes all pixels, whatever size the caller wants and has memory for.
    """
    return data[:3] == JPEG_SIGNATURE and frame_segment(data)[0] in _SCALABLE_FRAMES
