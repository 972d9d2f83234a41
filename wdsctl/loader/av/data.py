"""What a decoder gives: clips with their times, and facts."""

from __future__ import annotations

import torch

from wdsctl.loader.samples.edataclass import edataclass

Times = list[tuple[float, float]]


@edataclass
class AVData:
    """Clips in the order in which their ranges were asked for. Lists are empty where nothing was asked for."""

    #: uint8 (frames, 3, height, width) each; channels last in memory, as images are.
    video_clips: list[torch.Tensor]
    #: Of each: seconds at which its first frame is shown, and at which its last one has been.
    video_timestamps: Times
    #: (channels, samples) each.
    audio_clips: list[torch.Tensor]
    #: Of each: seconds of its first sample, and of the one after its last.
    audio_timestamps: Times


@edataclass
class AVMetadata:
    """Facts of a medium. None: there is no such stream, it was not asked for, or the file does not say."""

    video_duration: float | None = None  # seconds from its first frame to the end of its last
    video_num_frames: int | None = None
    video_fps: float | None = None  # the mean, where the rate varies
    video_width: int | None = None  # pixels, as the frames are handed out: once the rotation is followed
    video_height: int | None = None

    audio_duration: float | None = None  # seconds
    audio_channels: int | None = None
    audio_sample_rate: int | None = None
    audio_num_samples: int | None = None  # of one channel
