"""Images for the tests, generated from a seed."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image


def pixels(height: int = 20, width: int = 30, channels: int = 3, *, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth pixels with some noise, like a photograph."""
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


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def a_deep_png(deep: NDArray[np.uint16], *, transparent: tuple[int, ...] = ()) -> bytes:
    """A PNG with 16 bits per channel, (height, width, 1 to 4), which Pillow cannot write in color."""
    height, width, channels = deep.shape
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in deep)
    transparency_chunk = png_chunk(b"tRNS", struct.pack(f">{len(transparent)}H", *transparent)) if transparent else b""
    chunks = [
        png_chunk(b"IHDR", header),
        transparency_chunk,
        png_chunk(b"IDAT", zlib.compress(rows)),
        png_chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def a_png_that_promises(width: int, height: int) -> bytes:
    """A PNG file with a complete header, but few pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(bytes(64)))


#: EXIF orientation -> transposition that a camera applies to an upright image: the inverse of the tag's.
_HELD = {
    1: (),
    2: (Image.Transpose.FLIP_LEFT_RIGHT,),
    3: (Image.Transpose.ROTATE_180,),
    4: (Image.Transpose.FLIP_TOP_BOTTOM,),
    5: (Image.Transpose.TRANSPOSE,),
    6: (Image.Transpose.ROTATE_90,),
    7: (Image.Transpose.TRANSVERSE,),
    8: (Image.Transpose.ROTATE_270,),
}


def lying(orientation: int, form: str = "JPEG", *, marked: bool = True, size: tuple[int, int] = (20, 30)) -> bytes:
    """An image as a rotated camera stores it, with the EXIF tag if `marked`."""
    image = Image.fromarray(pixels(*size))
    for turn in _HELD[orientation]:
        image = image.transpose(turn)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    quality = {"quality": 95, "subsampling": 0} if form == "JPEG" else {}
    return encoded(image, form, **quality, **({"exif": exif} if marked else {}))


def a_lossless_jpeg(picture: NDArray[np.uint8], *, bits: int = 8, adobe: bool = False) -> bytes:
    """A lossless JPEG (SOF3) of (height, width, channels), which neither Pillow nor simplejpeg writes.

    Each value is the difference to its left neighbour: the category of its size in five bits, then its own bits.
    """
    height, width, channels = picture.shape
    values = picture.astype(np.int32)
    left = np.concatenate([np.full_like(values[:, :1], 1 << (bits - 1)), values[:, :-1]], axis=1)
    left[1:, 0] = values[:-1, 0]
    codes = []
    for difference in (values - left).ravel().tolist():
        size = abs(difference).bit_length()
        own = difference if difference >= 0 else difference + (1 << size) - 1
        codes.append(f"{size:05b}" + (f"{own:0{size}b}" if size else ""))
    code = "".join(codes)
    code += "1" * (-len(code) % 8)
    scan = int(code, 2).to_bytes(len(code) // 8, "big").replace(b"\xff", b"\xff\0")

    def segment(marker: int, content: bytes) -> bytes:
        return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content

    components = b"".join(bytes([number, 0x11, 0]) for number in range(1, channels + 1))
    selectors = b"".join(bytes([number, 0]) for number in range(1, channels + 1))
    return (
        b"\xff\xd8"
        + (segment(0xEE, b"Adobe\0\x64\0\0\0\0\0") if adobe else b"")
        + segment(0xC3, struct.pack(">BHHB", bits, height, width, channels) + components)
        + segment(0xC4, bytes([0, 0, 0, 0, 0, 17, *[0] * 11, *range(17)]))
        + segment(0xDA, bytes([channels]) + selectors + b"\1\0\0")
        + scan
        + b"\xff\xd9"
    )


def a_tiff(
    values: NDArray[Any],
    photometric: int,
    *,
    order: str = "<",
    planar: bool = False,
    tile: int = 0,
    deflate: bool = False,
    packed: bytes = b"",
    tags: dict[int, tuple[int, ...]] | None = None,
) -> bytes:
    """A TIFF of (height, width) or (height, width, channels) in strips of 8 rows, or square tiles.

    `packed`: the pixels, for numbers of bits that numpy lacks. `tags`: other tags, which may replace those of `values`.
    """
    height, width = values.shape[:2]
    cube = values.reshape(height, width, -1).astype(values.dtype.newbyteorder(order))  # type: ignore[arg-type]
    planes = [cube[..., i : i + 1] for i in range(cube.shape[2])] if planar else [cube]
    side = (tile, tile) if tile else (8, width)
    blocks = [packed] if packed else []
    for plane in planes if not packed else ():
        for y, x in ((y, x) for y in range(0, height, side[0]) for x in range(0, width, side[1])):
            block = plane[y : y + side[0], x : x + side[1]]
            if tile:
                block = np.pad(block, ((0, tile - block.shape[0]), (0, tile - block.shape[1]), (0, 0)))
            blocks.append(zlib.compress(block.tobytes()) if deflate else block.tobytes())
    sizes = [len(block) for block in blocks]
    offsets = [8 + sum(sizes[:i]) for i in range(len(blocks))]
    entries: dict[int, tuple[int, ...]] = {256: (width,), 257: (height,), 259: (8 if deflate else 1,)}
    entries |= {258: (8 * values.dtype.itemsize,) * cube.shape[2], 262: (photometric,), 277: (cube.shape[2],)}
    entries |= {284: (2 if planar else 1,)}
    entries |= {322: (tile,), 323: (tile,), 324: tuple(offsets), 325: tuple(sizes)} if tile else {}
    entries |= {} if tile else {273: tuple(offsets), 278: (height if packed else 8,), 279: tuple(sizes)}
    entries |= tags or {}
    at = 8 + sum(sizes)
    values_at, rows, more = at + 2 + 12 * len(entries) + 4, b"", b""
    for tag, numbers in sorted(entries.items()):
        kind, letter = (4, "I") if tag in (256, 257, 273, 278, 279, 324, 325) else (3, "H")
        data = struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
        short = data.ljust(4, b"\0") if len(data) <= 4 else struct.pack(f"{order}I", values_at + len(more))
        more += b"" if len(data) <= 4 else data
        rows += struct.pack(f"{order}HHI", tag, kind, len(numbers)) + short
    magic = b"MM\0*" if order == ">" else b"II*\0"
    count = struct.pack(f"{order}H", len(entries))
    return magic + struct.pack(f"{order}I", at) + b"".join(blocks) + count + rows + bytes(4) + more
