"""Raw images with captions."""

from __future__ import annotations

import io


def a_jpeg(shade: int = 0) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(file, "JPEG")
    return file.getvalue()


def captions(first: int, count: int) -> dict[str, bytes]:
    return {
        name: data
        for i in range(first, first + count)
        for name, data in {f"{i:03d}.jpg": a_jpeg(i), f"{i:03d}.txt": f"a picture of number {i}".encode()}.items()
    }
