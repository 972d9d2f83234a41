"""Write a shard with a ten-minute video: `python -m benchmarks.long_video SHARD`. H.264, B-frames, 320x240, 24 fps.

Runs in the peers' environment, which has PyAV.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

SECONDS = 600
_WIDTH, _HEIGHT, _FPS = 320, 240, 24


def encode_long_video() -> bytes:
    """A pattern that moves, with noise that does not predict itself."""
    noise = np.random.default_rng(0).integers(0, 60, (_HEIGHT, 2 * _WIDTH), dtype=np.uint8)
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as out:
        pictures = out.add_stream("libx264", rate=_FPS, options={"preset": "veryfast"})
        pictures.width, pictures.height, pictures.pix_fmt = _WIDTH, _HEIGHT, "yuv420p"
        grey = np.full((_HEIGHT // 2, _WIDTH), 128, np.uint8)
        for number in range(_FPS * SECONDS):
            at = number * 3 % _WIDTH
            shade = (number // _FPS * 7) % 180
            frame = av.VideoFrame.from_ndarray(
                np.concatenate([noise[:, at : at + _WIDTH] + np.uint8(shade), grey]), format="yuv420p"
            )
            frame.pts, frame.time_base = number, Fraction(1, _FPS)
            out.mux(pictures.encode(frame))
        out.mux(pictures.encode(None))
    return target.getvalue()


def main() -> None:
    shard = Path(sys.argv[1])
    shard.parent.mkdir(parents=True, exist_ok=True)
    data, draft = encode_long_video(), shard.with_suffix(".partial")
    with tarfile.open(draft, "w", format=tarfile.USTAR_FORMAT) as tar:
        member = tarfile.TarInfo("film.mp4")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    os.replace(draft, shard)


if __name__ == "__main__":
    main()
