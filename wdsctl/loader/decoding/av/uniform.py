"""Clips and frames that are evenly spaced over a medium."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.decoding.av.decoder import AVDecoder
from wdsctl.loader.decoding.av.values import AVData

_MIN_LAST_FRAME_SECONDS = 0.002  # before the end: within the last frame


def get_clips_uniform(
    av_decoder: AVDecoder,
    clip_duration_seconds: float,
    num_clips: int,
    request_video: bool = False,
    request_audio: bool = False,
    video_out_frame_size: tuple[int, int] | None = None,
) -> AVData:
    """`num_clips` clips of `clip_duration_seconds` at equal distances, the first at the start, the last at the end.

    The end is that of the shorter one of the requested streams; if the header states a later end than the file has,
    clips end earlier. A duration of 0 returns clips of one frame each, from
    the first frame of the video to the last. `video_out_frame_size`: (width, height) in pixels.
    Raises SampleFailed (WDS503) if the medium has no duration or cannot be decoded, UsageError for bad arguments.
    Costs one opening of the medium, and the decoding from the keyframe before each clip to its end.
    """
    if not request_video and not request_audio:
        raise UsageError(
            "neither video nor audio is requested", hint="pass request_video=True, request_audio=True, or both"
        )
    if num_clips < 1 or clip_duration_seconds < 0:
        raise UsageError(
            f"num_clips={num_clips}, clip_duration_seconds={clip_duration_seconds:g}: expected 1 clip or more, of 0 "
            "seconds or more",
            hint="pass num_clips=1 or more and clip_duration_seconds=0 or more",
        )
    with av_decoder.opened():
        span = av_decoder.get_span(video=request_video, audio=request_audio)
        if span is None or span[0] >= span[1]:
            raise SampleFailed(
                "cannot space clips over a medium without a duration",
                where=repr(av_decoder),
                hint="request ranges with get_clips(), or everything with get_video() or get_audio()",
            )
        first, last = span[0], max(span[0], span[1] - clip_duration_seconds)

        def clips(starts: list[float]) -> AVData:
            ranges = [(start, start + clip_duration_seconds) for start in starts]
            return av_decoder.get_clips(
                video_clip_ranges=ranges if request_video else None,
                audio_clip_ranges=ranges if request_audio else None,
                video_out_frame_size=video_out_frame_size,
            )

        def is_complete(data: AVData) -> bool:
            has_video = not request_video or len(data.video_clips) == num_clips
            return has_video and (not request_audio or not clip_duration_seconds or len(data.audio_clips) == num_clips)

        half = 0.5 / ((av_decoder.get_video_fps() if request_video else None) or 25.0)
        if clip_duration_seconds or not request_video:
            data = clips(np.linspace(first, last, num_clips).tolist())
        else:
            # The middle of the first and of the last frame, so that rounding does not change the frame.
            middles: list[float] = np.linspace(first + half, max(first, last - half), num_clips).tolist()
            # If the rate varies, the first and the last frame may be shorter than half of a mean frame.
            ends = [max(middles[-1], last - _MIN_LAST_FRAME_SECONDS)] * (num_clips > 1)
            data = clips([first, *middles[1:-1], *ends])
            first += half
        # If the duration in the header is too long, nothing is at the last starts.
        step = half
        while not is_complete(data) and last > first:
            last, step = max(first, last - step), step * 2
            data = clips(np.linspace(first, last, num_clips).tolist())
        return data


@overload
def get_single_frames_uniform(
    av_decoder: AVDecoder,
    num_frames: int,
    *,
    video_out_frame_size: tuple[int, int] | None = None,
    return_timestamps: Literal[False] = False,
) -> torch.Tensor: ...


@overload
def get_single_frames_uniform(
    av_decoder: AVDecoder,
    num_frames: int,
    *,
    video_out_frame_size: tuple[int, int] | None = None,
    return_timestamps: Literal[True],
) -> tuple[torch.Tensor, list[float]]: ...


def get_single_frames_uniform(
    av_decoder: AVDecoder,
    num_frames: int,
    *,
    video_out_frame_size: tuple[int, int] | None = None,
    return_timestamps: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, list[float]]:
    """`num_frames` frames at equal distances from the first to the last: uint8 (num_frames, 3, height, width).

    With `return_timestamps` also the second at which each frame appears. Errors and costs as in `get_clips_uniform`.
    """
    data = get_clips_uniform(av_decoder, 0, num_frames, request_video=True, video_out_frame_size=video_out_frame_size)
    if len(data.video_clips) < num_frames:
        raise SampleFailed(
            "the video has no frame within the duration that its header states",
            where=repr(av_decoder),
            hint="check the file with a player, then re-encode it or exclude the sample",
        )
    frames = torch.cat([clip.permute(0, 2, 3, 1) for clip in data.video_clips]).permute(0, 3, 1, 2)
    return (frames, [start for start, _ in data.video_timestamps]) if return_timestamps else frames
