"""A medium that is open for one call: its container, its first video and audio stream, and how long they last."""

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
from wdsctl.core.media.sniff import sniff
from wdsctl.core.media.stream import CONTAINER_OPTIONS, DEMUXERS
from wdsctl.loader.decoding.av.media_source import MediaSource, RangeStream

#: Formats in which FFmpeg cannot seek to the end, and formats whose packets mostly have no timestamp.
_FORMATS_WITHOUT_END_SEEK = frozenset({"mp3", "aac", "ogg"})
_FORMATS_WITHOUT_TIMESTAMPS = frozenset({"mpeg", "mpegvideo"})

FORMAT_HEAD_BYTES = 4096  # enough to recognise the format
_BUFFER_BYTES = 32 << 10  # of one read by FFmpeg
_STILL_IMAGE_DISPOSITIONS = Disposition.attached_pic | Disposition.timed_thumbnails  # cover art is not video
_TAIL_SECONDS = 2  # read at the end of a file: the last packet need not be shown last


class BadMediumError(ValueError):
    """A medium that cannot be decoded. The message says why; the caller adds which part it is."""


class OpenMedium:
    """An open `container` with its first decodable `video` and `audio` stream; one of them may be None.

    `is_at_start`: nothing was read and no seek was made, so that the next packet is the first.
    """

    def __init__(self, file: io.IOBase, threads: int) -> None:
        self._file = file
        self._threads = threads
        file.seek(0)
        head = file.read(FORMAT_HEAD_BYTES) or b""
        content = sniff(head, FORMAT_HEAD_BYTES + 1)
        if content.format not in DEMUXERS:
            what = f"{content.format or 'unknown'} data" if head else "empty"
            raise BadMediumError(f"it is {what}, not a video or audio format that wdsctl decodes")
        self._format = DEMUXERS[content.format]
        self._open()

    def restart(self) -> None:
        """Open the container again unless nothing was read: the only way back to the start in every format."""
        if not self.is_at_start:
            self.container.close()
            self._open()

    def select_stream(self, stream: Stream) -> None:
        """Let the demuxer drop the packets of all other streams, so that they need not be read."""
        self.is_at_start = False
        for other in self.container.streams:
            if hasattr(other, "discard"):  # PyAV 14 to 16 cannot, and read all
                other.discard = Discard.default if other.index == stream.index else Discard.all

    def close(self) -> None:
        self.container.close()

    @property
    def family(self) -> str:
        """FFmpeg's name of the format: mov (and MP4), matroska (and WebM), avi, wav, ..."""
        return self.container.format.name.partition(",")[0]

    @property
    def keeps_clock(self) -> bool:
        """Whether packets have the same times after a seek. MPEG program streams state few times and raw streams none;
        FFmpeg interpolates the others from where it starts to read."""
        return self.family not in _FORMATS_WITHOUT_TIMESTAMPS

    @property
    def start_time(self) -> Fraction:
        """The time on the file's clock that is second 0: the start of its first stream, but not before 0.

        Recorded broadcasts start at any time. Codecs with priming samples start a little before 0. Transport streams
        have no time before 0: a negative start means that their clock wrapped (every 26 hours) during the recording.
        """
        first = min(self._starts.values(), default=Fraction(0))
        return first if self.family == "mpegts" else max(Fraction(0), first)

    def stream_start(self, stream: Stream) -> Fraction:
        """When the stream starts, on the file's clock, in seconds."""
        return self._starts[stream.index]

    def _open(self) -> None:
        self._file.seek(0)
        self.container: InputContainer = av.open(
            self._file,
            "r",
            format=self._format,
            container_options=CONTAINER_OPTIONS,
            metadata_errors="replace",
            buffer_size=_BUFFER_BYTES,
        )
        self.is_at_start = True
        videos = [
            stream for stream in self.container.streams.video if not stream.disposition & _STILL_IMAGE_DISPOSITIONS
        ]
        self.video: VideoStream | None = next((stream for stream in videos if self._prepare_decoder(stream)), None)
        audios = self.container.streams.audio
        self.audio: AudioStream | None = next((stream for stream in audios if self._prepare_decoder(stream)), None)
        # FFmpeg may correct start times while packets are read; seconds must keep their meaning until it is closed.
        found = [stream for stream in (self.video, self.audio) if stream is not None]
        self._starts = {each.index: Fraction(each.start_time or 0) * (each.time_base or 0) for each in found}
        if videos and self.video is None:
            raise BadMediumError("its video stream has an unknown codec, or its header is damaged")
        if self.video is None and self.audio is None:
            raise BadMediumError("it has no stream that can be decoded: its table of contents is damaged or truncated")

    def _prepare_decoder(self, stream: Stream) -> bool:
        """Set the decoder's threads; False if there is no decoder (PyAV then has no codec context)."""
        context: CodecContext | None = stream.codec_context
        if context is None:
            return False
        context.thread_type = ThreadType.NONE if self._threads == 1 else ThreadType.AUTO
        context.thread_count = self._threads
        return True


@contextmanager
def open_medium(source: MediaSource, threads: int) -> Iterator[OpenMedium]:
    """Open the source, and close it afterwards. Raises BadMediumError, av.FFmpegError, and what reading raises."""
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
    """Raise the read error that FFmpeg took for the end of the file."""
    if isinstance(file, RangeStream) and file.failure is not None:
        raise file.failure


def scan_seconds(medium: OpenMedium, *, is_audio: bool) -> Fraction | None:
    """The duration of the first audio or video stream by its last packets; None if it has none.

    Cost: reads from the last keyframe on, or the whole file if the format has no seek to the end.
    """
    medium.restart()
    stream = medium.audio if is_audio else medium.video
    if stream is None:
        return None
    tick = stream.time_base or Fraction(0)
    start = stream.start_time or 0
    can_seek_to_end = medium.family not in _FORMATS_WITHOUT_END_SEEK and medium.keeps_clock
    length = medium.container.duration if can_seek_to_end else None
    if length and tick:
        try:
            medium.is_at_start = False
            target = Fraction(length, av.time_base) - _TAIL_SECONDS
            medium.container.seek(start + max(0, int(target / tick)), stream=stream)
        except av.FFmpegError:
            medium.restart()
            stream = (medium.audio if is_audio else medium.video) or stream
    times = _packet_times(medium, stream)
    if length and not times:  # the stream ends long before the file, or seeks of this format are that coarse
        medium.restart()
        times = _packet_times(medium, (medium.audio if is_audio else medium.video) or stream)
    end = max(times)[1] if times else start
    if is_audio and medium.family == "mp3" and start and stream.duration and end - start > stream.duration:
        end = start + stream.duration  # the header states the padding at both ends
    return (end - start) * tick if end > start else None


def _packet_times(medium: OpenMedium, stream: VideoStream | AudioStream) -> list[tuple[int, int]]:
    """(start, end) in ticks of each packet that follows."""
    medium.select_stream(stream)
    packets = medium.container.demux(stream)
    return [
        (packet.pts, packet.pts + (packet.duration or 0))
        for packet in packets
        if packet.size and packet.pts is not None
    ]
