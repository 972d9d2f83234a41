"""PNG files with texts and color profiles that are larger than Pillow reads."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from wdsctl.core.convert.parts import ImageTranscodeOptions
from wdsctl.core.convert.transcode import changed_picture_sizes, transcode_mask, transcode_part
from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.decode_check import check_image_decodes
from wdsctl.core.media.facts import ImageFacts
from wdsctl.core.media.image import image_facts
from wdsctl.core.media.png import has_all_rows, without_side_chunks
from wdsctl.core.media.thumbnail import make_thumbnail
from wdsctl.core.samples.picture_change import PictureChange
from wdsctl.loader import SampleDecoder

BIG = b"a" * (3 << 20)


def a_png(**options: object) -> bytes:
    file = io.BytesIO()
    pixels = np.arange(12 * 8 * 3, dtype=np.uint8).reshape(8, 12, 3)
    Image.fromarray(pixels).save(file, "PNG", **options)
    return file.getvalue()


def a_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = a_png()
CHUNKS = {
    "zTXt": a_chunk(b"zTXt", b"Raw\0\0" + zlib.compress(BIG)),
    "iTXt": a_chunk(b"iTXt", b"parameters\0\1\0\0\0" + zlib.compress(BIG)),
    "xmp": a_chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(BIG)),
    "iCCP": a_chunk(b"iCCP", b"profile\0\0" + zlib.compress(BIG)),
    "many": a_chunk(b"iTXt", b"k\0\0\0\0\0" + b"a" * (1 << 19)) * 140,
    "tEXt": a_chunk(b"tEXt", b"k\0" + BIG) + a_chunk(b"zTXt", b"Raw\0\0" + zlib.compress(BIG)),
}
BEFORE, AFTER = 33, len(PNG) - 12  # behind IHDR, and before IEND


@pytest.mark.parametrize("at", [BEFORE, AFTER])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_png_with_large_side_chunks_is_a_sound_image(chunk: str, at: int) -> None:
    data = PNG[:at] + CHUNKS[chunk] + PNG[at:]

    assert np.array_equal(SampleDecoder("rgb8")("png", data), SampleDecoder("rgb8")("png", PNG))
    assert SampleDecoder("pil")("png", data).size == (12, 8)
    facts = image_facts(ByteRangeFile.from_bytes(data), "png")
    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height, facts.mode) == (12, 8, "RGB")
    assert check_image_decodes(data).outcome == "sound"
    smaller = transcode_part("png", data, ImageTranscodeOptions(max_side=6), None)[1]
    assert Image.open(io.BytesIO(smaller)).size == (6, 4)


def test_orientation_next_to_large_text_is_kept() -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    data = a_png(exif=exif)
    data = data[:33] + CHUNKS["zTXt"] + data[33:]

    facts = image_facts(ByteRangeFile.from_bytes(data), "png")

    assert isinstance(facts, ImageFacts)
    assert facts.orientation == 6
    assert SampleDecoder("rgb8", exif_orientation=True)("png", data).shape == (12, 8, 3)


def test_png_with_large_text_counts_as_resized_if_convert_resizes_it() -> None:
    data = PNG[:33] + CHUNKS["zTXt"] + PNG[33:]

    assert changed_picture_sizes(data, ImageTranscodeOptions(max_side=6))
    assert not changed_picture_sizes(data, ImageTranscodeOptions(max_side=60))


def test_damaged_png_stays_damaged() -> None:
    cut = PNG[:33] + CHUNKS["zTXt"] + PNG[33:60]

    with pytest.raises(Exception, match="png"):
        SampleDecoder("rgb8")("png", cut)
    assert check_image_decodes(cut).outcome == "broken"
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(without_side_chunks(io.BytesIO(b"\x89PNG"))))


def test_thumbnail_of_png_with_large_text() -> None:
    data = PNG[:33] + CHUNKS["zTXt"] + PNG[33:]

    image = make_thumbnail(ByteRangeFile.from_bytes(data), "image", "png", 6, 6)

    assert not hasattr(image, "reason")


def a_short_png(mode: str, *, missing: int, interlaced: bool = False) -> bytes:
    """12 x 9 pixels of the value that memory is filled with, without the last `missing` rows of the file."""
    depth, color, channels = {"1": (1, 0, 1), "L": (8, 0, 1), "P": (8, 3, 1), "LA": (8, 4, 2), "RGB": (8, 2, 3)}.get(
        mode, (16, 0, 2) if mode == "I;16" else (8, 6, 4)
    )
    row = b"\0" + (b"\xff\xf0" if mode == "1" else bytes([165]) * 12 * channels)
    head = struct.pack(">IIBBBBB", 12, 9, depth, color, 0, 0, interlaced)
    rows = [bytes(1 + n) for n in (2, 2, 1, 1, 3, *[3] * 3, *[6] * 7, *[12] * 4)] if interlaced else [row] * 9
    pixels = zlib.compress(b"".join(rows[: len(rows) - missing]))
    palette = a_chunk(b"PLTE", bytes(768)) if mode == "P" else b""
    return PNG[:8] + a_chunk(b"IHDR", head) + palette + a_chunk(b"IDAT", pixels) + a_chunk(b"IEND", b"")


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("missing", [1, 8])
def test_png_without_its_last_rows_is_not_decoded(mode: str, missing: int) -> None:
    whole, short = a_short_png(mode, missing=0), a_short_png(mode, missing=missing)
    for spec in ("rgb8", "pil"):
        assert np.asarray(SampleDecoder(spec)("png", whole)).shape[:2] == (9, 12)
        with pytest.raises(SampleFailed, match="truncated"):
            SampleDecoder(spec)("png", short)
    assert check_image_decodes(whole).outcome == "sound"
    assert check_image_decodes(short).outcome == "broken"
    with pytest.raises(SampleFailed, match="truncated"):
        transcode_part("png", short, ImageTranscodeOptions("png"), None)
    with pytest.raises(OSError, match="truncated"):
        transcode_mask(short, PictureChange((12, 9), 1, (12, 9)))


def test_interlaced_png_without_its_last_rows_is_not_decoded() -> None:
    assert has_all_rows(a_short_png("L", missing=0, interlaced=True))
    assert SampleDecoder("l8")("png", a_short_png("L", missing=0, interlaced=True)).shape == (9, 12)
    with pytest.raises(SampleFailed, match="truncated"):
        SampleDecoder("l8")("png", a_short_png("L", missing=1, interlaced=True))
