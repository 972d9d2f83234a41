"""A medium, open for one call: its container, and the streams of it that are decoded."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import av
from av.audio.stream import AudioStream
from av.codec.context import CodecContext, ThreadType
from av.container import InputContainer
from av.stream import Discard, Disposition, Stream
from av.video.stream import VideoStream

from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.stated_seconds import UNCLOCKED
from wdsctl.core.media.stream import DEMUXERS, OPTIONS
from wdsctl.core.sniff import sniff
from wdsctl.loader.av.media_source import MediaSource
from wdsctl.loader.av.range_stream import RangeStream

HEAD_BYTES = 4096  # that tell the format
_BUFFER_BYTES = 32 << 10  # FFmpeg reads so much at a time
_STILLS = Disposition.attached_pic | Disposition.timed_thumbnails  # a record's cover is no film


class BadMediumError(ValueError):
    """What is wrong with a medium, in words. Where it happened is added by whoever knows."""


class OpenMedium:
    """`container` with its first film and its first sound, either of which may be None.

    `is_fresh`: nothing has been read or sought since it was opened, so the next packet is the first one.
    """

    def __init__(self, file: io.IOBase, threads: int) -> None:
        self._file = file
        self._threads = threads
        file.seek(0)
        head = file.read(HEAD_BYTES) or b""
        content = sniff(head, HEAD_BYTES + 1)
        if content.format not in DEMUXERS:
            what = f"{content.format or 'unknown'} data" if head else "empty"
            raise BadMediumError(f"it is {what}, and no sound or video that can be decoded here")
        self._format = DEMUXERS[content.format]
        self._open()

    def restart(self) -> None:
        """Open it again, unless nothing was read yet: the one way back to the beginning that every format has."""
        if not self.is_fresh:
            self.container.close()
            self._open()

    def read(self, stream: Stream) -> None:
        """Of the packets that follow, those of this stream are wanted: others need not even be read from the file."""
        self.is_fresh = False
        for other in self.container.streams:
            if hasattr(other, "discard"):  # PyAV 14 to 16 read them all
                other.discard = Discard.default if other.index == stream.index else Discard.all

    def close(self) -> None:
        self.container.close()

    @property
    def family(self) -> str:
        """FFmpeg's name of the format: mov (and MP4), matroska (and WebM), avi, wav, ..."""
        return self.container.format.name.partition(",")[0]

    @property
    def keeps_clock(self) -> bool:
        """Whether packets have the same times after a seek. Program streams (MPEG) state few times, bare ones none, and
        FFmpeg makes up the others from where it begins to read."""
        return self.family not in UNCLOCKED

    @property
    def begins(self) -> Fraction:
        """What second 0 is on the clock of the file: where the first of its streams begins, and not before 0.

        Recordings of broadcasts begin at any time; codecs that need a run-up begin a little before 0. Transport streams
        have no time before 0: their clock, which begins anew after 26 hours, did so while they were recorded.
        """
        first = min(self._starts.values(), default=Fraction(0))
        return first if self.family == "mpegts" else max(Fraction(0), first)

    def start_of(self, stream: Stream) -> Fraction:
        """When this film or sound begins, on the clock of the file."""
        return self._starts[stream.index]

    def _open(self) -> None:
        self._file.seek(0)
        self.container: InputContainer = av.open(
            self._file,
            "r",
            format=self._format,
            container_options=OPTIONS,
            metadata_errors="replace",
            buffer_size=_BUFFER_BYTES,
        )
        self.is_fresh = True
        videos = [stream for stream in self.container.streams.video if not stream.disposition & _STILLS]
        self.video: VideoStream | None = next((stream for stream in videos if self._prepared(stream)), None)
        audios = self.container.streams.audio
        self.audio: AudioStream | None = next((stream for stream in audios if self._prepared(stream)), None)
        # FFmpeg may think better of it while packets are read; seconds are to mean the same for as long as it is open.
        found = [stream for stream in (self.video, self.audio) if stream is not None]
        self._starts = {each.index: Fraction(each.start_time or 0) * (each.time_base or 0) for each in found}
        if videos and self.video is None:
            raise BadMediumError("its video stream is of an unknown codec, or its header is damaged")
        if self.video is None and self.audio is None:
            raise BadMediumError("nothing is in it that can be decoded: its table of contents is damaged or cut off")

    def _prepared(self, stream: Stream) -> bool:
        """Whether there is a decoder. PyAV gives no context to a stream of an unknown codec."""
        context: CodecContext | None = stream.codec_context
        if context is None:
            return False
        context.thread_type = ThreadType.NONE if self._threads == 1 else ThreadType.AUTO
        context.thread_count = self._threads
        return True


@contextmanager
def open_medium(source: MediaSource, threads: int) -> Iterator[OpenMedium]:
    """Closes what it opens. Raises BadMediumError, av.FFmpegError, and what reading raises."""
    with source.open() as file:
        opened = None
        try:
            opened = OpenMedium(file, threads)
            yield opened
        except (BadMediumError, av.FFmpegError, SampleFailed):
            _raise_failure(file)
            raise
        finally:
            if opened is not None:
                opened.close()
        _raise_failure(file)


def _raise_failure(file: io.IOBase) -> None:
    """To FFmpeg a file that cannot be read any further has ended. This says what it was."""
    if isinstance(file, RangeStream) and file.failure is not None:
        raise file.failure
