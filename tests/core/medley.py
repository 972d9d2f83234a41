"""Media of many kinds, sound and broken, for tests of what the catalog keeps of them."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

from PIL import Image

from tests.build import a_folder
from tests.core.films import a_film, a_wav


def an_image(form: str = "JPEG", size: tuple[int, int] = (48, 32), *, orientation: int = 0) -> bytes:
    file = io.BytesIO()
    options = {}
    if orientation:
        options["exif"] = Image.Exif()
        options["exif"][0x0112] = orientation
    Image.new("RGB", size).save(file, form, **options)
    return file.getvalue()


@cache
def clip() -> bytes:
    """A third of a second of 64 x 48, with sound."""
    return a_film("mp4", video="libx264", audio="aac")


@cache
def turned_clip() -> bytes:
    """The same, without sound, to be turned by 90 degrees."""
    return a_film("mp4", video="libx264", rotation=90)


def members() -> dict[str, bytes]:
    """Two shards' worth of members: images, a video, a sound, texts, and media that are none."""
    return {
        "1.jpg": an_image(size=(60, 40), orientation=6),
        "1.txt": b"a caption",
        "2.jpg": b"not an image at all",
        "2.seg.png": an_image("PNG"),
        "3.mp4": clip(),
        "3.json": b"{}",
        "4.wav": a_wav(),
        "5.bin": an_image("WEBP", (20, 10)),
        "6.jpg": b"",
    }


def a_medley() -> dict[str, dict[str, bytes]]:
    """Those members as two shards."""
    items = list(members().items())
    return {"a.tar": dict(items[:6]), "b.tar": dict(items[6:])}


def a_gallery(root: Path, count: int, *, first: int = 0) -> str:
    """Images in two folders, each of another width."""
    return a_folder(root, {f"{n % 2}/{n:04}.png": an_image("PNG", (n + 1, 5)) for n in range(first, first + count)})
