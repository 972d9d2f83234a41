"""`AVDecoder`, the lazy decoder of video and audio, and what a video or audio part becomes: a decoder, its frames and
samples, or an open PyAV container.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Literal

import av
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.core.media.kinds import MAX_IMAGE_PIXELS
from wdsctl.core.media.stream import CONTAINER_OPTIONS
from wdsctl.core.samples.clips import Clip, describe_clip
from wdsctl.loader.decoding.av.audio import AudioTrack
from wdsctl.loader.decoding.av.audio_format import AudioChannels, AudioOutputFormat, SampleFormat
from wdsctl.loader.decoding.av.container import BadMediumError, OpenMedium, open_medium
from wdsctl.loader.decoding.av.media_source import make_media_source
from wdsctl.loader.decoding.av.pixels import ByteBudget
from wdsctl.loader.decoding.av.values import (
    MAX_CALL_BYTES,
    AVData,
    AVMetadata,
    AVOptions,
    ClipRange,
    ClipTimes,
    check_ranges,
    check_unit,
)
from wdsctl.loader.decoding.av.video import VideoStreamFacts, VideoTrack
from wdsctl.loader.samples.lazy_part import LazyPart

VideoUnit = Literal["frames", "seconds"]
AudioUnit = Literal["samples", "seconds"]
FrameSize = tuple[int, int]  # width, height

_FULL_VIDEO = ((-math.inf, math.inf),)
_FULL_AUDIO = ((0.0, math.inf),)  # in samples


class AVDecoder:
    """Exact clips of a video or audio file: every frame and sample is the one that a decode from the start gives.

    `stream`: bytes, a path, a seekable binary file (which stays open), or a `LazyPart`, of which only the bytes are
    read that a clip needs. Creating a decoder reads nothing. Every call opens the medium and closes it again; to share
    one opening between calls, see `opened`. Calls from several threads run one after the other. Decoders can be
    pickled, except those of open files.

    Video clips are uint8 (frames, 3, height, width) RGB, channels last in memory. Audio clips are (channels, samples)
    in the decoder's dtype. Times are seconds from the start of the file's first stream. A video range includes its end
    and has at least the frame that is shown at its start; frame n is the n-th in display order, at any rate. An audio
    range in seconds has duration * rate samples, less those of a gap in the stream; in samples it is a slice of all
    samples. Ranges after the end of the stream, and empty audio ranges, return no clip.

    - `part`: the name of the part in error messages.
    - `index`: the keyframes of the video, if known; a `LazyPart` brings its own. Without an index, frame numbers may
      need a pass over all packets (not of MP4 and MOV), once per decoder; seconds do not.
    - `rotate`: turn frames upright, by the rotation that the file states (MP4, MOV, Matroska).
    - `audio_rate` (samples per second), `audio_channels` (a number, a layout such as "5.1", or a tuple of the channels
      to keep), `audio_format` ("native", or "float": float32 between -1 and 1).
    - `threads`: of FFmpeg; 1 by default, as there is a loader worker per core; 0: FFmpeg decides.
    - `max_pixels`: of a frame. `max_bytes`: of pixels and samples per call.
    - `clip`: the part of the medium that there is. All times and numbers then count from its start, also those of the
      facts: `get_audio` returns duration * rate samples of it, `get_video` the frames that are shown before its end.
    - `suppress_warnings`: accepted for compatibility with Energon, without effect.

    Methods raise SampleFailed (WDS503) if the medium cannot be decoded, StorageError if it cannot be read, and
    UsageError for bad arguments. A clip costs one opening, a seek, and decoding from the keyframe before its start to
    its end.
    """

    def __init__(
        self,
        stream: Any,
        suppress_warnings: bool = False,
        *,
        part: str = "",
        index: KeyframeIndex | None = None,
        rotate: bool = True,
        audio_rate: int | None = None,
        audio_channels: AudioChannels = None,
        audio_format: SampleFormat = "native",
        threads: int = 1,
        max_pixels: int = MAX_IMAGE_PIXELS,
        max_bytes: int = MAX_CALL_BYTES,
        clip: Clip | None = None,
    ) -> None:
        self.suppress_warnings = suppress_warnings
        audio = AudioOutputFormat(audio_rate, audio_channels, audio_format)
        options = AVOptions(
            rotate=rotate, audio=audio, threads=threads, max_pixels=max_pixels, max_bytes=max_bytes, clip=clip
        )
        self._init_state(make_media_source(stream), part, index, options)

    def _init_state(self, *state: Any) -> None:
        self._state = state
        self._source, self._part, index, self._options = state
        self._video = VideoTrack(index, self._options, self._source.keyframes)
        self._audio = AudioTrack(self._options.audio)
        self._lock = RLock()
        self._open: OpenMedium | None = None
        self._seconds: ClipRange | None = None  # of the clip, if it is in frames

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.suppress_warnings, *self._state)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.suppress_warnings, *rest = state
        self._init_state(*rest)

    def __repr__(self) -> str:
        clip = "" if self._options.clip is None else f", {describe_clip(self._options.clip)}"
        return f"AVDecoder({self._source!r}{clip})"

    def using(self, **options: Any) -> AVDecoder:
        """A decoder of the same medium with some options of the constructor changed. Raises UsageError for unknown
        ones.

        Example: `decoder.using(audio_rate=16_000, audio_channels=1, audio_format="float")`.
        """
        audio_options = {
            name.removeprefix("audio_"): options.pop(name) for name in list(options) if name in _AUDIO_OPTIONS
        }
        try:
            changed = replace(self._options, audio=replace(self._options.audio, **audio_options), **options)
        except TypeError:
            raise UsageError(
                f"AVDecoder has no option {', '.join(options)}", hint=f"use one of {', '.join(sorted(_OPTIONS))}"
            ) from None
        other: AVDecoder = object.__new__(AVDecoder)
        other.__setstate__((self.suppress_warnings, *self._state[:-1], changed))
        return other

    def with_clip(self, clip: Clip) -> AVDecoder:
        """A decoder of a part of the same medium: `using(clip=clip)`."""
        return self.using(clip=clip)

    @contextmanager
    def opened(self) -> Iterator[OpenMedium]:
        """Share one opening of the medium between calls: `with decoder.opened(): ...`. Holds the decoder's lock."""
        with self._lock:
            if self._open is not None:
                yield self._open
                return
            try:
                with open_medium(self._source, self._options.threads) as self._open:
                    yield self._open
            except (BadMediumError, av.FFmpegError) as error:
                raise self._sample_error(error) from error
            finally:
                self._open = None

    # All frames and samples.

    def get_video(self) -> AVData:
        """All frames as one clip. Decodes the whole video, up to `max_bytes`."""
        with self.opened() as opened:
            return _make_av_data(self._video_clips(opened, _FULL_VIDEO), None)

    def get_audio(self) -> AVData:
        """All samples as one clip. Decodes the whole audio stream, up to `max_bytes`."""
        with self.opened() as opened:
            return _make_av_data(None, self._audio_clips(opened, _FULL_AUDIO, by_number=True))

    def get_video_with_audio(self) -> AVData:
        """All frames and all samples as a clip each. Without an audio stream, `audio_clips` is empty."""
        with self.opened() as opened:
            audio = self._audio_clips(opened, _FULL_AUDIO, by_number=True) if opened.audio is not None else None
            return _make_av_data(self._video_clips(opened, _FULL_VIDEO), audio)

    def get_frames(self, video_decode_audio: bool = False) -> AVData:
        """All frames, with all samples if `video_decode_audio`; of a medium without video, all samples."""
        with self.opened() as opened:
            if opened.video is None:
                return self.get_audio()
            return self.get_video_with_audio() if video_decode_audio else self.get_video()

    # Clips.

    def get_video_clips(
        self,
        video_clip_ranges: Sequence[ClipRange],
        video_unit: VideoUnit = "seconds",
        video_out_frame_size: FrameSize | None = None,
    ) -> tuple[list[torch.Tensor], ClipTimes]:
        """uint8 (frames, 3, height, width) and (start, end) seconds for each range.

        Ranges are (start, end) in `video_unit`, end included. `video_out_frame_size`: (width, height) in pixels.
        """
        data = self.get_clips(video_clip_ranges, None, video_unit, video_out_frame_size=video_out_frame_size)
        return data.video_clips, data.video_timestamps

    def get_audio_clips(
        self, audio_clip_ranges: Sequence[ClipRange], audio_unit: AudioUnit = "seconds"
    ) -> tuple[list[torch.Tensor], ClipTimes]:
        """(channels, samples) and (start, end) seconds for each range [start, end) in `audio_unit`.

        Samples are those of the output: at `audio_rate`, if it is set.
        """
        data = self.get_clips(None, audio_clip_ranges, audio_unit=audio_unit)
        return data.audio_clips, data.audio_timestamps

    def get_clips(
        self,
        video_clip_ranges: Sequence[ClipRange] | None = None,
        audio_clip_ranges: Sequence[ClipRange] | None = None,
        video_unit: VideoUnit = "seconds",
        audio_unit: AudioUnit = "seconds",
        video_out_frame_size: FrameSize | None = None,
    ) -> AVData:
        """Video and audio clips with one opening, as `get_video_clips` and `get_audio_clips`. None: no clips of it."""
        check_unit(video_unit, ("frames", "seconds"), "video_unit")
        check_unit(audio_unit, ("samples", "seconds"), "audio_unit")
        video = None if video_clip_ranges is None else check_ranges(video_clip_ranges, "video_clip_ranges")
        audio = None if audio_clip_ranges is None else check_ranges(audio_clip_ranges, "audio_clip_ranges")
        size = _checked_size(video_out_frame_size)
        with self.opened() as opened:
            return _make_av_data(
                self._video_clips(opened, video, by_number=video_unit == "frames", size=size) if video else None,
                self._audio_clips(opened, audio, by_number=audio_unit == "samples") if audio else None,
            )

    # Facts.

    def get_metadata(
        self,
        get_video: bool = True,
        get_video_duration: bool = True,
        get_video_frame_count: bool = True,
        get_video_frame_size: bool = True,
        get_audio: bool = True,
        get_audio_duration: bool = True,
        get_audio_num_samples: bool = False,
    ) -> AVMetadata:
        """Facts from the header; None for what it does not state.

        Costs: the frame size decodes one frame, audio facts decode two. `get_video_frame_count` may read all packets,
        `get_audio_num_samples` decodes all samples. Durations read the end of the file if the header states none.
        """
        facts = AVMetadata()
        with self.opened() as opened:
            if get_video and opened.video is not None:
                video = self._video_facts(
                    opened, seconds=get_video_duration, frames=get_video_frame_count, size=get_video_frame_size
                )
                facts.video_duration, facts.video_num_frames, facts.video_fps = video.seconds, video.frames, video.fps
                facts.video_width, facts.video_height = video.width, video.height
            if get_audio and opened.audio is not None:
                audio = self._audio.facts(opened)
                facts.audio_channels, facts.audio_sample_rate = audio.channels, audio.rate
                facts.audio_duration = self._audio_seconds(opened) if get_audio_duration else None
                facts.audio_num_samples = self._count_samples(opened) if get_audio_num_samples else None
        return facts

    def get_video_duration(self, get_frame_count: bool = False) -> tuple[float | None, int | None]:
        """(seconds, frames): the duration, and with `get_frame_count` the number of frames."""
        with self.opened() as opened:
            facts = self._video_facts(opened, seconds=True, frames=get_frame_count, size=False)
            return facts.seconds, facts.frames

    def get_video_fps(self) -> float | None:
        """Frames per second; the mean if the rate varies."""
        with self.opened() as opened:
            return self._video.facts(opened, seconds=False, frames=False, size=False).fps

    def get_audio_duration(self) -> float | None:
        """Seconds; None if the file states none."""
        with self.opened() as opened:
            return self._audio_seconds(opened)

    def get_audio_samples_per_second(self) -> int:
        """The sample rate of the file, whatever `audio_rate` is. Decodes two frames."""
        with self.opened() as opened:
            return self._audio.facts(opened).rate

    def has_audio_stream(self) -> bool:
        with self.opened() as opened:
            return opened.audio is not None

    def has_video_stream(self) -> bool:
        """Whether the medium has video. Cover art does not count."""
        with self.opened() as opened:
            return opened.video is not None

    def get_span(self, video: bool = True, audio: bool = True) -> tuple[float, float] | None:
        """(start, end) in seconds during which all of these streams last; None if one states no duration."""
        with self.opened() as opened:
            spans = [self._video.time_span(opened)] if video else []
            spans += [self._audio.time_span(opened)] if audio else []
            known = [span for span in spans if span is not None]
            if not known or len(known) < len(spans):
                return None
            start, end = max(start for start, _ in known), min(end for _, end in known)
            window = self._window(opened)
            if window is None:
                return start, end
            return max(start, window[0]) - window[0], min(end, window[1]) - window[0]

    # The clip of the medium that there is.

    def _window(self, medium: OpenMedium) -> ClipRange | None:
        """The seconds of the medium that the clip is; None without a clip."""
        clip = self._options.clip
        if clip is None or clip.unit == "seconds":
            return None if clip is None else clip[:2]
        if self._seconds is None:
            self._seconds = self._video.seconds_of_frames(medium, clip.start, clip.end)
        return self._seconds

    def _in_window(self, medium: OpenMedium, span: tuple[float, float] | None) -> float | None:
        """How many seconds of a stream are in the clip."""
        window = self._window(medium)
        if span is None or window is None:
            return None if span is None else span[1] - span[0]
        return max(0.0, min(span[1], window[1]) - max(span[0], window[0]))

    def _video_facts(self, medium: OpenMedium, *, seconds: bool, frames: bool, size: bool) -> VideoStreamFacts:
        window = self._window(medium)
        if window is None:
            return self._video.facts(medium, seconds=seconds, frames=frames, size=size)
        facts = self._video.facts(medium, seconds=False, frames=False, size=size)
        first, last = self._video.numbers_in(medium, window) if frames else (0, 0)
        return replace(
            facts,
            seconds=self._in_window(medium, self._video.time_span(medium)) if seconds else None,
            frames=last - first + 1 if frames else None,
        )

    def _audio_seconds(self, medium: OpenMedium) -> float | None:
        if self._options.clip is None:
            return self._audio.seconds(medium)
        return self._in_window(medium, self._audio.time_span(medium))

    def _count_samples(self, medium: OpenMedium) -> int:
        window = self._window(medium)
        if window is None:
            return self._audio.count_samples(medium)
        native = AudioTrack(AudioOutputFormat())
        clips, _ = native.clips(
            medium, _FULL_AUDIO, by_number=True, budget=ByteBudget(self._options.max_bytes), window=window
        )
        return sum(clip.shape[1] for clip in clips)

    def _video_clips(
        self, medium: OpenMedium, ranges: Sequence[ClipRange], *, by_number: bool = False, size: FrameSize | None = None
    ) -> tuple[list[torch.Tensor], ClipTimes]:
        budget = ByteBudget(self._options.max_bytes)
        window = self._checked_window(medium)
        return self._video.clips(medium, ranges, by_number=by_number, size=size, budget=budget, window=window)

    def _audio_clips(
        self, medium: OpenMedium, ranges: Sequence[ClipRange], *, by_number: bool
    ) -> tuple[list[torch.Tensor], ClipTimes]:
        window, budget = self._checked_window(medium), ByteBudget(self._options.max_bytes)
        return self._audio.clips(medium, ranges, by_number=by_number, budget=budget, window=window)

    def _checked_window(self, medium: OpenMedium) -> ClipRange | None:
        """As `_window`. Raises BadMediumError if the medium ends before the clip begins."""
        window, clip = self._window(medium), self._options.clip
        if window is None or clip is None:
            return None
        spans = [self._video.time_span(medium)] if medium.video is not None else []
        spans += [self._audio.time_span(medium)] if medium.audio is not None else []
        ends = [span[1] for span in spans if span is not None]
        if math.isinf(window[0]) or (ends and len(ends) == len(spans) and window[0] >= max(ends)):
            raise BadMediumError(f"it ends before its part begins, {describe_clip(clip)}")
        return window

    def _sample_error(self, error: Exception) -> SampleFailed:
        reason = _ffmpeg_message(error) if isinstance(error, av.FFmpegError) else str(error)
        return SampleFailed(
            f"cannot decode {f'part {self._part!r}' if self._part else 'the medium'}: {reason}",
            where=f"part '{self._part}'" if self._part else repr(self._source),
            hint=_CHECK_HINT,
        )


_CHECK_HINT = "check the file with a player, then re-encode it or exclude the sample"
_AUDIO_OPTIONS = frozenset({"audio_rate", "audio_channels", "audio_format"})
_OPTIONS = _AUDIO_OPTIONS | {"rotate", "threads", "max_pixels", "max_bytes", "clip"}


def _make_av_data(
    video: tuple[list[torch.Tensor], ClipTimes] | None, audio: tuple[list[torch.Tensor], ClipTimes] | None
) -> AVData:
    video_clips, video_times = video or ([], [])
    audio_clips, audio_times = audio or ([], [])
    return AVData(
        video_clips=video_clips, video_timestamps=video_times, audio_clips=audio_clips, audio_timestamps=audio_times
    )


def _ffmpeg_message(error: av.FFmpegError) -> str:
    return f"FFmpeg: {(error.strerror or 'unknown error').lower()}"


def _checked_size(size: FrameSize | None) -> FrameSize | None:
    if size is None:
        return None
    width, height = map(int, size)
    if width < 1 or height < 1:
        raise UsageError(f"video_out_frame_size={size!r} is not a size", hint="pass (width, height) in pixels")
    return width, height


@dataclass(frozen=True, slots=True)
class MediaPartDecoder:
    """The decode function of a video or audio part. It takes a `LazyPart` as well as bytes."""

    part: str
    av_decode: str
    video_decode_audio: bool
    max_pixels: int

    #: Whether it can be called with a `LazyPart`.
    accepts_handle = True

    @property
    def prefers_handle(self) -> bool:
        """Whether it prefers a `LazyPart` even for a small part: a lazy decoder may never read it."""
        return self.av_decode == "AVDecoder"

    def __call__(self, data: bytes | LazyPart) -> Any:
        if self.av_decode == "pyav":
            return self._open_container(data)
        decoder = AVDecoder(data, part=self.part, max_pixels=self.max_pixels)
        return decoder if self.prefers_handle else decoder.get_frames(self.video_decode_audio)

    def _open_container(self, data: bytes | LazyPart) -> Any:
        try:
            file = make_media_source(data).open()
            return av.open(file, "r", container_options=CONTAINER_OPTIONS, metadata_errors="replace")
        except av.FFmpegError as error:
            raise SampleFailed(
                f"cannot open part '{self.part}': {_ffmpeg_message(error)}",
                where=f"part '{self.part}'",
                hint=_CHECK_HINT,
            ) from error
