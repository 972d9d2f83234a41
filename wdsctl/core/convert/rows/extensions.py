"""Endings of parts: from the names that files have, or from what the bytes are."""

from __future__ import annotations

import re

from wdsctl.core.sniff import sniff

#: What a format is usually called at the end of a file's name.
_USUAL = {
    "jpeg": "jpg", "jpeg2000": "jp2", "tiff": "tif", "matroska": "mkv", "gzip": "gz", "bzip2": "bz2",
    "hdf5": "h5", "pnm": "ppm", "mpeg-ts": "ts", "quicktime": "mov",
}  # fmt: skip
_ENDING = re.compile(r"[A-Za-z0-9_-]{1,16}")
_ODD = re.compile(r"[^A-Za-z0-9_-]")

#: Endings of files that a column is taken to refer to.
MEDIA = frozenset(
    (
        *("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "jp2", "avif", "heic", "ppm", "pgm"),
        *("mp4", "mkv", "webm", "avi", "mov", "mpg", "mpeg", "m4v"),
        *("wav", "mp3", "flac", "ogg", "opus", "m4a", "aac"),
        *("npy", "npz", "pt", "pth", "h5", "safetensors", "ply", "glb", "obj", "pdf", "nii", "dcm"),
    )
)


def of_name(path: str) -> str:
    """The ending of a file's name, in lower case. Empty if it has none that can be a part."""
    ending = path[path.rfind("/") + 1 :].rpartition(".")
    return ending[2].lower() if ending[0] and _ENDING.fullmatch(ending[2]) else ""


def of_content(head: bytes, size: int) -> str:
    """The usual ending of media and archives that begin with `head`; `bin` of anything else.

    Text is not told from numbers or JSON: a column's parts would be named by what is in them, row by row.
    """
    found = sniff(head[:4096], size)
    if found.kind not in ("image", "video", "audio", "array", "archive") and found.format != "pdf":
        return "bin"
    ending = _USUAL.get(found.format, found.format)
    return ending if _ENDING.fullmatch(ending) else "bin"


def as_part(field: str) -> str:
    """A field's name as the first piece of a part's name."""
    return _ODD.sub("_", field) or "field"
