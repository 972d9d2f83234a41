"""Encode single values as parts: pictures, files, arrays, texts, numbers and JSON. Nothing is guessed or rounded."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from stat import S_ISREG
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.convert.parts import IMAGE_TARGETS, ImageTranscodeOptions
from wdsctl.core.errors import DatasetError, PermissionDenied, WdsctlError, wdsctl_error_from
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.values import encode_npy
from wdsctl.core.importers.protocol import FilePart, Part
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, MAX_IMAGE_PIXELS
from wdsctl.core.media.sniff import extension_of_content, sniff
from wdsctl.core.safe_open import FolderOpener, open_beneath, open_named_handle
from wdsctl.core.shards.write import WRITE_BUFFER_BYTES
from wdsctl.core.text import short_repr

MediaKind = Literal["image", "video", "audio", "mask"]

PNG = ImageTranscodeOptions("png")
_MAX_READ_BYTES = WRITE_BUFFER_BYTES  # the kernel copies larger files when the sample is written
_HEAD_BYTES = 4096
_BYTES = (bytes, bytearray, memoryview)


def refuse(field: str, value: Any, needed: str, hint: str) -> NoReturn:
    """Raise DatasetError WDS262: a value does not fit its field. The writer adds the key of the sample."""
    shape = getattr(value, "shape", None)
    if isinstance(value, _BYTES):
        given = f"{len(value):,} bytes"
    elif shape is not None:
        given = f"an array of shape {tuple(shape)} and type {getattr(value, 'dtype', '?')}"
    else:
        given = f"{type(value).__name__} {short_repr(value)}"
    raise DatasetError(f"{field}: given {given}, needed {needed}", hint=hint, code="WDS262")


def encode_text(field: str, value: Any) -> bytes:
    if not isinstance(value, str):
        refuse(field, value, "a text (str)", "pass str(value), or decode the bytes")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise DatasetError(
            f"{field}: given a text with half of a surrogate pair at character {error.start:,}, needed valid Unicode",
            hint="correct the text where it was read, for example with errors='replace'",
            code="WDS262",
        ) from error


def encode_integer(field: str, value: Any) -> bytes:
    """Accepts whole floats such as 2.0, which columns with gaps have, but no booleans."""
    value = _plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        refuse(field, value, "a whole number (int)", "pass int(value) if that is what the value means")
    if not -(1 << 63) <= value < 1 << 63:
        refuse(field, value, "a number of 64 bits", "store large identifiers as text")
    return b"%d" % value


def encode_array(field: str, value: Any) -> bytes:
    """Encode an array, or what numpy takes for one (a tensor on the CPU, a list of numbers), as `.npy`."""
    try:
        return encode_npy(np.asarray(value))
    except (ValueError, TypeError, RuntimeError):
        refuse(field, value, "an array of numbers", "pass a numpy array whose type is not object")


def _plain(value: Any) -> Any:
    """A single number of numpy or torch as a Python number; anything else unchanged."""
    return value.item() if hasattr(value, "__array__") and getattr(value, "ndim", None) == 0 else value


def _json_default(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "__array__") and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"it contains {type(value).__name__} {short_repr(value)}")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_json_default)


def encode_strict_json(field: str, value: Any) -> bytes:
    """Encode as `encode_json` does, but refuse what JSON cannot hold: bytes, pictures, dates, NaN."""
    try:
        return _ENCODER.encode(value).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise DatasetError(
            f"{field}: given a {type(value).__name__} that JSON cannot hold: {error}",
            hint="pass dicts, lists, texts, finite numbers, booleans and None; pictures and arrays are fields or parts "
            "of their own",
            code="WDS262",
        ) from error


def json_value(field: str, kind: str, value: Any) -> Any:
    """The value of a field that is a key of the part `json`, checked against the kind of the field."""
    if hasattr(value, "__array__") and hasattr(value, "tolist"):
        value = value.tolist()
    value = _plain(value)
    match kind:
        case "text":
            encode_text(field, value)
        case "integer":
            return int(encode_integer(field, value))
        case "number" if not isinstance(value, int | float) or isinstance(value, bool):
            refuse(field, value, "a number", "pass float(value)")
        case "list" if not isinstance(value, list | tuple):
            refuse(field, value, "a list", "pass [value] for a list of one")
        case "object" if not isinstance(value, Mapping):
            refuse(field, value, "a dict", "pass a dict with texts as keys")
    return value


def is_picture(value: Any) -> bool:
    """Whether a value is an image of Pillow, without importing Pillow."""
    return any(each.__module__ == "PIL.Image" for each in type(value).__mro__)


def encode_media(
    field: str, prefix: str, kind: MediaKind, value: Any, encode: ImageTranscodeOptions, base: FolderOpener
) -> Part | FilePart:
    """The part of a medium: a picture or its pixels are encoded, bytes and files keep their bytes and their format.

    A text is the path of a file below `base`, a Path any file. A dict of `bytes` and `path` is either of them.
    """
    path: Any = ""
    if isinstance(value, Mapping) and value.keys() == {"bytes", "path"}:
        path, value = value["path"] or "", value["path"] if value["bytes"] is None else value["bytes"]
    part: Part | FilePart
    if isinstance(value, _BYTES):
        part = Part("", bytes(value))
    elif isinstance(value, str | os.PathLike):
        part, path = read_file(field, "", value, base), value
    elif kind in ("video", "audio"):
        hint = f"pass bytes or a path; of Hugging Face datasets: cast_column({field!r}, Audio(decode=False))"
        refuse(field, value, _needed(kind), hint)
    else:
        encode = PNG if kind == "mask" else encode
        data = encode_pixels(field, value, encode, is_mask=kind == "mask")
        return Part(f"{prefix}{IMAGE_TARGETS[encode.format_name].extensions[0]}", data)
    if isinstance(part, Part):
        head, size = part.data[:_HEAD_BYTES], len(part.data)
    else:
        head, size = replace(part, size=_HEAD_BYTES).data, part.size
    ending = _media_extension(kind, extension_of_name(os.fspath(path)), head, size)
    if not ending:
        refuse(field, value, _needed(kind), f"pass a whole file of this kind; this one begins with {head[:8]!r}")
    name = f"{prefix}{ending}"
    return part._replace(name=name) if isinstance(part, Part) else replace(part, name=name)


def _media_extension(kind: MediaKind, named: str, head: bytes, size: int) -> str:
    """The extension that a file is `named` by, or else that of its content; empty if it is no medium of this kind."""
    media_type = "image" if kind == "mask" else kind
    for ending in (named, extension_of_content(head, size)) if size else ():
        known = FORMAT_BY_EXTENSION.get(ending)
        if known is not None and (known.media_type == media_type or sniff(head, size).kind == media_type):
            return ending
    return ""


def _needed(kind: MediaKind) -> str:
    return {
        "image": "a picture: bytes or path of an image file, PIL.Image, or uint8 array (height, width[, channels])",
        "mask": "a mask: bytes or path of an image file, PIL.Image, or array of whole numbers (height, width)",
        "video": "a video: bytes or path of a video file",
        "audio": "audio: bytes or path of an audio file",
    }[kind]


def encode_pixels(field: str, value: Any, options: ImageTranscodeOptions, *, is_mask: bool = False) -> bytes:
    """Encode a picture of Pillow, or an array of its pixels."""
    kind: MediaKind = "mask" if is_mask else "image"
    if not is_picture(value):
        value = _mask_array(field, value) if is_mask else _pixel_array(field, value)
    elif value.mode in ("F", "I") and (
        value.mode == "F" or not 0 <= min(value.getextrema()) <= max(value.getextrema()) < 1 << 16
    ):
        refuse(
            field, value, _needed(kind), "PNG has at most 16 bits a channel: pass a numpy array as a part `NAME.npy`"
        )
    from wdsctl.core.convert.transcode import IMAGE_ERRORS, encode_picture

    try:
        return encode_picture(value, options)
    except IMAGE_ERRORS as error:
        raise DatasetError(
            f"{field}: cannot encode the picture: {error}",
            hint="pass the bytes or the path of its file; or skip this sample",
            code="WDS262",
        ) from error


def _pixel_array(field: str, value: Any) -> NDArray[Any]:
    needed, hint = _needed("image"), "for (channels, height, width): array.transpose(1, 2, 0)"
    array = np.asarray(value) if hasattr(value, "__array__") else None
    if array is None:
        refuse(field, value, needed, "pass a file, a PIL.Image or a numpy array")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.dtype != np.uint8:
        refuse(field, value, needed, "for pixels from 0 to 1: (array * 255).round().astype('uint8')")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (2, 3, 4)):
        refuse(field, value, needed, hint)
    return _check_pixel_count(field, value, array, needed)


def _mask_array(field: str, value: Any) -> NDArray[Any]:
    needed = _needed("mask")
    array = np.asarray(value) if hasattr(value, "__array__") else None
    if array is None or array.ndim != 2 or array.dtype.kind not in "bui":
        refuse(field, value, needed, "pass an array of shape (height, width) with one id per pixel")
    array = _check_pixel_count(field, value, array, needed)
    if not 0 <= int(array.min()) <= int(array.max()) < 1 << 16:
        refuse(field, value, f"{needed} from 0 to 65535", "renumber the ids; or write the array as a part `NAME.npy`")
    return array.astype(np.uint8 if int(array.max()) < 256 else np.uint16)


def _check_pixel_count(field: str, value: Any, array: NDArray[Any], needed: str) -> NDArray[Any]:
    if not 0 < array.shape[0] * array.shape[1] <= MAX_IMAGE_PIXELS:
        refuse(field, value, f"{needed}, of 1 to {MAX_IMAGE_PIXELS:,} pixels", "cut or shrink the picture")
    return array


def read_file(field: str, name: str, path: str | os.PathLike[str], base: FolderOpener) -> Part | FilePart:
    """A part with the bytes of a file: read now if it is small, else copied when the sample is written.

    A text may come from data, so it names a file below `base`; a Path object is of the program itself.
    """
    root = base.root
    where = os.path.normpath(os.path.join(root, path)) if isinstance(path, str) else os.fspath(path)
    try:
        if not isinstance(path, str):
            handle = open_named_handle(where)
        elif where.startswith(f"{root.rstrip('/')}/"):
            handle = base.open(where)
        else:
            handle = open_beneath(where, (root,))
        try:
            status = os.fstat(handle)
            size = status.st_size
            if not S_ISREG(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), where)
            if size >= _MAX_READ_BYTES:
                if not isinstance(path, str):
                    where = os.path.realpath(where)
                    root = os.path.dirname(where)
                return FilePart(name, where, 0, size, root)
            data = os.read(handle, size + 1)  # one byte more, so that one call shows whether the file has grown
            while len(data) < size and (more := os.read(handle, size + 1 - len(data))):
                data += more
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise _file_error(field, path, where, root, error) from error
    if len(data) != size:
        raise DatasetError(
            f"{field}: the file changed while wdsctl read it: expected {size:,} bytes",
            hint="run the program again when no other program writes to the file",
            where=where,
            code="WDS202",
        )
    return Part(name, data)


def _file_error(
    field: str, path: str | os.PathLike[str], where: str, base: str, error: OSError | ValueError
) -> WdsctlError:
    if isinstance(error, PermissionDenied) and error.code == "WDS409":
        folder = os.path.dirname(os.path.normpath(where))
        hint = f"pass {'' if os.path.isabs(path) else 'the absolute path and '}base={folder!r}; or a Path, not a text"
        return PermissionDenied(f"{field}: the path leads out of {base}", hint=hint, where=where, code="WDS409")
    if isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
        hint = f"check the path; texts are paths relative to base={base!r}"
        return DatasetError(f"{field}: no file {short_repr(os.fspath(path))}", hint=hint, where=where, code="WDS231")
    return error if isinstance(error, WdsctlError) else wdsctl_error_from(error, where, "read")
