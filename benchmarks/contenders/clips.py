"""Clips cut out of films that lie in shards: one JSON line with the seconds and how many clips and frames there were.

    python -m benchmarks.contenders.clips wdsctl|energon|whole SHARD ... [--clips 5] [--seconds 2] [--sound]

Each of them finds the films of the shards first, off the clock. Then `energon` reads the bytes of a film and cuts, as
its loader does it; `wdsctl` has a handle of the film and cuts; `whole` decodes all of a film with PyAV. One thread
each.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Film(NamedTuple):
    shard: str
    offset: int  # bytes from the start of the shard
    size: int


class Asked(NamedTuple):
    clips: int
    seconds: float
    sound: bool


def films(shards: list[str]) -> list[Film]:
    found = []
    for shard in shards:
        with tarfile.open(shard) as tar:
            found += [Film(shard, member.offset_data, member.size) for member in tar]
    return found


def wdsctl(asked: Asked) -> Callable[[Film], Any]:
    from wdsctl.core.storage.storage import LocalStorage
    from wdsctl.loader import AVDecoder, LazyPart, get_clips_uniform

    storage = LocalStorage("/")
    return lambda film: get_clips_uniform(
        AVDecoder(LazyPart(*film, storage)), asked.seconds, asked.clips, request_video=True, request_audio=asked.sound
    )


def energon(asked: Asked) -> Callable[[Film], Any]:
    from megatron.energon.av import AVDecoder, get_clips_uniform

    return lambda film: get_clips_uniform(
        AVDecoder(io.BytesIO(read(film)), suppress_warnings=True),
        asked.seconds,
        asked.clips,
        request_video=True,
        request_audio=asked.sound,
    )


def whole(asked: Asked) -> Callable[[Film], Any]:
    import av

    def decoded(film: Film) -> Any:
        with av.open(io.BytesIO(read(film)), "r") as container:
            container.streams.video[0].codec_context.thread_count = 1
            frames = len(list(map(bool, container.decode(video=0))))
        return argparse.Namespace(video_clips=[range(frames), *[()] * (asked.clips - 1)])

    return decoded


def counts(answer: Any) -> tuple[int, int]:
    """How many clips and frames were cut."""
    return len(answer.video_clips), sum(map(len, answer.video_clips))


def read(film: Film) -> bytes:
    with open(film.shard, "rb") as file:
        file.seek(film.offset)
        return file.read(film.size)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=("wdsctl", "energon", "whole"))
    parser.add_argument("shards", nargs="+")
    parser.add_argument("--clips", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--sound", action="store_true")
    given = parser.parse_args()
    makers = {"wdsctl": wdsctl, "energon": energon, "whole": whole}
    cut = makers[given.library](Asked(given.clips, given.seconds, given.sound))
    found = films(given.shards)
    cut(found[0])  # imports, and what is made once
    begin, cpu = time.perf_counter(), time.process_time()
    # Counted and let go film by film, as a training would: 6 GB of frames measure how fast memory is handed out.
    counted = [counts(cut(film)) for film in found]
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    clips, frames = map(sum, zip(*counted, strict=True))
    if clips != given.clips * len(found):
        raise SystemExit(f"{clips} clips of {len(found)} films, and not {given.clips} of each")
    print(json.dumps({"extract_seconds": seconds, "cpu_seconds": cpu, "clips": clips, "frames": frames}))


if __name__ == "__main__":
    main()
