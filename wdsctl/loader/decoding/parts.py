"""What the parts that are no media become. Nothing is ever unpickled: a dataset is data, not a program."""

from __future__ import annotations

import io
import json
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Errors = tuple[type[Exception], ...]

#: What the decoders of each kind raise about bytes that are not what they should be: found by changing bytes at random
#: a million times. Anything else is a bug, ours or theirs, and keeps its traceback.
BAD_TEXT: Errors = (ValueError, RecursionError)
BAD_ARRAY: Errors = (
    *BAD_TEXT,
    *(OSError, EOFError, SyntaxError, RuntimeError, LookupError, TypeError, AttributeError, MemoryError),
    *(struct.error, zlib.error, zipfile.BadZipFile, tokenize.TokenError, pickle.UnpicklingError),
)


def as_bytes(data: bytes) -> bytes:
    """The bytes themselves. `function_for(part) is as_bytes` tells that there is nothing to call."""
    return data


def text(data: bytes) -> str:
    return str(data, "utf-8")


def json_value(data: bytes) -> Any:
    return json.loads(data)


def json_lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def integer(data: bytes) -> int:
    return int(data)


def npy(data: bytes) -> Any:
    """An array. One of Python objects is refused: numpy would unpickle it."""
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def npz(data: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def torch_file(data: bytes) -> Any:
    """Tensors and plain containers of them, on the CPU. Whatever else a file holds is refused by `weights_only`."""
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


TEXT: tuple[Callable[[bytes], Any], Errors] = (text, BAD_TEXT)

#: By the last extension of a part's name, in lower case. Everything else stays bytes.
DECODERS: dict[str, tuple[Callable[[bytes], Any], Errors]] = {
    **dict.fromkeys(("txt", "text", "transcript", "caption"), TEXT),
    **dict.fromkeys(("srt", "vtt", "md", "html", "xml", "csv", "tsv"), TEXT),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), (integer, BAD_TEXT)),
    **dict.fromkeys(("json", "jsn"), (json_value, BAD_TEXT)),
    **dict.fromkeys(("jsonl", "ndjson"), (json_lines, BAD_TEXT)),
    **dict.fromkeys(("pth", "pt"), (torch_file, BAD_ARRAY)),
    "npy": (npy, BAD_ARRAY),
    "npz": (npz, BAD_ARRAY),
}

#: The same for images: the extensions of the formats that `pillow.py` opens.
IMAGES = frozenset(
    (
        *("jpg", "jpeg", "jpe", "jfif", "png", "apng", "gif", "bmp", "dib", "ppm", "pgm", "pbm", "pnm", "webp"),
        *("tif", "tiff", "avif", "jp2", "j2k", "jpx", "jpf", "j2c", "jpc", "ico", "tga", "sgi", "bw", "pcx"),
    )
)


def extension(part: str) -> str:
    """`png` of `seg.PNG`."""
    return part.rpartition(".")[2].lower()
