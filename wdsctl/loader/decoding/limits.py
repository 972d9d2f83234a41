"""How much a part may hold: a small file can promise more than there is memory."""

from __future__ import annotations

import io
import zipfile

#: Twice `PIL.Image.MAX_IMAGE_PIXELS`: where Pillow itself refuses an image.
MAX_PIXELS = 178_956_970

#: Of a part that is decoded, and of what a packed one (npz, pt) says that it unpacks to.
MAX_BYTES = 1 << 30


def refuse_bomb(width: int, height: int, max_pixels: int) -> None:
    """Raises ValueError. To be called with the sizes in a header, before any pixel is decoded."""
    if width * height > max_pixels:
        raise ValueError(f"the image has {width} x {height} pixels, and at most {max_pixels:,} are allowed")


def refuse_size(data: bytes, max_bytes: int) -> None:
    """Raises ValueError where there are more bytes than may be decoded."""
    if len(data) > max_bytes:
        raise ValueError(f"it has {len(data):,} bytes, and at most {max_bytes:,} are decoded")


def refuse_packed_bomb(data: bytes, max_bytes: int) -> None:
    """The same by what a zip archive unpacks to, as its table of contents has it. Cost: some 20 us a member.

    Readers of zip files stop a member at its size in the table, so one that lies gets no more than it says.
    """
    if not data.startswith(b"PK"):
        return
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > max_bytes:
        raise ValueError(f"it unpacks to {size:,} bytes, and at most {max_bytes:,} are allowed")
