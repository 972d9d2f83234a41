"""How many samples a sound has: the loader, the facts of the catalog and the specifications say the same."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.loader.decoding.av.media import film, sound
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import AudioFacts, VideoFacts
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import sniff
from wdsctl.loader.decoding.av import AVDecoder


@pytest.mark.parametrize("seconds", [0.07, 0.4, 2.5])  # of the first two, all samples are in one page
@pytest.mark.parametrize("cut", [1, 100, 700, 1024, 1500, 2000])
def test_vorbis_ends_with_the_sample_that_its_last_page_states(seconds: float, cut: int) -> None:
    whole = sound("ogg", "vorbis", seconds=seconds)
    stated = last_position(whole) - cut
    made = with_last_position(whole, stated)
    decoder = AVDecoder(made)

    clip = decoder.get_audio().audio_clips[0].numpy()
    facts = decoder.get_metadata(get_audio_num_samples=True)
    (ending,), _ = decoder.get_audio_clips([(stated - 300, stated + 500)], "samples")

    assert clip.shape[1] == facts.audio_num_samples == stated
    assert facts.audio_duration == pytest.approx(stated / 44_100)
    assert (facts_of(made).samples, facts_of(made).samples_are) == (stated, "stated")
    assert np.array_equal(ending.numpy(), clip[:, -300:])


@pytest.mark.parametrize("samples", [700, 900, 961, 1024])
def test_a_vorbis_of_one_packet_has_its_samples(samples: int) -> None:
    made = sound("ogg", "vorbis", seconds=samples / 44_100)
    stated = last_position(made)
    assert AVDecoder(made).get_audio().audio_clips[0].shape[1] == stated == facts_of(made).samples


def test_sounds_of_vorbis_that_were_joined_are_not_taken_for_the_end_of_the_first_one() -> None:
    long, short = sound("ogg", "vorbis", seconds=2), sound("ogg", "vorbis", seconds=0.5)
    alone = [AVDecoder(each).get_audio().audio_clips[0].shape[1] for each in (long, short)]

    joined = AVDecoder(long + short).get_audio().audio_clips[0].shape[1]

    assert joined >= sum(alone)


@pytest.mark.parametrize("seconds", [0.03, 0.5, 2.5])
@pytest.mark.parametrize(("container", "codec"), [("ogg", "libopus"), ("ogg", "flac"), ("mp3", "libmp3lame")])
def test_counts_and_durations_leave_out_what_only_fills_a_codec(container: str, codec: str, seconds: float) -> None:
    made = sound(container, codec, rate=48_000, seconds=seconds)
    samples = AVDecoder(made).get_audio().audio_clips[0].shape[1]

    assert AVDecoder(made).get_audio_duration() == pytest.approx(samples / 48_000)
    assert facts_of(made).samples == samples


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
def test_the_duration_of_a_sound_in_matroska_is_that_of_its_samples(container: str, codec: str) -> None:
    made = sound(container, codec, rate=48_000)
    decoder = AVDecoder(made)
    seconds = decoder.get_audio().audio_clips[0].shape[1] / 48_000

    assert decoder.get_audio_duration() == pytest.approx(seconds, abs=0.002)  # its clock counts milliseconds
    assert facts_of(made).duration_s == decoder.get_audio_duration()


def test_the_sound_of_a_film_has_the_same_duration_in_facts_and_loader_and_the_film_its_rotation() -> None:
    made = film("webm", "libvpx-vp9", audio="vorbis")
    facts = probe_media(ByteRangeFile.from_bytes(made), sniff(made[:4096], len(made)))

    assert isinstance(facts, VideoFacts)
    assert facts.audio is not None
    assert facts.audio.duration_s == AVDecoder(made).get_audio_duration()
    assert facts.rotation == 0


def facts_of(made: bytes) -> AudioFacts:
    facts = probe_media(ByteRangeFile.from_bytes(made), sniff(made[:4096], len(made)))
    assert isinstance(facts, AudioFacts)
    return facts


def last_position(made: bytes) -> int:
    position: int = struct.unpack_from("<q", made, made.rindex(b"OggS") + 6)[0]
    return position


def with_last_position(made: bytes, position: int) -> bytes:
    """The last page ends with another sample. Source of the checksum: RFC 3533, 6."""
    at = made.rindex(b"OggS")
    page = bytearray(made[at:])
    struct.pack_into("<q", page, 6, position)
    struct.pack_into("<I", page, 22, 0)
    crc = 0
    for byte in page:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc & 0x80000000 else 0)) & 0xFFFFFFFF
    struct.pack_into("<I", page, 22, crc)
    return made[:at] + bytes(page)
