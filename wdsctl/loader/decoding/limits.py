"""How many pixels an image may have: a small file can promise more than there is memory."""

from __future__ import annotations

#: Twice `PIL.Image.MAX_IMAGE_PIXELS`: where Pillow itself refuses an image.
MAX_PIXELS = 178_956_970


def refuse_bomb(width: int, height: int, max_pixels: int) -> None:
    """Raises ValueError. To be called with the sizes in a header, before any pixel is decoded."""
    if width * height > max_pixels:
        raise ValueError(f"the image has {width} x {height} pixels, and at most {max_pixels:,} are allowed")
