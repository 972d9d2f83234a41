"""Decoding of parts that are not media: text, JSON, integers, numpy and torch files, msgpack. Nothing runs code."""

from __future__ import annotations

import importlib
import io
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import EXTENSIONS_BY_KIND, FORMAT_BY_EXTENSION
from wdsctl.core.samples.packed_json import parse_packed_json
from wdsctl.core.samples.stored_values import (
    RAW_IMAGE_EXTENSION,
    STORED_VALUE_ERRORS,
    is_stored_array,
    raw_image_to_png,
    stored_value_decoder,
)
from wdsctl.core.samples.types import FieldKind
from wdsctl.loader.runtime.failures import FatalSampleError

ErrorTypes = tuple[type[Exception], ...]

#: What decoders raise for invalid bytes, as found by a million random changes. Any other error is a bug, and keeps its
#: traceback.
TEXT_DECODE_ERRORS: ErrorTypes = (ValueError, RecursionError)
ARRAY_DECODE_ERRORS: ErrorTypes = (
    *TEXT_DECODE_ERRORS,
    *(OSError, EOFError, SyntaxError, RuntimeError, LookupError, TypeError, AttributeError, MemoryError, OverflowError),
    *(struct.error, zlib.error, zipfile.BadZipFile, tokenize.TokenError, pickle.UnpicklingError),
)

#: Before 2.6, torch.load ran TorchScript despite `weights_only` (CVE-2025-32434). It recognises such an archive by the
#: name of a file in it.
_TORCH_LOAD_RUNS_SCRIPTS = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6)
_SCRIPT_MARKER = b"constants.pkl"


def decode_raw(data: bytes) -> bytes:
    """The bytes unchanged. `function_for(part) is decode_raw` means that there is nothing to decode."""
    return data


def decode_text(data: bytes) -> str:
    """The text, without a byte order mark, which is no part of it."""
    return str(data, "utf-8").removeprefix("\ufeff")


def decode_json(data: bytes) -> Any:
    return read_json(data)


def decode_jsonl(data: bytes) -> list[Any]:
    return [read_json(line) for line in data.splitlines() if line.strip()]


def decode_integer(data: bytes) -> int:
    return int(data)


def decode_npy(data: bytes) -> Any:
    """A numpy array. Raises ValueError for arrays of Python objects, which numpy would unpickle."""
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def decode_npz(data: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def decode_torch(data: bytes, *, runs_scripts: bool = _TORCH_LOAD_RUNS_SCRIPTS) -> Any:
    """Tensors and plain containers of them, on the CPU. `weights_only` refuses everything else.

    Raises ValueError for files that name `bytearray`, with which some bytes of pickle can claim any amount of memory.
    """
    if runs_scripts and _SCRIPT_MARKER in data:
        raise pickle.UnpicklingError("a TorchScript archive is a program and is not loaded")
    if b"bytearray" in _pickle_data(data):
        raise ValueError("the file contains a bytearray, which is not loaded; save bytes or a uint8 tensor instead")
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _pickle_data(data: bytes) -> bytes:
    """The pickle of a file of torch.save, uncompressed: the bytes that may name classes."""
    if not data.startswith(b"PK"):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pickles = [member for member in archive.infolist() if member.filename.endswith("data.pkl")]
        return b"".join(archive.read(member) for member in pickles)


def check_tensor_sizes(value: Any, max_bytes: int) -> None:
    """Raise ValueError if a copy of a tensor in `value` would take more than `max_bytes`.

    Views that repeat one element, and tensors without data, are small until they are copied.
    """
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, torch.Tensor):
            size = each.numel() * each.element_size()
            if each.layout == torch.strided and size > max_bytes:
                raise ValueError(f"a tensor in it takes {size:,} bytes, the limit is {max_bytes:,}")
        elif isinstance(each, dict | list | tuple | set) and id(each) not in seen:
            seen.add(id(each))
            waiting += dict.values(each) if isinstance(each, dict) else each


def decode_msgpack(data: bytes) -> Any:
    """The value of a msgpack part. Raises FatalSampleError if msgpack is not installed, which ends the run."""
    try:
        msgpack = importlib.import_module("msgpack")
    except ImportError as error:
        raise FatalSampleError(
            "msgpack is not installed",
            hint="pip install msgpack, or get the bytes undecoded: SampleDecoder(skip=('msgpack',))",
        ) from error
    return msgpack.unpackb(data, strict_map_key=False)


TEXT_DECODER: tuple[Callable[[bytes], Any], ErrorTypes] = (decode_text, TEXT_DECODE_ERRORS)

#: By the last extension of a part's name, in lower case. Other parts stay bytes.
DECODER_BY_EXTENSION: dict[str, tuple[Callable[[bytes], Any], ErrorTypes]] = {
    **dict.fromkeys(EXTENSIONS_BY_KIND["text"], TEXT_DECODER),
    **dict.fromkeys(EXTENSIONS_BY_KIND["integer"], (decode_integer, TEXT_DECODE_ERRORS)),
    **dict.fromkeys(EXTENSIONS_BY_KIND["json"], (decode_json, TEXT_DECODE_ERRORS)),
    **dict.fromkeys(EXTENSIONS_BY_KIND["lines"], (decode_jsonl, TEXT_DECODE_ERRORS)),
    **dict.fromkeys(EXTENSIONS_BY_KIND["torch"], (decode_torch, ARRAY_DECODE_ERRORS)),
    "npy": (decode_npy, ARRAY_DECODE_ERRORS),
    "npz": (decode_npz, ARRAY_DECODE_ERRORS),
    **dict.fromkeys(("msgpack", "msg", "mp"), (decode_msgpack, (*TEXT_DECODE_ERRORS, TypeError, MemoryError))),
}

Decoder = tuple[Callable[[bytes], Any], ErrorTypes]


def find_decoder(extension: str) -> Decoder | None:
    """The decoder of parts with this extension (in lower case) that are not media; None if they stay bytes."""
    found = DECODER_BY_EXTENSION.get(extension)
    if found is not None:
        return found
    decode = stored_value_decoder(extension)
    return None if decode is None else (decode, STORED_VALUE_ERRORS)


def with_raw_images(part: str, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """A decoder of images as a decoder of this part, whose images may have no file format."""
    if last_extension(part) != RAW_IMAGE_EXTENSION:
        return decode
    return lambda data: decode(raw_image_to_png(data, level=0))


#: Decoders of compressed archives, whose unpacked size is checked first.
ARCHIVE_DECODERS = frozenset((decode_npz, decode_torch))


def last_extension(part: str) -> str:
    """The last extension in lower case: `png` for `seg.PNG`."""
    return part.rpartition(".")[2].lower()


#: Decoder -> content type. Other decoders of `DECODER_BY_EXTENSION` have none.
_CONTENT_TYPES: dict[Any, str] = {decode_text: "text", decode_json: "json", decode_jsonl: "json"}
_CONTENT_TYPES |= {parse_packed_json: "json"}
_CONTENT_TYPES |= dict.fromkeys((decode_npy, decode_npz, decode_torch), "array")


def part_content_type(part: str, kind: FieldKind) -> str:
    """image, mask, video, audio, text, json, array or "": by the part's extension, or else by the field that takes it.

    An image that a mask takes is a mask.
    """
    extension = last_extension(part)
    found = find_decoder(extension)
    if kind == "mask" and not (FORMAT_BY_EXTENSION.get(extension) or found):
        return "mask"
    if found is not None:
        return "array" if is_stored_array(extension) else _CONTENT_TYPES.get(found[0], "")
    if extension == RAW_IMAGE_EXTENSION:
        return "mask" if kind == "mask" else "image"
    media_format = FORMAT_BY_EXTENSION.get(extension)
    if media_format and media_format.readers:
        return "mask" if kind == "mask" else media_format.media_type
    return kind if kind in ("image", "video", "audio", "text") else ""
