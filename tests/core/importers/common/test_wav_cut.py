from __future__ import annotations

import random
import struct
from pathlib import Path

import av
import numpy as np
import pytest

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common.wav_cut import can_cut, cut_wav, wav_seconds
from wdsctl.core.importers.protocol import FilePart
from wdsctl.core.samples.clips import Clip

RATE = 8000


def chunk(name: bytes, data: bytes, *, length: int | None = None) -> bytes:
    return name + struct.pack("<I", len(data) if length is None else length) + data + b"\0" * (len(data) % 2)


def form(code: int, bits: int, channels: int = 2) -> bytes:
    size = channels * bits // 8
    plain = struct.pack("<HHIIHH", code, channels, RATE, RATE * size, size, bits)
    if code != 0xFFFE:
        return chunk(b"fmt ", plain)
    guid = b"\1\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
    return chunk(b"fmt ", plain + struct.pack("<HHI", 22, bits, 3) + guid)


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def a_file(root: Path, data: bytes) -> FilePart:
    path = root / "a.wav"
    path.write_bytes(data)
    return FilePart("wav", str(path), 0, len(data), str(root))


SAMPLES = random.Random(0).randbytes(RATE * 2 * 4)  # a second of 2 channels of 4 bytes
FILES = {
    "plain": riff(form(1, 16), chunk(b"data", SAMPLES)),
    "float": riff(form(3, 32), chunk(b"data", SAMPLES)),
    "extensible": riff(form(0xFFFE, 24), chunk(b"data", SAMPLES[: RATE * 6])),
    "chunks before": riff(chunk(b"junk", b"odd"), form(1, 16), chunk(b"fact", b"1234"), chunk(b"data", SAMPLES)),
    "chunks after": riff(form(1, 16), chunk(b"data", SAMPLES), chunk(b"LIST", b"INFO")),
    "streamed": riff(form(1, 16), chunk(b"data", SAMPLES, length=0xFFFFFFFF)),
}


def test_huge_description_of_samples_is_not_read(tmp_path: Path) -> None:
    plain = form(1, 16)[8:]
    assert not can_cut(a_file(tmp_path, riff(chunk(b"fmt ", plain + bytes(1 << 16)), chunk(b"data", SAMPLES))))


@pytest.mark.parametrize("name", FILES)
def test_cut_has_the_bytes_between_start_and_end(tmp_path: Path, name: str) -> None:
    file = a_file(tmp_path, FILES[name])
    cut = cut_wav(file, Clip(0.25, 0.5)).data
    size = {"float": 8, "extensible": 6}.get(name, 4)
    assert cut.endswith(b"data" + struct.pack("<I", 2000 * size) + SAMPLES[2000 * size : 4000 * size])
    assert len(cut) == struct.unpack("<I", cut[4:8])[0] + 8
    assert b"".join(cut_wav(file, Clip(0.25, 0.5)).chunks(100)) == cut
    (tmp_path / "cut.wav").write_bytes(cut)
    assert decoded(tmp_path / "cut.wav").tobytes() == decoded(tmp_path / "a.wav")[:, 4000:8000].tobytes()
    seconds = wav_seconds(file)
    assert seconds is not None
    assert seconds * RATE == decoded(tmp_path / "a.wav").shape[1] / 2


def decoded(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """(1, samples of both channels in turn)"""
    with av.open(str(path), "r") as file:
        return np.concatenate([frame.to_ndarray() for frame in file.decode(audio=0)], axis=1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"RIFF",
        b"RF64" + FILES["plain"][4:],
        riff(chunk(b"data", SAMPLES)),
        riff(form(1, 16)),
        riff(form(2, 16), chunk(b"data", SAMPLES)),
        riff(chunk(b"fmt ", b"12345678"), chunk(b"data", SAMPLES)),
        riff(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 2, RATE, 0, 0, 0)), chunk(b"data", SAMPLES)),
        riff(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 2, 0, 0, 4, 16)), chunk(b"data", SAMPLES)),
        riff(form(1, 16), chunk(b"data", b"")),
        riff(*[chunk(b"junk", b"")] * 1000, form(1, 16), chunk(b"data", SAMPLES)),
        riff(chunk(b"LIST", b"", length=0xFFFFFFFF), form(1, 16), chunk(b"data", SAMPLES)),
    ],
)
def test_other_files_are_not_cut(tmp_path: Path, data: bytes) -> None:
    file = a_file(tmp_path, data)
    assert not can_cut(file)
    assert wav_seconds(file) is None
    with pytest.raises(DatasetError, match="uncompressed"):
        cut_wav(file, Clip(0, 1))


def test_clip_without_samples_is_refused(tmp_path: Path) -> None:
    file = a_file(tmp_path, FILES["plain"])
    for clip in (Clip(0.5, 0.50001), Clip(3, 4)):
        with pytest.raises(DatasetError, match="no samples"):
            cut_wav(file, clip)
