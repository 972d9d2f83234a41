"""What the parts that are no media become. Nothing is ever unpickled: a dataset is data, not a program."""

from __future__ import annotations

import importlib
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

from wdsctl.core.sample_types import Kind
from wdsctl.loader.failures import FatalSampleError

Errors = tuple[type[Exception], ...]

#: What the decoders of each kind raise about bytes that are not what they should be: found by changing bytes at random
#: a million times. Anything else is a bug, ours or theirs, and keeps its traceback.
BAD_TEXT: Errors = (ValueError, RecursionError)
BAD_ARRAY: Errors = (
    *BAD_TEXT,
    *(OSError, EOFError, SyntaxError, RuntimeError, LookupError, TypeError, AttributeError, MemoryError, OverflowError),
    *(struct.error, zlib.error, zipfile.BadZipFile, tokenize.TokenError, pickle.UnpicklingError),
)

#: Before 2.6, torch.load ran TorchScript in spite of `weights_only` (CVE-2025-32434). It knows such an archive by the
#: name of a file in it.
_RUNS_SCRIPTS = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6)
_SCRIPT = b"constants.pkl"


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


def torch_file(data: bytes, *, runs_scripts: bool = _RUNS_SCRIPTS) -> Any:
    """Tensors and plain containers of them, on the CPU. Whatever else a file holds is refused by `weights_only`, and a
    bytearray, of which a few bytes may make any number."""
    if runs_scripts and _SCRIPT in data:
        raise pickle.UnpicklingError("a TorchScript archive is a program, and no part of a sample")
    if b"bytearray" in _names_in(data):
        raise ValueError("it holds a bytearray, which is not read: save bytes, or a tensor of uint8")
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _names_in(data: bytes) -> bytes:
    """Where the names stand that a file of torch.save uses: in a member that somebody may have compressed."""
    if not data.startswith(b"PK"):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        named = [member for member in archive.infolist() if member.filename.endswith("data.pkl")]
        return b"".join(archive.read(member) for member in named)


def refuse_unwritten(value: Any, max_bytes: int) -> None:
    """Raises ValueError where a tensor in a value takes more bytes than are allowed once it is copied, as one does that
    repeats one element, or that nobody has filled."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, torch.Tensor):
            size = each.numel() * each.element_size()
            if each.layout == torch.strided and size > max_bytes:
                raise ValueError(f"a tensor in it takes {size:,} bytes, and at most {max_bytes:,} are allowed")
        elif isinstance(each, dict | list | tuple | set) and id(each) not in seen:
            seen.add(id(each))
            waiting += dict.values(each) if isinstance(each, dict) else each


def message(data: bytes) -> Any:
    """What msgpack holds. Raises FatalSampleError where that is not installed: no other sample will do better."""
    try:
        msgpack = importlib.import_module("msgpack")
    except ImportError as error:
        raise FatalSampleError(
            "msgpack is not installed",
            hint="pip install msgpack; or take the bytes as they are: SampleDecoder(skip=('msgpack',))",
        ) from error
    return msgpack.unpackb(data, strict_map_key=False)


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
    **dict.fromkeys(("msgpack", "msg", "mp"), (message, (*BAD_TEXT, TypeError, MemoryError))),
}

#: Those whose files may be small and unpack to much.
PACKED = frozenset((npz, torch_file))

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


#: What is decoded by what a content is. Everything else of `DECODERS` has no content type.
_CONTENTS: dict[Any, str] = {text: "text", json_value: "json", json_lines: "json"}
_CONTENTS |= dict.fromkeys((npy, npz, torch_file), "array")

VIDEO = frozenset(("mp4", "m4v", "mov", "mkv", "webm", "avi", "flv", "mpg", "mpeg", "wmv", "ogv", "ts"))
AUDIO = frozenset(("wav", "flac", "mp3", "ogg", "oga", "opus", "m4a", "aac", "aiff", "aif", "wma"))


def content_of(part: str, kind: Kind) -> str:
    """image, video, audio, text, json, array, or nothing: what the name says, or else the field that takes the part."""
    ending = extension(part)
    if ending in DECODERS:
        return _CONTENTS.get(DECODERS[ending][0], "")
    named = {"image": IMAGES, "video": VIDEO, "audio": AUDIO}
    by_name = next((content for content, endings in named.items() if ending in endings), "")
    return by_name or (kind if kind in ("image", "video", "audio", "text") else "")
