"""Media of many kinds, intact and broken, for tests of the media facts in the catalog."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

from PIL import Image

from tests.build import a_folder
from tests.core.media_files import a_media_file, a_wav


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
    """A video of 64 x 48 pixels and a third of a second, with audio."""
    return a_media_file("mp4", video="libx264", audio="aac")


@cache
def rotated_clip() -> bytes:
    """The same video without audio, with a rotation of 90 degrees."""
    return a_media_file("mp4", video="libx264", rotation=90)


def members() -> dict[str, bytes]:
    """The members of two shards: images, a video, audio, texts, and invalid media."""
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


def media_shards() -> dict[str, dict[str, bytes]]:
    """The members as two shards."""
    items = list(members().items())
    return {"a.tar": dict(items[:6]), "b.tar": dict(items[6:])}


def a_gallery(root: Path, count: int, *, first: int = 0) -> str:
    """Images in two folders, each of another width."""
    return a_folder(root, {f"{n % 2}/{n:04}.png": an_image("PNG", (n + 1, 5)) for n in range(first, first + count)})
