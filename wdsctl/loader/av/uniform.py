"""Clips and frames that are spread evenly over a medium."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.av.data import AVData
from wdsctl.loader.av.decoder import AVDecoder

_SHORTEST_SECONDS = 0.002  # of the last frame of a film that are asked for


def get_clips_uniform(
    av_decoder: AVDecoder,
    clip_duration_seconds: float,
    num_clips: int,
    request_video: bool = False,
    request_audio: bool = False,
    video_out_frame_size: tuple[int, int] | None = None,
) -> AVData:
    """So many clips of this duration, the first at the beginning and the last at the end, as far apart as one another.

    Of film and sound, the shorter one says where the end is. A duration of 0 asks for single frames: the first and the
    last one of the film, and those between. Raises SampleFailed where the medium has no duration.
    """
    if not request_video and not request_audio:
        raise UsageError("neither video nor audio is requested", hint="request_video=True, request_audio=True, or both")
    if num_clips < 1 or clip_duration_seconds < 0:
        raise UsageError(
            f"num_clips={num_clips}, clip_duration_seconds={clip_duration_seconds:g} ask for nothing",
            hint="at least one clip, of 0 seconds or more",
        )
    with av_decoder.opened():
        span = av_decoder.get_span(video=request_video, audio=request_audio)
        if span is None or span[0] >= span[1]:
            raise SampleFailed(
                "clips cannot be spread over a medium without a duration",
                where=repr(av_decoder),
                hint="ask for ranges of frames or seconds, or for all of it",
            )
        first, last = span[0], max(span[0], span[1] - clip_duration_seconds)

        def clips(starts: list[float]) -> AVData:
            ranges = [(start, start + clip_duration_seconds) for start in starts]
            return av_decoder.get_clips(
                video_clip_ranges=ranges if request_video else None,
                audio_clip_ranges=ranges if request_audio else None,
                video_out_frame_size=video_out_frame_size,
            )

        if clip_duration_seconds or not request_video:
            return clips(np.linspace(first, last, num_clips).tolist())
        # The middle of the first and of the last frame: times that are rounded then mean no other frame.
        half = 0.5 / (av_decoder.get_video_fps() or 25.0)
        middles: list[float] = np.linspace(first + half, max(first, last - half), num_clips).tolist()
        # Where the rate varies, the first and the last frame may be shorter than half of the others.
        data = clips([first, *middles[1:-1], *([max(middles[-1], last - _SHORTEST_SECONDS)] * (num_clips > 1))])
        # A header that is wrong by more than that has no frame there.
        return data if len(data.video_clips) == num_clips else clips(middles)


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
    """So many frames from the first to the last, as far apart as one another: uint8 (num_frames, 3, height, width).

    With their seconds, if asked for.
    """
    data = get_clips_uniform(av_decoder, 0, num_frames, request_video=True, video_out_frame_size=video_out_frame_size)
    if not data.video_clips:
        raise SampleFailed(
            "no frame is shown while the film lasts by its header",
            where=repr(av_decoder),
            hint="look at it with a player; repair it, or leave the sample out",
        )
    frames = torch.cat([clip.permute(0, 2, 3, 1) for clip in data.video_clips]).permute(0, 3, 1, 2)
    return (frames, [start for start, _ in data.video_timestamps]) if return_timestamps else frames
