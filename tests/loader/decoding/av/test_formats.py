"""Every video and audio extension of the format table is decoded: small files, encoded by PyAV."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, decodable_extensions
from wdsctl.core.media.sniff import sniff
from wdsctl.loader import SampleDecoder

FRAMES, SIDE = 12, 32
SAMPLE_RATE = 16_000

#: extension -> FFmpeg's name of the container that files with it hold, and its usual codecs
MUXERS: dict[str, tuple[str, str, str]] = {
    "mp4": ("mp4", "mpeg4", "aac"),
    "m4v": ("mp4", "mpeg4", "aac"),
    "3gp": ("3gp", "mpeg4", "aac"),
    "mov": ("mov", "mpeg4", "aac"),
    "webm": ("webm", "libvpx", "libopus"),
    "mkv": ("matroska", "mpeg4", "libopus"),
    "avi": ("avi", "mpeg4", "mp2"),
    "flv": ("flv", "flv", "aac"),
    "asf": ("asf", "wmv2", "wmav2"),
    "wmv": ("asf", "wmv2", "wmav2"),
    "mpeg": ("mpeg", "mpeg2video", "mp2"),
    "mpg": ("mpeg", "mpeg2video", "mp2"),
    "ts": ("mpegts", "mpeg2video", "mp2"),
    "ogv": ("ogg", "libvpx", "libopus"),
    "wav": ("wav", "", "pcm_s16le"),
    "flac": ("flac", "", "flac"),
    "mp3": ("mp3", "", "libmp3lame"),
    "ogg": ("ogg", "", "libopus"),
    "oga": ("ogg", "", "libopus"),
    "opus": ("ogg", "", "libopus"),
    "m4a": ("ipod", "", "aac"),
    "aac": ("adts", "", "aac"),
    "mp2": ("mp2", "", "mp2"),
    "aiff": ("aiff", "", "pcm_s16be"),
    "aif": ("aiff", "", "pcm_s16be"),
    "wma": ("asf", "", "wmav2"),
    "au": ("au", "", "pcm_s16be"),
    "snd": ("au", "", "pcm_s16be"),
    "caf": ("caf", "", "pcm_s16le"),
    "w64": ("w64", "", "pcm_s16le"),
}


def encode(extension: str) -> bytes:
    """A grey ramp of twelve frames, and one second of silence, mono."""
    muxer, video_codec, audio_codec = MUXERS[extension]
    file = io.BytesIO()
    with av.open(file, "w", format=muxer) as container:
        video = container.add_stream(video_codec, rate=25) if video_codec else None
        audio_rate = 48_000 if audio_codec == "libopus" else SAMPLE_RATE
        audio = container.add_stream(audio_codec, rate=audio_rate, layout="mono")
        assert isinstance(audio, AudioStream)
        audio.bit_rate = 64_000
        if isinstance(video, VideoStream):
            video.width = video.height = SIDE
            video.pix_fmt = "yuv420p"
            for i in range(FRAMES):
                ramp = np.full((SIDE, SIDE, 3), 20 * i, np.uint8)
                container.mux(video.encode(av.VideoFrame.from_ndarray(ramp, format="rgb24")))
            container.mux(video.encode(None))
        silence = av.AudioFrame.from_ndarray(np.zeros((1, audio_rate), np.int16), format="s16", layout="mono")
        silence.sample_rate = audio_rate
        container.mux(audio.encode(silence))
        container.mux(audio.encode(None))
    return file.getvalue()


def encode_sphere() -> bytes:
    """One second of silence as NIST SPHERE, which FFmpeg reads and does not write."""
    fields = {"sample_count": SAMPLE_RATE, "sample_n_bytes": 2, "channel_count": 1, "sample_rate": SAMPLE_RATE}
    lines = [*(f"{name} -i {value}" for name, value in fields.items()), "sample_byte_format -s2 01", "end_head"]
    header = "NIST_1A\n   1024\n" + "\n".join(lines) + "\n"
    return header.encode().ljust(1024) + bytes(2 * SAMPLE_RATE)


def test_muxers_cover_all_decodable_extensions() -> None:
    assert {*MUXERS, "sph"} == decodable_extensions("video") | decodable_extensions("audio")


@pytest.mark.parametrize("extension", [*MUXERS, "sph"])
def test_sample_decoder_decodes_each_extension(extension: str) -> None:
    data = encode_sphere() if extension == "sph" else encode(extension)
    row = FORMAT_BY_EXTENSION[extension]

    decoder = SampleDecoder(av_decode="AVDecoder")(extension, data)

    assert sniff(data).format in (row.name, *row.also_holds)
    if row.media_type == "video":
        (frames,) = decoder.get_video().video_clips
        assert frames.shape == (FRAMES, 3, SIDE, SIDE)
    (samples,) = decoder.get_audio().audio_clips
    assert samples.shape[0] == 1
    assert samples.shape[1] >= 0.9 * SAMPLE_RATE
