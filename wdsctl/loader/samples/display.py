"""Samples and batches as a few lines of text, and as HTML in notebooks.

Data may be hostile: all text is escaped and shortened, images become small JPEGs inside the page, and nothing in the
HTML runs, links or loads.
"""

from __future__ import annotations

import base64
import dataclasses
import html
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.text import escape_control_chars, escape_to_line, short_repr
from wdsctl.core.urls import redact_secrets

MAX_SAMPLES = 6  # of a batch or a dataset, shown as cards
MAX_FIELDS = 40  # of a sample or a batch
MAX_ITEMS = 3  # of a list or a dict, in a line
MAX_LINE_CHARS = 160  # of a field
MAX_TEXT_CHARS = 400  # of a text, in HTML
MAX_NUMBERS = 8  # an array of at most so many is shown with its values
MAX_DEPTH = 3  # lists in lists
THUMBNAIL_PIXELS = 160  # the longer side
MAX_IMAGE_BYTES = 16 << 20  # of an encoded image or video that is decoded for a thumbnail

#: The origin of a sample; `repr` and HTML show only its key.
_HIDDEN_FIELDS = frozenset({"__restore_key__", "__subflavors__", "__sources__"})

_CELL = "padding:1px 8px 1px 0;vertical-align:top;text-align:left"
_CARD = "display:inline-block;vertical-align:top;margin:4px;padding:6px;border:1px solid #8886;max-width:320px"


def fields_text(value: Any) -> str:
    """One line per field: `image: uint8 tensor (32, 3, 256, 256)`."""
    fields = _fields(value)
    lines = [f"  {_clip(name, 40)}: {describe(each)}" for name, each in list(fields.items())[:MAX_FIELDS]]
    if len(fields) > MAX_FIELDS:
        lines.append(f"  ... and {len(fields) - MAX_FIELDS:,} more fields")
    return "\n".join([f"{type(value).__name__}(", *lines, ")"]) if lines else f"{type(value).__name__}()"


def describe(value: Any, depth: int = 0) -> str:
    """A value in one line: dtype and shape of an array, size of bytes, the start of a text or list."""
    return _clip(_describe(value, depth), MAX_LINE_CHARS)


def _describe(value: Any, depth: int) -> str:
    if is_array(value):
        return _describe_array(value)
    if isinstance(value, dict | list | tuple) and depth < MAX_DEPTH:
        return _describe_items(value, depth + 1)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value):,} bytes"
    if _is_pil_image(value):
        return f"{value.mode} image {value.width}x{value.height}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__
    return short_repr(value[: MAX_LINE_CHARS + 1] if isinstance(value, str) else value)


def _describe_items(value: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> str:
    if isinstance(value, dict):
        items = [f"{short_repr(name)}: {_describe(each, depth)}" for name, each in islice(value.items(), MAX_ITEMS)]
    else:
        items = [_describe(each, depth) for each in value[:MAX_ITEMS]]
    more = ["..."] if len(value) > MAX_ITEMS else []
    return f"{type(value).__name__} of {len(value):,}" + (f": {', '.join([*items, *more])}" if items else "")


def _describe_array(value: Any) -> str:
    dtype, shape = str(value.dtype).removeprefix("torch."), tuple(value.shape)
    noun = "tensor" if hasattr(value, "device") and hasattr(value, "detach") else "array"
    device = str(getattr(value, "device", "cpu"))
    where = "" if device == "cpu" else f" on {device}"
    size = 1
    for side in shape:
        size *= side
    numbers = f": {value.tolist()}" if size <= MAX_NUMBERS and not where and dtype != "object" else ""
    return f"{dtype} {noun} {shape}{where}{numbers}"


def is_array(value: Any) -> bool:
    """Whether the value is a tensor or a numpy array, without importing torch or numpy."""
    return hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "tolist")


def sample_html(sample: Any) -> str:
    """A sample as a card with its images, texts and other fields."""
    fields = _fields(sample)
    return f"<div>{card_html(type(sample).__name__, fields)}</div>"


def batch_html(batch: Any) -> str:
    """A table of the batch's fields with shapes, and cards of its first samples."""
    fields = _fields(batch)
    keys = fields.get("__key__")
    count = len(keys) if isinstance(keys, list | tuple) else 0
    table = table_html((name, describe(each)) for name, each in list(fields.items())[:MAX_FIELDS])
    columns = {name: each for name, each in fields.items() if _has_length(each, count)}
    cards = [
        card_html("", {name: column[i] for name, column in columns.items()}) for i in range(min(count, MAX_SAMPLES))
    ]
    more = f"<div>{count - MAX_SAMPLES:,} more</div>" if count > MAX_SAMPLES else ""
    return f"<div><b>{_text(type(batch).__name__)}</b>{table}{''.join(cards)}{more}</div>"


def _has_length(value: Any, count: int) -> bool:
    """Whether a field has one item per sample."""
    if is_array(value):
        return len(value.shape) > 0 and value.shape[0] == count
    return isinstance(value, list | tuple) and len(value) == count


def card_html(title: str, fields: Mapping[str, Any], note: str = "") -> str:
    """The fields of one sample in a frame, images first."""
    key = fields.get("__key__")
    head = " ".join(filter(None, (title, key if isinstance(key, str) else "")))
    images, rows = [], []
    for name, value in list(fields.items())[:MAX_FIELDS]:
        if name == "__key__":
            continue
        thumbnail = thumbnail_uri(value)
        if thumbnail:
            images.append(
                f'<img src="{thumbnail}" alt="{_text(_clip(name, 40))}" '
                f'style="max-width:{THUMBNAIL_PIXELS}px;max-height:{THUMBNAIL_PIXELS}px;margin:2px">'
            )
        rows.append((name, _value_text(value)))
    footer = f"<div>{_text(_clip(note, MAX_TEXT_CHARS))}</div>" if note else ""
    return (
        f'<div style="{_CARD}"><div><b>{_text(_clip(head, MAX_LINE_CHARS))}</b></div>'
        f"{''.join(images)}{table_html(rows)}{footer}</div>"
    )


def table_html(rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values, escaped."""
    lines = (
        f'<tr><td style="{_CELL}">{_text(_clip(name, 40))}</td><td style="{_CELL}">{_text(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table style="border:none">{"".join(lines)}</table>'


def _value_text(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        from wdsctl.core.media.sniff import sniff

        head = bytes(value[: 4 * MAX_TEXT_CHARS])
        content = sniff(head, len(value))
        if content.kind in ("text", "json", "integer", "number"):
            return _clip(head.decode("utf-8", "replace").removeprefix("\ufeff"), MAX_TEXT_CHARS)
        return f"{content.format or content.kind}, {len(value):,} bytes"
    if isinstance(value, str):
        return _clip(value, MAX_TEXT_CHARS)
    return describe(value)


def thumbnail_uri(value: Any) -> str:
    """A thumbnail of an image (PIL, array, tensor or encoded) or encoded video as a `data:` URI.

    Empty for other values, and for images that are too large or cannot be decoded.
    """
    from wdsctl.core.media.thumbnail import RgbImage, encode_jpeg, make_thumbnail, shrink_pixels

    side = THUMBNAIL_PIXELS
    if isinstance(value, bytes | bytearray | memoryview):
        from wdsctl.core.media.sniff import sniff

        content = sniff(bytes(value[:4096]), len(value))
        if content.kind not in ("image", "video") or len(value) > MAX_IMAGE_BYTES:
            return ""
        thumbnail = make_thumbnail(ByteRangeFile.from_bytes(bytes(value)), content.kind, content.format, side, side)
        if not isinstance(thumbnail, RgbImage):
            return ""
    else:
        pixels = _pixels(value)
        if pixels is None:
            return ""
        thumbnail = shrink_pixels(pixels, side, side)
    return f"data:image/jpeg;base64,{base64.b64encode(encode_jpeg(thumbnail)).decode('ascii')}"


def _pixels(value: Any) -> Any:
    """uint8 (rows, columns) or (rows, columns, 3 or 4), subsampled to about the size that a thumbnail needs; None if
    the value is not an image."""
    import numpy as np

    if _is_pil_image(value):
        value = np.asarray(value.convert("RGB"))
    if not is_array(value):
        return None
    dtype, shape = str(value.dtype).removeprefix("torch."), tuple(value.shape)
    is_number = dtype in ("uint8", "uint16", "float16", "bfloat16", "float32", "float64")
    if not is_number or 0 in shape or (len(shape) == 2 and dtype != "uint8"):
        return None
    if len(shape) == 3 and shape[0] in (1, 3, 4):
        image_shape, rows_at = shape[1:], 1
    elif len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)):
        image_shape, rows_at = shape[:2], 0
    else:
        return None
    if min(image_shape) < 2:
        return None
    step = tuple(slice(None, None, max(1, size // (4 * THUMBNAIL_PIXELS))) for size in image_shape)
    value = value[(slice(None), *step)] if rows_at else value[step]
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if dtype == "bfloat16" else value).numpy()
    if rows_at:
        value = np.moveaxis(value, 0, -1)
    if value.ndim == 3 and value.shape[2] == 1:
        value = value[:, :, 0]
    return _to_bytes(np.asarray(value))


def _to_bytes(pixels: Any) -> Any:
    """Values as 0 to 255: the upper 8 of 16 bits; floats from 0 to 1, or else from the minimum to the maximum."""
    import numpy as np

    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype == np.uint16:
        return (pixels >> 8).astype(np.uint8)
    numbers = np.nan_to_num(pixels.astype(np.float32), nan=0.0, posinf=1.0, neginf=0.0)
    low, high = float(numbers.min()), float(numbers.max())
    if low < 0 or high > 1:
        numbers = (numbers - low) / (high - low) if high > low else np.zeros_like(numbers)
    return (numbers * 255).astype(np.uint8)


def _is_pil_image(value: Any) -> bool:
    """Whether the value is a Pillow image, without importing Pillow."""
    return all(hasattr(value, name) for name in ("mode", "width", "height", "getbands", "convert"))


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a sample or a batch without `_HIDDEN_FIELDS`."""
    if isinstance(value, Mapping):
        return {str(name): each for name, each in value.items() if name not in _HIDDEN_FIELDS}
    names = [field.name for field in dataclasses.fields(value) if field.name not in _HIDDEN_FIELDS]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _clip(text: str, most: int) -> str:
    r"""The text on one line of at most `most` characters, without control characters and secrets."""
    line = escape_to_line(redact_secrets(text[: 4 * most]))
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 3]}..."


def _text(text: str) -> str:
    """The text escaped for HTML."""
    return html.escape(escape_control_chars(text).encode("utf-8", "backslashreplace").decode("utf-8"), quote=True)
