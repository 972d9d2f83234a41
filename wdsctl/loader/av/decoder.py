"""The decoder of a film or a sound: made at once, and reading nothing before it is asked for something."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any, Literal

import av
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.loader.av.data import AVData, AVMetadata, Times
from wdsctl.loader.av.film import Film
from wdsctl.loader.av.media_source import source_of
from wdsctl.loader.av.opening import BadMediumError, OpenMedium, open_medium
from wdsctl.loader.av.options import MAX_BYTES, AVOptions
from wdsctl.loader.av.pictures import Budget
from wdsctl.loader.av.sound import SoundTrack
from wdsctl.loader.av.sound_shape import Channels, SampleFormat, SoundShape
from wdsctl.loader.av.timeline import Range, checked, checked_unit
from wdsctl.loader.decoding.limits import MAX_PIXELS

VideoUnit = Literal["frames", "seconds"]
AudioUnit = Literal["samples", "seconds"]
Size = tuple[int, int]  # width, height

_WHOLE_FILM = ((-math.inf, math.inf),)
_WHOLE_SOUND = ((0.0, math.inf),)  # in samples


class AVDecoder:
    """Clips of a medium, exactly: every frame and every sample is the one that a decode from the beginning gives.

    `stream`: bytes, a path, a seekable binary file (which stays open), or a `LazyPart`: of a part of a shard only those
    bytes are read that a clip needs. Every call opens the medium and closes it; between calls nothing is open. Calls
    from several threads wait for one another. It pickles, but for a file that is somebody else's.

    Seconds are those of the file, where 0 is its beginning: the start of the first of its streams. A range of a film
    includes its end, and has at least the frame that is shown at its start; frame n is the n-th that is shown, whatever
    the rate. A range of a sound has its seconds times the rate samples, less those of a hole in the stream; in samples
    it is a slice of all that are there. Ranges that start when all is over, and of a sound empty ones, give no entry.

    - `part`: the name that errors call it by.
    - `index`: the film's keyframes, where they are known; of a `LazyPart` those that came with it. Without them, frame
      numbers may need a pass over all packets (not of MP4 and MOV), once in the life of the decoder; seconds do not.
    - `rotate`: frames are turned upright, by the rotation that the file states (MP4, MOV, Matroska).
    - `audio_rate`, `audio_channels`, `audio_format`: samples a second; a number of channels, a layout such as "5.1", or
      a tuple of the channels to keep; "native" samples in the decoder's type, or "float", float32 between -1 and 1.
    - `threads` of FFmpeg: one, as there is a worker on every core. 0: as many as it likes.
    - `max_pixels` of a frame; `max_bytes` of pixels and samples a call.

    Errors: SampleFailed (WDS503) for what cannot be decoded, StorageError for what cannot be read, UsageError for
    ranges that make no sense. `suppress_warnings` is there for those who come from Energon: nothing here warns.
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
        audio_channels: Channels = None,
        audio_format: SampleFormat = "native",
        threads: int = 1,
        max_pixels: int = MAX_PIXELS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.suppress_warnings = suppress_warnings
        sound = SoundShape(audio_rate, audio_channels, audio_format)
        options = AVOptions(rotate=rotate, sound=sound, threads=threads, max_pixels=max_pixels, max_bytes=max_bytes)
        self._set(source_of(stream), part, index, options)

    def _set(self, *state: Any) -> None:
        self._state = state
        self._source, self._part, index, self._options = state
        self._film = Film(index, self._options, self._source.keyframes)
        self._sound = SoundTrack(self._options.sound)
        self._lock = RLock()
        self._open: OpenMedium | None = None

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.suppress_warnings, *self._state)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.suppress_warnings, *rest = state
        self._set(*rest)

    def __repr__(self) -> str:
        return f"AVDecoder({self._source!r})"

    def using(self, **options: Any) -> AVDecoder:
        """Another decoder of the same medium, with these options of the constructor changed.

        Such as `decoder.using(audio_rate=16_000, audio_channels=1, audio_format="float")`.
        """
        shape = {name.removeprefix("audio_"): options.pop(name) for name in list(options) if name in _OF_SOUND}
        try:
            changed = replace(self._options, sound=replace(self._options.sound, **shape), **options)
        except TypeError:
            raise UsageError(
                f"a decoder has no option {', '.join(options)}", hint=f"one of {', '.join(sorted(_OPTIONS))}"
            ) from None
        other: AVDecoder = object.__new__(AVDecoder)
        other.__setstate__((self.suppress_warnings, *self._state[:-1], changed))
        return other

    @contextmanager
    def opened(self) -> Iterator[OpenMedium]:
        """Calls within share one opening of the medium: `with decoder.opened(): ...`. Not to be held for long."""
        with self._lock:
            if self._open is not None:
                yield self._open
                return
            try:
                with open_medium(self._source, self._options.threads) as self._open:
                    yield self._open
            except (BadMediumError, av.FFmpegError) as error:
                raise self._failed(error) from error
            finally:
                self._open = None

    # Whole media.

    def get_video(self) -> AVData:
        """All frames, as one clip."""
        with self.opened() as opened:
            return _data(self._film_clips(opened, _WHOLE_FILM), None)

    def get_audio(self) -> AVData:
        """All samples, as one clip."""
        with self.opened() as opened:
            return _data(None, self._sound_clips(opened, _WHOLE_SOUND, by_number=True))

    def get_video_with_audio(self) -> AVData:
        """All frames and all samples, as a clip each; a silent film has no sound."""
        with self.opened() as opened:
            sound = self._sound_clips(opened, _WHOLE_SOUND, by_number=True) if opened.audio is not None else None
            return _data(self._film_clips(opened, _WHOLE_FILM), sound)

    def get_frames(self, video_decode_audio: bool = False) -> AVData:
        """All of it, by what it is: the frames of a film, with its sound if that is asked for; or the sound."""
        with self.opened() as opened:
            if opened.video is None:
                return self.get_audio()
            return self.get_video_with_audio() if video_decode_audio else self.get_video()

    # Clips.

    def get_video_clips(
        self,
        video_clip_ranges: Sequence[Range],
        video_unit: VideoUnit = "seconds",
        video_out_frame_size: Size | None = None,
    ) -> tuple[list[torch.Tensor], Times]:
        """uint8 (frames, 3, height, width) for each range (start, end), and its seconds."""
        data = self.get_clips(video_clip_ranges, None, video_unit, video_out_frame_size=video_out_frame_size)
        return data.video_clips, data.video_timestamps

    def get_audio_clips(
        self, audio_clip_ranges: Sequence[Range], audio_unit: AudioUnit = "seconds"
    ) -> tuple[list[torch.Tensor], Times]:
        """(channels, samples) for each range [start, end), and its seconds. Samples are counted as they come out: at
        `audio_rate`, if that is given."""
        data = self.get_clips(None, audio_clip_ranges, audio_unit=audio_unit)
        return data.audio_clips, data.audio_timestamps

    def get_clips(
        self,
        video_clip_ranges: Sequence[Range] | None = None,
        audio_clip_ranges: Sequence[Range] | None = None,
        video_unit: VideoUnit = "seconds",
        audio_unit: AudioUnit = "seconds",
        video_out_frame_size: Size | None = None,
    ) -> AVData:
        """Both at once; None: none of these. `video_out_frame_size`: (width, height) to scale frames to."""
        checked_unit(video_unit, ("frames", "seconds"), "video_unit")
        checked_unit(audio_unit, ("samples", "seconds"), "audio_unit")
        film = None if video_clip_ranges is None else checked(video_clip_ranges, "video_clip_ranges")
        sound = None if audio_clip_ranges is None else checked(audio_clip_ranges, "audio_clip_ranges")
        size = _checked_size(video_out_frame_size)
        with self.opened() as opened:
            pictures = self._film_clips(opened, film, by_number=video_unit == "frames", size=size) if film else None
            sounds = self._sound_clips(opened, sound, by_number=audio_unit == "samples") if sound else None
            return _data(pictures, sounds)

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
        """Facts by header, as far as they are there. The size decodes a frame, and the channels of a sound two; the
        count of frames may read all packets, and the count of samples decodes them all."""
        facts = AVMetadata()
        with self.opened() as opened:
            if get_video and opened.video is not None:
                film = self._film.facts(
                    opened, seconds=get_video_duration, frames=get_video_frame_count, size=get_video_frame_size
                )
                facts.video_duration, facts.video_num_frames, facts.video_fps = film.seconds, film.frames, film.fps
                facts.video_width, facts.video_height = film.width, film.height
            if get_audio and opened.audio is not None:
                sound = self._sound.facts(opened)
                facts.audio_channels, facts.audio_sample_rate = sound.channels, sound.rate
                facts.audio_duration = self._sound.seconds(opened) if get_audio_duration else None
                facts.audio_num_samples = self._sound.samples(opened) if get_audio_num_samples else None
        return facts

    def get_video_duration(self, get_frame_count: bool = False) -> tuple[float | None, int | None]:
        """Seconds, and the number of frames if that is asked for."""
        with self.opened() as opened:
            facts = self._film.facts(opened, seconds=True, frames=get_frame_count, size=False)
            return facts.seconds, facts.frames

    def get_video_fps(self) -> float | None:
        with self.opened() as opened:
            return self._film.facts(opened, seconds=False, frames=False, size=False).fps

    def get_audio_duration(self) -> float | None:
        with self.opened() as opened:
            return self._sound.seconds(opened)

    def get_audio_samples_per_second(self) -> int:
        """Of the file, whatever `audio_rate` is."""
        with self.opened() as opened:
            return self._sound.facts(opened).rate

    def has_audio_stream(self) -> bool:
        with self.opened() as opened:
            return opened.audio is not None

    def has_video_stream(self) -> bool:
        """Whether there are moving pictures: the cover of a record is none."""
        with self.opened() as opened:
            return opened.video is not None

    def get_span(self, video: bool = True, audio: bool = True) -> tuple[float, float] | None:
        """Seconds between which all of these streams have something; None where one of them does not say."""
        with self.opened() as opened:
            spans = [self._film.span(opened)] if video else []
            spans += [self._sound.span(opened)] if audio else []
            known = [span for span in spans if span is not None]
            if not known or len(known) < len(spans):
                return None
            return max(start for start, _ in known), min(end for _, end in known)

    def _film_clips(
        self, opened: OpenMedium, ranges: Sequence[Range], *, by_number: bool = False, size: Size | None = None
    ) -> tuple[list[torch.Tensor], Times]:
        budget = Budget(self._options.max_bytes)
        return self._film.clips(opened, ranges, by_number=by_number, size=size, budget=budget)

    def _sound_clips(
        self, opened: OpenMedium, ranges: Sequence[Range], *, by_number: bool
    ) -> tuple[list[torch.Tensor], Times]:
        return self._sound.clips(opened, ranges, by_number=by_number, budget=Budget(self._options.max_bytes))

    def _failed(self, error: Exception) -> SampleFailed:
        words = str(error)
        if isinstance(error, av.FFmpegError):
            words = f"FFmpeg says: {(error.strerror or 'unknown error').lower()}"
        return SampleFailed(
            f"{f'part {self._part!r}' if self._part else 'the medium'} cannot be decoded: {words}",
            where=f"part '{self._part}'" if self._part else repr(self._source),
            hint="look at it with a player; repair it, or leave the sample out",
        )


_OF_SOUND = frozenset({"audio_rate", "audio_channels", "audio_format"})
_OPTIONS = _OF_SOUND | {"rotate", "threads", "max_pixels", "max_bytes"}


def _data(film: tuple[list[torch.Tensor], Times] | None, sound: tuple[list[torch.Tensor], Times] | None) -> AVData:
    pictures, shown = film or ([], [])
    samples, heard = sound or ([], [])
    return AVData(video_clips=pictures, video_timestamps=shown, audio_clips=samples, audio_timestamps=heard)


def _checked_size(size: Size | None) -> Size | None:
    if size is None:
        return None
    width, height = map(int, size)
    if width < 1 or height < 1:
        raise UsageError(f"video_out_frame_size={size!r} is no size", hint="(width, height) in pixels")
    return width, height
