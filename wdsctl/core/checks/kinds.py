"""What a part is by its name: what `validate` holds its content against, and what the loader will make of it.

The loader decides by the same names (`wdsctl/loader/decoding/parts.py`); a test keeps the two in step.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["text", "integer", "json", "lines", "npy", "npz", "torch", "image", "video", "audio", "other"]

_NAMES: dict[Kind, str] = {
    "text": "txt text transcript caption srt vtt md html xml csv tsv",
    "integer": "cls cls2 index inx id",
    "json": "json jsn",
    "lines": "jsonl ndjson",
    "npy": "npy",
    "npz": "npz",
    "torch": "pth pt",
    "image": (
        "jpg jpeg jpe jfif png apng gif bmp dib ppm pgm pbm pnm webp tif tiff avif jp2 j2k jpx jpf j2c jpc ico tga sgi "
        "bw pcx"
    ),
    "video": "mp4 m4v mov mkv webm avi flv mpg mpeg wmv ogv ts",
    "audio": "wav flac mp3 ogg oga opus m4a aac aiff aif wma",
}
_KINDS: dict[str, Kind] = {name: kind for kind, names in _NAMES.items() for name in names.split()}

MEDIA: frozenset[Kind] = frozenset(("image", "video", "audio"))
ARRAYS: frozenset[Kind] = frozenset(("npy", "npz", "torch"))

#: Bytes above which a part that is decoded as a whole is not, here as in the loader.
MAX_BYTES = 1 << 30


def kind_of(part: str) -> Kind:
    """By the last extension, in any case: `image` of `seg.PNG`."""
    return _KINDS.get(part.rpartition(".")[2].lower(), "other")
