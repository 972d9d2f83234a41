"""Convert values of rows to JSON, arrays to `.npy` and raw images to `.png`; parse the options of formats.

Sources: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html; https://www.w3.org/TR/png.
"""

from __future__ import annotations

import base64
import io
import json
import math
import struct
import zlib
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.errors import UsageError
from wdsctl.core.importers.protocol import Options
from wdsctl.core.safe_open import is_link_outside
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.storage import source_files


def encode_json(value: Any) -> bytes:
    """Encode a value as compact JSON in UTF-8, with keys in their order: equal values give equal bytes."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:  # NaN or infinity: rare, so that catching it costs less than checking every value
        text = _ENCODER.encode(to_json_value(value))
    return text.encode("utf-8", "backslashreplace")


def to_json_value(value: Any) -> Any:
    """Convert a value to types of JSON.

    Times become ISO 8601 text, time spans seconds, bytes base64, NaN and infinities null, decimals and others text.
    """
    converted: Any
    match value:
        case None | bool() | int() | str():
            converted = value
        case float():
            converted = value if math.isfinite(value) else None
        case dict():
            converted = {str(name): to_json_value(each) for name, each in value.items()}
        case list() | tuple():
            converted = [to_json_value(each) for each in value]
        case datetime() | date() | time():
            converted = value.isoformat()
        case timedelta():
            converted = value.total_seconds()
        case bytes() | bytearray() | memoryview():
            converted = base64.b64encode(value).decode()
        case _:
            converted = to_json_value(value.item()) if hasattr(value, "item") else str(value)
    return converted


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=to_json_value)


#: Mode of a raw image -> (color type in PNG, bytes per pixel).
_PNG_COLOR_TYPES = {"L": (0, 1), "RGB": (2, 3), "LA": (4, 2), "RGBA": (6, 4)}


def encode_npy(array: NDArray[Any]) -> bytes:
    """Encode an array as a `.npy` file. Raises ValueError for arrays of objects, which would need pickle."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def raw_image_to_png(data: bytes) -> bytes:
    """Convert a raw image, as MDS and LitData store it, to PNG without loss.

    The raw image is width, height and length of the mode (32 bits each, little-endian), the mode, and the pixels.
    Raises ValueError if the sizes do not match, or the mode is not one of L, LA, RGB and RGBA.
    """
    if len(data) < 12:
        raise ValueError("a raw image is truncated")
    width, height, count = struct.unpack_from("<3I", data)
    mode = data[12 : 12 + count].decode("ascii", "replace")
    if mode not in _PNG_COLOR_TYPES:
        raise ValueError(f"a raw image of mode {mode[:8]!r}: only L, LA, RGB and RGBA can be written as PNG")
    colour, depth = _PNG_COLOR_TYPES[mode]
    pixels = data[12 + count :]
    stride = width * depth
    if not width or not height or len(pixels) != stride * height:
        raise ValueError(f"a raw image of {width} x {height} {mode} has {len(pixels):,} bytes of pixels")
    lines = b"".join(b"\0" + pixels[at : at + stride] for at in range(0, len(pixels), stride))
    head = struct.pack(">2I5B", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(*chunk) for chunk in chunks)


def _png_chunk(chunk_type: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + chunk_type + data + struct.pack(">I", zlib.crc32(chunk_type + data))


def check_format_options(format_name: str, options: Options, known: tuple[str, ...]) -> Options:
    """Return `options`. Raises UsageError for an option that the format does not have."""
    for name in options:
        if name not in known:
            has = f"its options are {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{format_name} has no option {name!r}", hint=f"{did_you_mean(name, known)} {has}".strip())
    return options


def parse_list_option(options: Options, option: str) -> tuple[str, ...]:
    """The items of an option whose value is a comma-separated list; empty if the option is not given."""
    return tuple(word.strip() for word in options.get(option, "").split(",") if word.strip())


def parse_choice_option(format_name: str, options: Options, option: str, choices: tuple[str, ...]) -> str:
    """The value of an option that takes one of `choices`; the first choice if the option is not given.

    Raises UsageError for any other value.
    """
    value = options.get(option, choices[0])
    if value not in choices:
        raise UsageError(
            f"{format_name}: invalid option {option}={value}",
            hint=f"{did_you_mean(value, choices)} {option} is one of {', '.join(choices)}".strip(),
        )
    return value


def parse_integer_option(format_name: str, options: Options, option: str, default: int) -> int:
    """The value of an option that takes an integer of 1 or more. Raises UsageError for any other value."""
    text = options.get(option, str(default))
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(
            f"{format_name}: {option}={text} is not a whole number above 0", hint=f"such as {option}={default}"
        )
    return int(text)


MAX_PROBED_NAMES = 10_000  # entries of folders that a search reads


def read_head(path: str, size: int = 1 << 16) -> bytes:
    """The first `size` bytes of a file; empty if the file cannot be read."""
    try:
        return source_files.read_head(path, size)
    except OSError:
        return b""


def find_file_below(root: str, is_selected: Callable[[str], bool], *, depth: int) -> str | None:
    """The path of a file whose name is selected, at most `depth` folders below `root`; None if there is none.

    Skips names that begin with a dot or an underscore. Reads at most 10,000 entries.
    """
    folders = deque([(root, 0)])
    left = MAX_PROBED_NAMES
    while folders and left > 0:
        folder, level = folders.popleft()
        try:
            with source_files.scan(folder) as entries:
                for entry in entries:
                    left -= 1
                    if entry.name.startswith((".", "_")) or left < 0:
                        continue
                    if is_link_outside(entry, root):
                        continue  # opening the source reports the link
                    if is_selected(entry.name) and entry.is_file():
                        return entry.path
                    if level < depth and entry.is_dir():
                        folders.append((entry.path, level + 1))
        except OSError:
            continue  # opening the source reports the error
    return None
