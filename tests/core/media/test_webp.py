from __future__ import annotations

import io

import pytest
from PIL import Image

from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.image import read_webp_header


def a_webp(mode: str, size: tuple[int, int], *, frames: int = 1, **options: object) -> bytes:
    file = io.BytesIO()
    first, *rest = [Image.new(mode, size, tuple([40 * n + 9] * len(mode))) for n in range(frames)]
    first.save(file, "WEBP", save_all=bool(rest), append_images=rest, **options)
    return file.getvalue()


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("size", [(1, 1), (30, 20), (301, 7)])
def test_read_webp_header_agrees_with_pillow(mode: str, size: tuple[int, int], *, frames: int, lossless: bool) -> None:
    data = a_webp(mode, size, frames=frames, lossless=lossless)
    with Image.open(io.BytesIO(data)) as image:
        header = read_webp_header(ByteRangeFile.from_bytes(data))

        assert (header.width, header.height, header.has_alpha) == (*image.size, image.mode == "RGBA")


def test_read_webp_header_finds_exif_after_pixels() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6

    header = read_webp_header(ByteRangeFile.from_bytes(a_webp("RGB", (30, 20), exif=exif)))
    assert header.exif == exif.tobytes().removeprefix(b"Exif\0\0")


@pytest.mark.parametrize("size", [12, 16, 20, 28])
def test_read_webp_header_raises_for_truncated_header(size: int) -> None:
    with pytest.raises(ValueError, match="ends in its header"):
        read_webp_header(ByteRangeFile.from_bytes(a_webp("RGB", (30, 20))[:size]))


def test_read_webp_header_raises_without_image() -> None:
    with pytest.raises(ValueError, match="not start with an image"):
        read_webp_header(ByteRangeFile.from_bytes(b"RIFF\x20\0\0\0WEBPICCP\x0a\0\0\0" + bytes(10)))
