"""Cut clips from the videos in shards; prints one JSON line with the seconds and the numbers of clips and frames.

    python -m benchmarks.contenders.clips wdsctl|energon|whole SHARD ... [--clips 5] [--seconds 2] [--sound]

Each contender first finds the videos in the shards, which is not timed. Then `energon` reads all bytes of a video and
cuts, as its loader does; `wdsctl` cuts from a lazy part; `whole` decodes the whole video with PyAV. Each uses one
thread.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class VideoPart(NamedTuple):
    shard: str
    offset: int  # bytes from the start of the shard
    size: int


class ClipRequest(NamedTuple):
    clips: int
    seconds: float
    sound: bool


def find_videos(shards: list[str]) -> list[VideoPart]:
    found = []
    for shard in shards:
        with tarfile.open(shard) as tar:
            found += [VideoPart(shard, member.offset_data, member.size) for member in tar]
    return found


def wdsctl(request: ClipRequest) -> Callable[[VideoPart], Any]:
    from wdsctl.core.storage.storage import LocalStorage
    from wdsctl.loader import AVDecoder, LazyPart, get_clips_uniform

    storage = LocalStorage("/")
    return lambda video: get_clips_uniform(
        AVDecoder(LazyPart(*video, storage)),
        request.seconds,
        request.clips,
        request_video=True,
        request_audio=request.sound,
    )


def energon(request: ClipRequest) -> Callable[[VideoPart], Any]:
    from megatron.energon.av import AVDecoder, get_clips_uniform

    return lambda video: get_clips_uniform(
        AVDecoder(io.BytesIO(read(video)), suppress_warnings=True),
        request.seconds,
        request.clips,
        request_video=True,
        request_audio=request.sound,
    )


def whole(request: ClipRequest) -> Callable[[VideoPart], Any]:
    import av

    def decoded(video: VideoPart) -> Any:
        with av.open(io.BytesIO(read(video)), "r") as container:
            container.streams.video[0].codec_context.thread_count = 1
            frames = len(list(map(bool, container.decode(video=0))))
        return argparse.Namespace(video_clips=[range(frames), *[()] * (request.clips - 1)])

    return decoded


def counts(answer: Any) -> tuple[int, int]:
    """How many clips and frames were cut."""
    return len(answer.video_clips), sum(map(len, answer.video_clips))


def read(video: VideoPart) -> bytes:
    with open(video.shard, "rb") as file:
        file.seek(video.offset)
        return file.read(video.size)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=("wdsctl", "energon", "whole"))
    parser.add_argument("shards", nargs="+")
    parser.add_argument("--clips", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--sound", action="store_true")
    given = parser.parse_args()
    makers = {"wdsctl": wdsctl, "energon": energon, "whole": whole}
    cut = makers[given.library](ClipRequest(given.clips, given.seconds, given.sound))
    found = find_videos(given.shards)
    cut(found[0])  # imports, and what is made once
    begin, cpu = time.perf_counter(), time.process_time()
    # Frames are counted and freed video by video, as in training: keeping 6 GB of them would time the allocator.
    counted = [counts(cut(video)) for video in found]
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    clips, frames = map(sum, zip(*counted, strict=True))
    if clips != given.clips * len(found):
        raise SystemExit(f"{clips} clips of {len(found)} videos, and not {given.clips} of each")
    print(json.dumps({"extract_seconds": seconds, "cpu_seconds": cpu, "clips": clips, "frames": frames}))


if __name__ == "__main__":
    main()
