from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from wdsctl.core.convert.parts import ImageTranscodeOptions
from wdsctl.core.convert.transcode import transcode_image
from wdsctl.core.media import byte_range
from wdsctl.core.media.byte_range import PAGE_BYTES, ByteRangeFile, check_tags
from wdsctl.core.media.catalog_facts import facts_from_columns, facts_to_columns
from wdsctl.core.media.decode_check import DecodeVerdict, check_image_decodes
from wdsctl.core.media.facts import ImageFacts, Unreadable
from wdsctl.core.media.image import PILLOW_READERS, read_webp_header
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import sniff


def facts_of(data: bytes) -> ImageFacts | Unreadable:
    facts = probe_media(ByteRangeFile.from_bytes(data), sniff(data))
    assert isinstance(facts, ImageFacts | Unreadable)
    return facts


def an_image(form: str, mode: str = "RGB", *, orientation: int = 0, **options: object) -> bytes:
    file = io.BytesIO()
    if orientation:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options["exif"] = exif
    Image.new(mode, (30, 20)).save(file, form, **options)
    return file.getvalue()


def a_png(*chunks: tuple[bytes, bytes]) -> bytes:
    pieces = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(pieces)


def a_png_header(width: int, height: int, *, bits: int = 8, color: int = 2) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)


@pytest.mark.parametrize("form", sorted({name for _, name in PILLOW_READERS.values()} | {"WEBP"}))
def test_image_facts_match_pillow(form: str) -> None:
    data = an_image(form, "P" if form == "GIF" else "RGB")
    with Image.open(io.BytesIO(data)) as image:
        expected = (image.format, image.mode, image.width, image.height)

    facts = facts_of(data)
    assert isinstance(facts, ImageFacts)
    assert (facts.format, facts.mode, facts.width, facts.height) == expected
    assert (facts.display_width, facts.display_height, facts.orientation) == (facts.width, facts.height, 1)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize(("orientation", "display_size"), [(1, (30, 20)), (3, (30, 20)), (6, (20, 30)), (8, (20, 30))])
def test_exif_orientation_swaps_display_size(form: str, orientation: int, display_size: tuple[int, int]) -> None:
    facts = facts_of(an_image(form, orientation=orientation))

    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height, facts.orientation) == (30, 20, orientation)
    assert (facts.display_width, facts.display_height) == display_size


@pytest.mark.parametrize("orientation", [0, 9, 60_000])
def test_invalid_exif_orientation_counts_as_upright(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    facts = facts_of(an_image("JPEG", exif=exif.tobytes()))

    assert isinstance(facts, ImageFacts)
    assert facts.orientation == 1


def test_damaged_exif_only_loses_orientation() -> None:
    facts = facts_of(an_image("JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f"))

    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.orientation) == (30, 1)


@pytest.mark.parametrize(("color", "mode"), [(0, "I;16"), (2, "RGB"), (6, "RGBA")])
def test_16_bit_png_facts_are_read(color: int, mode: str) -> None:
    facts = facts_of(a_png(a_png_header(7, 5, bits=16, color=color), (b"IDAT", b"")))

    assert isinstance(facts, ImageFacts)
    assert (facts.mode, facts.width, facts.height) == (mode, 7, 5)


@pytest.mark.parametrize("size", [(12_000, 10_000), (60_000, 60_000)])
def test_decompression_bomb_facts_are_read_without_decoding(size: tuple[int, int]) -> None:
    """More pixels than Pillow warns about, or refuses. There is no EXIF data, for which Pillow would decode pixels."""
    assert size[0] * size[1] > (Image.MAX_IMAGE_PIXELS or 0)
    facts = facts_of(a_png(a_png_header(*size), (b"IDAT", b"not pixels")))

    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height) == size


@pytest.mark.parametrize(
    ("form", "at", "block"),
    [
        ("GIF", 19, b"!\xfe\0"),
        ("JPEG", 2, b"\xff\xed\0\2"),
        ("PNG", 33, bytes(4) + b"prVt" + struct.pack(">I", zlib.crc32(b"prVt"))),
    ],
)
def test_image_of_many_blocks_is_unreadable(form: str, at: int, block: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow would take a second for 1 MB of such blocks, and hundreds of bytes of memory for each."""
    monkeypatch.setattr(byte_range, "_FREE_READS", 2000)
    data = an_image(form)
    hostile = data[:at] + block * 3000 + data[at:]
    assert isinstance(facts_of(data[:at] + block * 100 + data[at:]), ImageFacts)
    reason = "it has too many blocks for its size"
    paged = probe_media(ByteRangeFile(lambda at, size: hostile[at : at + size], len(hostile)), sniff(hostile))
    assert facts_of(hostile) == paged == Unreadable(reason=reason)
    assert check_image_decodes(hostile) == DecodeVerdict("broken", f"it cannot be decoded: {reason}")
    with pytest.raises(ValueError, match=reason):
        transcode_image("png", hostile, ImageTranscodeOptions("webp"))


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt", b"iTXt"])
def test_png_of_many_chunks_to_unpack_is_unreadable(kind: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of 1 KB unpacks to 1 MB, so that 5 MB of color profiles took Pillow ten seconds."""
    monkeypatch.setattr(byte_range, "_FREE_READS", 2000)
    header, body = a_png_header(1, 1), b"Raw profile type exif\0" + bytes(4) + zlib.compress(b"text")
    end = (b"IDAT", zlib.compress(bytes(4)))
    assert isinstance(facts_of(a_png(header, *[(kind, body)] * 5, end)), ImageFacts)
    hostile = a_png(header, *[(kind, body)] * 60, end)
    assert facts_of(hostile) == Unreadable(reason="it has too many blocks for its size")
    paged = ByteRangeFile(lambda at, size: hostile[at : at + size], len(hostile))
    assert isinstance(probe_media(paged, sniff(hostile)), Unreadable)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("is_big", [False, True])
def test_overlapping_tags_are_refused(order: str, is_big: bool) -> None:
    """Old releases of Pillow copied the same bytes for each tag: 6 GB of a file of 1 MB."""
    entry, size = struct.Struct(order + ("HHQQ" if is_big else "HHII")), 300_000

    def a_tiff(tags: int) -> bytes:
        form = "HHHQQ" if is_big else "HIH"
        numbers = (43, 8, 0, 16, tags) if is_big else (42, 8, tags)
        head = (b"II" if order == "<" else b"MM") + struct.pack(order + form, *numbers)
        return (head + b"".join(entry.pack(40_000 + tag, 7, size - 32, 8) for tag in range(tags))).ljust(size, b"\0")

    check_tags(io.BytesIO(a_tiff(40)))
    hostile = a_tiff(100)
    assert facts_of(hostile) == Unreadable(reason="its tags overlap")
    assert check_image_decodes(hostile) == DecodeVerdict("broken", "it cannot be decoded: its tags overlap")
    header = a_png_header(1, 1)
    assert facts_of(a_png(header, (b"eXIf", hostile), (b"IDAT", b""))) == Unreadable(reason="its tags overlap")


def test_reads_by_size_suffice_for_gif_of_long_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_range, "_FREE_READS", 200)
    pixels = Image.effect_noise((600, 600), 100)
    file = io.BytesIO()
    pixels.save(file, "GIF", save_all=True, append_images=[pixels.rotate(90)])
    assert file.tell() > 600_000
    facts = facts_of(file.getvalue())
    assert isinstance(facts, ImageFacts)
    assert facts.has_more_frames


def test_webp_of_many_chunks_takes_few_reads() -> None:
    chunks = (b"ABCD" + bytes(4)) * 100_000
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes([8, 0, 0, 0]) + b"\7\0\0" * 2 + chunks
    data = b"RIFF" + struct.pack("<I", len(body)) + body
    source = ByteRangeFile(lambda at, size: data[at : at + size], len(data))
    header = read_webp_header(source)
    assert (header.width, header.height, header.exif) == (8, 8, b"")
    assert source.tell() < 3000 * 8


def test_webp_bomb_facts_take_one_read_and_little_memory() -> None:
    """The header states 1 GiB of pixels, and the file has 64 MiB."""
    side, body_bytes = (16_383 - 1).to_bytes(3, "little"), 64 << 20
    vp8x = b"VP8X" + struct.pack("<I", 10) + bytes(4) + side + side
    vp8 = b"VP8 " + struct.pack("<I", body_bytes)
    header = b"RIFF" + struct.pack("<I", 4 + len(vp8x + vp8) + body_bytes) + b"WEBP" + vp8x + vp8
    reads: list[int] = []

    def read(offset: int, size: int) -> bytes:
        reads.append(size)
        return header[offset : offset + size].ljust(size, b"\0")

    content = sniff(header, len(header) + body_bytes)
    tracemalloc.start()
    try:
        facts = probe_media(ByteRangeFile(read, len(header) + body_bytes), content)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height) == (16_383, 16_383)
    assert reads == [PAGE_BYTES]
    assert peak_bytes < 4 * PAGE_BYTES


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_image_truncated_after_header_has_facts(form: str) -> None:
    data = an_image(form)
    facts = facts_of(data[: data.index(b"IDAT") + 8] if form == "PNG" else data[:-20])

    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height) == (30, 20)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "JPEG2000", "AVIF"])
def test_image_truncated_in_header_is_unreadable(form: str) -> None:
    size = {"GIF": 8, "TIFF": 8}.get(form, 20)

    assert isinstance(facts_of(an_image(form)[:size]), Unreadable)


def test_unsupported_image_format_is_unreadable() -> None:
    facts = facts_of(b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(40))

    assert facts == Unreadable(reason="wdsctl cannot read jxl")


def test_tiff_directory_after_pixels_is_read() -> None:
    data = an_image("TIFF", "L")
    far = b"II*\0" + struct.pack("<I", 3 << 20)
    # The directory moves to 3 MiB; the facts do not depend on its offsets of pixels.
    start = struct.unpack_from("<I", data, 4)[0]
    moved_data = far + bytes((3 << 20) - 8) + data[start:]
    reads: list[int] = []

    def read(offset: int, size: int) -> bytes:
        reads.append(size)
        return moved_data[offset : offset + size]

    facts = probe_media(ByteRangeFile(read, len(moved_data)), sniff(moved_data[:4096], len(moved_data)))
    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height) == (30, 20)
    assert sum(reads) < len(moved_data) / 4


WRITERS: list[Callable[[], bytes]] = [
    *(lambda form=form: an_image(form) for form in ("PNG", "GIF", "BMP", "TIFF", "WEBP", "JPEG2000")),
    lambda: an_image("JPEG", orientation=6),
]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_probe_media_never_raises_for_damaged_image_header(data: st.DataObject) -> None:
    image = bytearray(data.draw(st.sampled_from(WRITERS))())
    content = sniff(bytes(image))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(4, min(len(image) - 1, 300)), st.integers(0, 255)))):
        image[at] = byte
    cut = data.draw(st.integers(4, len(image)))

    assert isinstance(probe_media(ByteRangeFile.from_bytes(bytes(image[:cut])), content), ImageFacts | Unreadable)


def test_sniff_detects_every_pillow_reader_format() -> None:
    format_names = {sniff(an_image(name)).format for _, name in PILLOW_READERS.values()}

    assert format_names == set(PILLOW_READERS)


def a_series(form: str, frames: int) -> bytes:
    file = io.BytesIO()
    images = [Image.new("RGB", (30, 20), (60 * i, 0, 0)) for i in range(frames)]
    images[0].save(file, form, save_all=True, append_images=images[1:])
    return file.getvalue()


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("form", ["TIFF", "GIF", "PNG", "WEBP", "AVIF"])
def test_image_facts_have_more_frames_for_series(form: str, frames: int) -> None:
    if form == "AVIF" and (Image.init(), form)[1] not in Image.SAVE:
        pytest.skip("this Pillow does not write AVIF")

    facts = facts_of(a_series(form, frames))

    assert isinstance(facts, ImageFacts)
    assert facts.has_more_frames == (frames > 1)
    form_of_facts, measures = facts_to_columns(facts)
    assert facts_from_columns(form_of_facts, measures) == facts


def test_cut_off_animation_keeps_its_facts() -> None:
    facts = facts_of(a_series("GIF", 3)[:60])

    assert isinstance(facts, ImageFacts)
    assert not facts.has_more_frames
