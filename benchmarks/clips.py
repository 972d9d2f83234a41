"""Short videos with sound, in shards: what `--media` is measured on. H.264 and AAC in MP4, the table of contents last.

Runs in the peers' environment, which has PyAV.
"""

from __future__ import annotations

import io
import tarfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import av

CLIPS_A_SHARD = 50
SECONDS = 10
_WIDTH, _HEIGHT, _FPS, _RATE = 320, 240, 24, 44_100


def write_clips(folder: Path, clips: int, *, mtime: int) -> None:
    """`clips` samples of one mp4 each. One in 25 is encoded; those after it have its bytes."""
    for shard, first in enumerate(range(0, clips, CLIPS_A_SHARD)):
        with tarfile.open(folder / f"shard-{shard:06d}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            payload = b""
            for number in range(first, min(first + CLIPS_A_SHARD, clips)):
                payload = _clip(number) if number % 25 == 0 else payload
                member = tarfile.TarInfo(f"{number:09d}.mp4")
                member.size, member.mtime, member.mode = len(payload), mtime, 0o444
                tar.addfile(member, io.BytesIO(payload))


def _clip(number: int) -> bytes:
    import av

    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as out:
        pictures = out.add_stream("libx264", rate=_FPS, options={"preset": "veryfast", "threads": "1"})
        pictures.width, pictures.height, pictures.pix_fmt = _WIDTH, _HEIGHT, "yuv420p"
        sound = out.add_stream("aac", rate=_RATE)
        sound.layout = "mono"
        for frame in _pictures(number):
            out.mux(pictures.encode(frame))
        out.mux(pictures.encode(None))
        for piece in _sound(number):
            out.mux(sound.encode(piece))
        out.mux(sound.encode(None))
    return target.getvalue()


def _pictures(number: int) -> Iterator[av.VideoFrame]:
    """A pattern that moves, so that there is something to predict and to store."""
    import av

    y, x = np.mgrid[:_HEIGHT, :_WIDTH]
    for i in range(_FPS * SECONDS):
        wave = 127 + 100 * np.sin((x + y * (number % 5) + 3 * i) / (9 + number % 7))
        frame = av.VideoFrame.from_ndarray(np.repeat(wave.astype(np.uint8)[..., None], 3, axis=2), format="rgb24")
        frame.pts, frame.time_base = i, Fraction(1, _FPS)
        yield frame


def _sound(number: int) -> Iterator[av.AudioFrame]:
    import av

    tone = np.sin(np.arange(_RATE * SECONDS) * (200 + number % 100) / _RATE, dtype=np.float64)
    for at in range(0, len(tone), 1024):
        frame = av.AudioFrame.from_ndarray(tone[None, at : at + 1024].astype(np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = _RATE, at, Fraction(1, _RATE)
        yield frame
