"""Pictures for the tests: made of a seed, never stored."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def pixels(height: int = 20, width: int = 30, channels: int = 3, *, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth with some noise, as photographs are."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 8 + 2, width // 8 + 2, channels), dtype=np.uint8)
    planes = [
        np.asarray(Image.fromarray(coarse[..., i]).resize((width, height), Image.Resampling.BICUBIC))
        for i in range(channels)
    ]
    noisy = np.stack(planes, axis=-1).astype(np.int32) + rng.integers(-9, 10, (height, width, channels))
    picture: NDArray[np.uint8] = np.clip(noisy, 0, 255).astype(np.uint8)
    return picture


def encoded(picture: Image.Image | NDArray[Any], form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    image.save(stream, form, **options)
    return stream.getvalue()


def a_jpeg(height: int = 20, width: int = 30, *, seed: int = 0, **options: Any) -> bytes:
    return encoded(pixels(height, width, seed=seed), "JPEG", **{"quality": 85, **options})


def a_png(height: int = 20, width: int = 30) -> bytes:
    return encoded(pixels(height, width), "PNG")


def as_pillow_reads(data: bytes, mode: str) -> NDArray[Any]:
    return np.asarray(Image.open(io.BytesIO(data)).convert(mode))
