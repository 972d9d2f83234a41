"""Parts of WAV files as files of their own: a new header before a range of the same bytes.

Source: Multimedia Programming Interface and Data Specifications 1.0, "Waveform Audio File Format (WAVE)".
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from wdsctl.core.errors import StorageError, WdsctlError
from wdsctl.core.importers.protocol import FilePart
from wdsctl.core.samples.clips import Clip, clip_error, describe_clip

_PLAIN_FORMATS = (1, 3, 0xFFFE)  # whole numbers, floating-point numbers, and either with a mask of channels
_MAX_CHUNKS = 100
_HEAD_BYTES = 1 << 16


class _Wave(NamedTuple):
    """`format_chunk`: with its header. `frame_bytes`: of one sample of all channels."""

    format_chunk: bytes
    rate: int
    frame_bytes: int
    data_offset: int
    frames: int


def can_cut(file: FilePart) -> bool:
    """Whether a file can be cut without loss."""
    return _read_wave(file.path, file.size, file.root) is not None


def wav_seconds(file: FilePart) -> float | None:
    """The length of a file that can be cut, from its header alone; None for others. Cost: 0.1 ms, FFmpeg's is 1 ms."""
    wave = _read_wave(file.path, file.size, file.root)
    return None if wave is None else wave.frames / wave.rate


def cut_wav(file: FilePart, clip: Clip) -> FilePart:
    """The samples of a clip as a WAV file. Raises DatasetError WDS175 for other codecs and formats."""
    wave = _read_wave(file.path, file.size, file.root)
    if wave is None or clip.unit != "seconds":
        error = clip_error("only WAV files with uncompressed samples can be cut without loss, by seconds")
        error.hint = "keep the file, of which the loader returns the part: `-O segments=range`"
        raise error
    first = round(clip.start * wave.rate)
    count = wave.frames if math.isinf(clip.end) else round((clip.end - clip.start) * wave.rate)
    count = min(count, wave.frames - first)
    if count <= 0:
        raise clip_error(f"the clip has no samples: {describe_clip(clip)}")
    size = count * wave.frame_bytes
    body = b"WAVE" + wave.format_chunk + b"data" + struct.pack("<I", size)
    header = b"RIFF" + struct.pack("<I", len(body) + size) + body
    offset = wave.data_offset + first * wave.frame_bytes
    return replace(file, offset=offset, size=len(header) + size, header=header)


@lru_cache(maxsize=1 << 12)
def _read_wave(path: str, size: int, root: str) -> _Wave | None:
    """What the header of a WAV file says; None for another format, or compressed samples."""
    storage = FilePart("", path, 0, size, root).open_storage()

    def read(at: int, count: int) -> bytes:
        known = head[at : at + count] if at + count <= len(head) else b""
        return known or storage.read(path, at, max(0, min(count, size - at)))

    try:
        head = storage.read(path, 0, min(size, _HEAD_BYTES))
        if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
            return None
        at, form = 12, b""
        for _ in range(_MAX_CHUNKS):
            name, length = struct.unpack("<4sI", read(at, 8))
            if name == b"fmt " and length < _HEAD_BYTES:
                form = read(at, 8 + length + length % 2)
            if name == b"data":
                break
            at += 8 + length + length % 2
        else:
            return None
        code, channels, rate, _, frame_bytes, bits = struct.unpack("<HHIIHH", form[8:24])
    except (struct.error, StorageError, WdsctlError):
        return None  # reported when the file is read
    finally:
        storage.close()
    if code not in _PLAIN_FORMATS or not (rate and channels and bits) or frame_bytes != channels * ((bits + 7) // 8):
        return None
    if code == _PLAIN_FORMATS[2] and form[32:34] not in (b"\1\0", b"\3\0"):
        return None
    length = min(length, size - at - 8)  # a stream that was cut off states more than it has
    frames = length // frame_bytes
    return _Wave(form, rate, frame_bytes, at + 8, frames) if frames else None
