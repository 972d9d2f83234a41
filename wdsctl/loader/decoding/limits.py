"""Size limits, checked before memory is taken: the header of a small file can state any size."""

from __future__ import annotations

import io
import zipfile


def check_pixel_count(width: int, height: int, max_pixels: int) -> None:
    """Raise ValueError for too many pixels. Call it with the size in the header, before pixels are decoded."""
    if width * height > max_pixels:
        raise ValueError(f"the image has {width} x {height} pixels, the limit is {max_pixels:,}")


def check_decoded_size(width: int, height: int, pixel_bytes: int, max_bytes: int) -> None:
    """Raise ValueError for an image whose decoding takes more than `max_bytes`, at `pixel_bytes` for each pixel.

    Call it with the size that is decoded, before pixels are.
    """
    size = width * height * pixel_bytes
    if size > max_bytes:
        raise ValueError(
            f"decoding {width} x {height} pixels takes {size:,} bytes of memory, the limit is {max_bytes:,}; "
            "pass a larger max_bytes, or min_side for smaller images"
        )


def check_part_size(data: bytes, max_bytes: int) -> None:
    """Raise ValueError for a part of more than `max_bytes`."""
    if len(data) > max_bytes:
        raise ValueError(f"the part has {len(data):,} bytes, the limit is {max_bytes:,}")


def check_unpacked_size(data: bytes, max_bytes: int) -> None:
    """Raise ValueError if a zip archive unpacks to more than `max_bytes` by its table of contents.

    Readers of zip files stop at the size in the table, so that a false size gains nothing. Cost: 20 us per member.
    """
    if not data.startswith(b"PK"):
        return
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > max_bytes:
        raise ValueError(f"the archive unpacks to {size:,} bytes, the limit is {max_bytes:,}")
