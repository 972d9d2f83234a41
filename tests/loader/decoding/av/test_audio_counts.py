"""Sample counts of audio: the loader, the media facts and the format specifications agree."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.loader.decoding.av.media import make_audio, make_video
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import AudioFacts, VideoFacts
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import sniff
from wdsctl.loader.decoding.av import AVDecoder


@pytest.mark.parametrize("seconds", [0.07, 0.4, 2.5])  # the first two fit in one page
@pytest.mark.parametrize("cut", [1, 100, 700, 1024, 1500, 2000])
def test_vorbis_ends_at_sample_stated_by_last_page(seconds: float, cut: int) -> None:
    whole = make_audio("ogg", "vorbis", seconds=seconds)
    stated = last_position(whole) - cut
    data = with_last_position(whole, stated)
    decoder = AVDecoder(data)

    clip = decoder.get_audio().audio_clips[0].numpy()
    facts = decoder.get_metadata(get_audio_num_samples=True)
    (ending,), _ = decoder.get_audio_clips([(stated - 300, stated + 500)], "samples")

    assert clip.shape[1] == facts.audio_num_samples == stated
    assert facts.audio_duration == pytest.approx(stated / 44_100)
    assert (facts_of(data).samples, facts_of(data).samples_are) == (stated, "stated")
    assert np.array_equal(ending.numpy(), clip[:, -300:])


@pytest.mark.parametrize("samples", [700, 900, 961, 1024])
def test_vorbis_of_one_packet_has_stated_samples(samples: int) -> None:
    data = make_audio("ogg", "vorbis", seconds=samples / 44_100)
    stated = last_position(data)
    assert AVDecoder(data).get_audio().audio_clips[0].shape[1] == stated == facts_of(data).samples


def test_concatenated_vorbis_streams_are_decoded_to_the_end() -> None:
    long, short = make_audio("ogg", "vorbis", seconds=2), make_audio("ogg", "vorbis", seconds=0.5)
    counts = [AVDecoder(each).get_audio().audio_clips[0].shape[1] for each in (long, short)]

    joined = AVDecoder(long + short).get_audio().audio_clips[0].shape[1]

    assert joined >= sum(counts)


@pytest.mark.parametrize("seconds", [0.03, 0.5, 2.5])
@pytest.mark.parametrize(("container", "codec"), [("ogg", "libopus"), ("ogg", "flac"), ("mp3", "libmp3lame")])
def test_audio_counts_and_durations_exclude_codec_padding(container: str, codec: str, seconds: float) -> None:
    data = make_audio(container, codec, rate=48_000, seconds=seconds)
    samples = AVDecoder(data).get_audio().audio_clips[0].shape[1]

    assert AVDecoder(data).get_audio_duration() == pytest.approx(samples / 48_000)
    assert facts_of(data).samples == samples


@pytest.mark.parametrize(
    ("container", "codec"),
    [
        ("matroska", "libopus"),
        ("webm", "libopus"),
        ("webm", "vorbis"),
        ("matroska", "libmp3lame"),
        ("matroska", "flac"),
    ],
)
def test_matroska_audio_duration_equals_sample_count_over_rate(container: str, codec: str) -> None:
    data = make_audio(container, codec, rate=48_000)
    decoder = AVDecoder(data)
    seconds = decoder.get_audio().audio_clips[0].shape[1] / 48_000

    assert decoder.get_audio_duration() == pytest.approx(seconds, abs=0.002)  # Matroska's clock counts milliseconds
    assert facts_of(data).duration_s == decoder.get_audio_duration()


def test_probe_and_decoder_report_same_audio_duration_of_video() -> None:
    data = make_video("webm", "libvpx-vp9", audio="vorbis")
    facts = probe_media(ByteRangeFile.from_bytes(data), sniff(data[:4096], len(data)))

    assert isinstance(facts, VideoFacts)
    assert facts.audio is not None
    assert facts.audio.duration_s == AVDecoder(data).get_audio_duration()
    assert facts.rotation == 0


def facts_of(data: bytes) -> AudioFacts:
    facts = probe_media(ByteRangeFile.from_bytes(data), sniff(data[:4096], len(data)))
    assert isinstance(facts, AudioFacts)
    return facts


def last_position(data: bytes) -> int:
    position: int = struct.unpack_from("<q", data, data.rindex(b"OggS") + 6)[0]
    return position


def with_last_position(data: bytes, position: int) -> bytes:
    """Sets the position that the last page states. Source of the checksum: RFC 3533, 6."""
    at = data.rindex(b"OggS")
    page = bytearray(data[at:])
    struct.pack_into("<q", page, 6, position)
    struct.pack_into("<I", page, 22, 0)
    crc = 0
    for byte in page:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc & 0x80000000 else 0)) & 0xFFFFFFFF
    struct.pack_into("<I", page, 22, crc)
    return data[:at] + bytes(page)
