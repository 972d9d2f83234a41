"""Values of fields as MDS and LitData store them: what a row gets of each, a Python value or a file with its name."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from wdsctl.core.importers.common.values import encode_npy
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.naming import KEY_COLUMN, PARTS_COLUMN
from wdsctl.core.samples.stored_values import (
    RAW_IMAGE_EXTENSION,
    is_stored_array,
    raw_image_to_png,
    stored_value_decoder,
)
from wdsctl.core.shards.in_place.table_scan import BY_CONTENT

FieldDecoder = Callable[[bytes], Any]


def field_decoder(extension: str) -> FieldDecoder:
    """The decoder of values that have this extension in place (`wdsctl.core.shards.in_place`)."""
    if extension == BY_CONTENT:
        return bytes
    if extension == "txt":
        return bytes.decode
    if extension == RAW_IMAGE_EXTENSION:
        return decode_raw_image
    decode = stored_value_decoder(extension)
    if decode is None:
        return file_decoder(extension)
    return _npy_decoder(decode) if is_stored_array(extension) else decode


def file_decoder(extension: str) -> FieldDecoder:
    return lambda data: {"bytes": data, "path": f"x.{extension}"}


def decode_raw_image(data: bytes) -> dict[str, Any]:
    return {"bytes": raw_image_to_png(data), "path": "x.png"}


def _npy_decoder(decode: FieldDecoder) -> FieldDecoder:
    return lambda data: {"bytes": encode_npy(decode(data)), "path": "x.npy"}


def list_decoder(decode_element: FieldDecoder, start: int = 0) -> FieldDecoder:
    """The decoder of lists: a count, the sizes, the elements. `start`: bytes before the count."""

    def decode(data: bytes) -> list[Any]:
        (count,) = struct.unpack_from("<I", data, start)
        head = start + 4 + 4 * count
        sizes = struct.unpack_from(f"<{count}I", data, start + 4) if head <= len(data) else ()
        if head + sum(sizes) != len(data):
            raise ValueError("a list's sizes do not fit its bytes")
        ends = np.cumsum([head, *sizes]).tolist()
        return [decode_element(data[a:b]) for a, b in pairwise(ends)]

    return decode


def exported_parts(fields: Mapping[str, bytes]) -> dict[str, Any]:
    """The parts of a sample that `wdsctl convert` wrote, byte for byte, and its key."""
    key = fields[KEY_COLUMN].decode()
    kept = read_json(fields[PARTS_COLUMN]) if PARTS_COLUMN in fields else fields
    parts = {name: data for name, data in fields.items() if name != PARTS_COLUMN and name in kept}
    return {**parts, KEY_COLUMN: key}
