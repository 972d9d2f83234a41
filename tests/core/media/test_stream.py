from __future__ import annotations

import io
import struct
from pathlib import Path

import av
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.media_files import a_media_file, a_wav
from wdsctl.core.errors import StorageError
from wdsctl.core.media.byte_range import PAGE_BYTES, ByteRangeFile
from wdsctl.core.media.facts import AudioFacts, MediumFacts, Unreadable, VideoFacts
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import SniffedContent, sniff
from wdsctl.core.media.stream import DEMUXERS
from wdsctl.core.storage.storage import LocalStorage

HALF_A_GIB = 512 << 20


def facts_of(data: bytes) -> MediumFacts | Unreadable:
    return probe_media(ByteRangeFile.from_bytes(data), sniff(data))


def video_facts(data: bytes) -> VideoFacts:
    facts = facts_of(data)
    assert isinstance(facts, VideoFacts), facts
    return facts


def audio_facts(data: bytes) -> AudioFacts:
    facts = facts_of(data)
    assert isinstance(facts, AudioFacts), facts
    return facts


def count_decoded_samples(data: bytes) -> int:
    with av.open(io.BytesIO(data)) as container:
        assert isinstance(container, av.container.InputContainer)
        return sum(frame.samples for frame in container.decode(audio=0))


def add_cover_art(mp3: bytes) -> bytes:
    """Puts an ID3v2.3 tag with a picture in front."""
    file = io.BytesIO()
    from PIL import Image

    Image.new("RGB", (300, 300)).save(file, "JPEG")
    body = b"\0image/jpeg\0\x03\0" + file.getvalue()
    frame = b"APIC" + struct.pack(">I", len(body)) + b"\0\0" + body
    size = bytes(len(frame) >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\3\0\0" + size + frame + mp3


def insert_gap(mp4: bytes, size: int) -> tuple[bytes, bytes]:
    """A video with `size` unused bytes between frames and table of contents: the bytes before and after the gap."""
    at = mp4.index(b"moov") - 4
    assert mp4.index(b"mdat") < at, "the table of contents is to stand at the end"
    return mp4[:at] + struct.pack(">I", size) + b"free", mp4[at:]


@pytest.mark.parametrize(
    ("container", "codec", "form", "name"),
    [
        ("mp4", "libx264", "mp4", "h264"),
        ("mov", "libx264", "mov", "h264"),
        ("matroska", "libx264", "matroska", "h264"),
        ("webm", "libvpx-vp9", "webm", "vp9"),
        ("avi", "mpeg4", "avi", "mpeg4"),
        ("flv", "flv", "flv", "flv1"),
        ("mpegts", "libx264", "mpegts", "h264"),
    ],
)
def test_video_facts_are_read_for_every_container(container: str, codec: str, form: str, name: str) -> None:
    facts = video_facts(a_media_file(container, video=codec))

    assert (facts.format, facts.codec, facts.width, facts.height) == (form, name, 64, 48)
    assert (facts.fps, facts.fps_ratio, facts.rotation) == (24.0, (24, 1), 0)
    assert facts.duration_s == pytest.approx(8 / 24, abs=0.05)
    assert (facts.has_audio, facts.audio) == (False, None)


@pytest.mark.parametrize(
    ("container", "codec", "form", "name"),
    [
        ("ogg", "libopus", "ogg", "opus"),
        ("ogg", "flac", "ogg", "flac"),
        ("flac", "flac", "flac", "flac"),
        ("mp3", "libmp3lame", "mp3", "mp3"),
        ("ipod", "aac", "m4a", "aac"),
        ("mp4", "aac", "m4a", "aac"),
        ("adts", "aac", "aac", "aac"),
        ("matroska", "libopus", "matroska", "opus"),
        ("wav", "pcm_s16le", "wav", "pcm_s16le"),
        ("aiff", "pcm_s16be", "aiff", "pcm_s16be"),
    ],
)
def test_audio_facts_are_read_for_every_container(container: str, codec: str, form: str, name: str) -> None:
    facts = audio_facts(a_media_file(container, audio=codec))

    assert (facts.format, facts.codec, facts.channels, facts.rate_hz) == (form, name, 2, 48_000)
    assert facts.duration_s == pytest.approx(1 / 3, abs=0.05)
    assert facts.samples == pytest.approx(16_000, rel=0.1)


@pytest.mark.parametrize(
    ("container", "codec"),
    [("wav", "pcm_s16le"), ("aiff", "pcm_s16be"), ("flac", "flac"), ("ogg", "flac"), ("ogg", "libopus")],
)
def test_stated_samples_equal_decoded_samples(container: str, codec: str) -> None:
    sound = a_media_file(container, audio=codec)
    facts = audio_facts(sound)

    assert (facts.samples, facts.samples_are) == (count_decoded_samples(sound), "stated")


@pytest.mark.parametrize(("container", "codec"), [("mp3", "libmp3lame"), ("adts", "aac"), ("ipod", "aac")])
def test_samples_missing_from_header_are_estimated(container: str, codec: str) -> None:
    sound = a_media_file(container, audio=codec)
    facts = audio_facts(sound)

    assert facts.samples_are == "estimated"
    assert facts.samples == pytest.approx(count_decoded_samples(sound), rel=0.05)


def test_wav_facts_are_exact() -> None:
    facts = audio_facts(a_wav())

    assert (facts.channels, facts.rate_hz, facts.duration_s, facts.samples) == (1, 8_000, 0.1, 800)


@pytest.mark.parametrize(("container", "origin"), [("mp4", "stated"), ("mov", "stated"), ("matroska", "estimated")])
def test_frames_are_stated_or_estimated_by_container(container: str, origin: str) -> None:
    facts = video_facts(a_media_file(container, video="libx264"))

    assert (facts.frames, facts.frames_are) == (8, origin)


def test_frames_of_fragmented_mp4_are_estimated() -> None:
    facts = video_facts(a_media_file("mp4", video="libx264", options={"movflags": "frag_keyframe+empty_moov"}))

    assert (facts.frames, facts.frames_are) == (8, "estimated")


def test_frames_outside_edit_list_are_not_counted() -> None:
    whole = a_media_file("mp4", video="libx264", times=range(24))
    at = whole.index(b"elst") + 12  # its first entry: the duration shown in 1/1000 s, and its first tick
    duration, first = struct.unpack_from(">II", whole, at)
    edited = bytearray(whole)
    struct.pack_into(">II", edited, at, duration - 250, first + 6 * 512)

    facts = video_facts(bytes(edited))

    with av.open(io.BytesIO(edited)) as container:
        assert isinstance(container, av.container.InputContainer)
        assert len(list(container.decode(video=0))) == 18
    assert (facts.frames, facts.frames_are, facts.duration_s) == (18, "stated", 0.75)


@pytest.mark.parametrize(("container", "sound"), [("matroska", "libopus"), ("webm", "libopus")])
@pytest.mark.parametrize("frames", [4, 48])
def test_matroska_streams_have_separate_durations(container: str, sound: str, frames: int) -> None:
    video = "libx264" if container == "matroska" else "libvpx-vp9"
    facts = video_facts(a_media_file(container, video=video, audio=sound, times=range(frames)))

    assert facts.audio is not None
    assert facts.frames == frames
    assert facts.duration_s == pytest.approx(frames / 24, abs=0.002)
    assert facts.audio.duration_s == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("matroska", "libopus"), ("avi", "libmp3lame")])
def test_video_facts_include_audio_facts(container: str, codec: str) -> None:
    facts = video_facts(a_media_file(container, video="mpeg4", audio=codec))

    assert facts.has_audio
    assert facts.audio is not None
    assert (facts.audio.channels, facts.audio.rate_hz) == (2, 48_000)
    assert facts.audio.codec in codec + " mp3"


def test_fps_of_variable_frame_rate_is_average() -> None:
    facts = video_facts(a_media_file("mp4", video="mpeg4", times=[0, 1, 4, 9, 16, 25, 36, 47]))

    assert (facts.frames, facts.frames_are) == (8, "stated")
    assert facts.fps == pytest.approx(8 / (facts.duration_s or 0), rel=0.01)
    assert facts.duration_s == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("container", ["mp4", "mov", "matroska"])
@pytest.mark.parametrize(
    ("counterclockwise", "clockwise", "display_size"), [(90, 270, (48, 64)), (-90, 90, (48, 64)), (180, 180, (64, 48))]
)
def test_rotation_is_clockwise_and_swaps_display_size(
    container: str, counterclockwise: int, clockwise: int, display_size: tuple[int, int]
) -> None:
    facts = video_facts(a_media_file(container, video="libx264", rotation=counterclockwise))

    assert facts.rotation == clockwise
    assert (facts.width, facts.height) == (64, 48)
    assert (facts.display_width, facts.display_height) == display_size


@pytest.mark.parametrize("container", ["mp4", "mov", "matroska", "mpegts"])
def test_duration_of_late_stream_is_that_of_its_frames(container: str) -> None:
    facts = video_facts(a_media_file(container, video="libx264", times=range(120, 168)))

    assert facts.duration_s == pytest.approx(2, abs=0.05)
    assert facts.frames == pytest.approx(48, abs=1)


def test_mp3_with_cover_art_is_audio() -> None:
    sound = a_media_file("mp3", audio="libmp3lame", options={"id3v2_version": "0"})

    assert audio_facts(add_cover_art(sound)).codec == "mp3"


def test_audio_only_mp4_is_audio_even_if_sniffed_as_video() -> None:
    sound = a_media_file("mp4", audio="aac")

    facts = probe_media(ByteRangeFile.from_bytes(sound), SniffedContent("video", "mp4"))
    assert isinstance(facts, AudioFacts)
    assert facts.format == "mp4"


def test_video_truncated_after_table_of_contents_has_facts() -> None:
    video = a_media_file("mp4", video="libx264", times=range(48))
    at = video.index(b"mdat") - 4
    video = video[:at] + video[video.index(b"moov") - 4 :] + video[at : at + 60]

    facts = video_facts(video)
    assert (facts.width, facts.frames, facts.frames_are) == (64, 48, "stated")
    assert facts.rotation is None, "no frame is there to tell it"


@pytest.mark.parametrize("container", ["mp4", "matroska", "avi", "webm"])
def test_video_truncated_in_header_is_unreadable(container: str) -> None:
    video = a_media_file(container, video="libvpx-vp9" if container == "webm" else "mpeg4")

    assert isinstance(facts_of(video[:64]), Unreadable)


@pytest.mark.parametrize("form", sorted(DEMUXERS))
def test_garbage_is_unreadable_and_ffmpeg_prints_nothing(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    garbage = bytes((7 * n * n + n) % 251 for n in range(5000))

    facts = probe_media(ByteRangeFile.from_bytes(garbage), SniffedContent("video", form))
    assert isinstance(facts, Unreadable) or form in {"mpeg", "mp3", "mp2"}
    assert capfd.readouterr() == ("", "")


def test_unsupported_video_format_is_unreadable() -> None:
    assert probe_media(ByteRangeFile.from_bytes(b"?"), SniffedContent("video", "hologram")) == Unreadable(
        reason="wdsctl cannot read hologram"
    )


def test_tags_of_invalid_encoding_are_ignored() -> None:
    sound = a_media_file("mp3", audio="libmp3lame")
    tag = b"TIT2\0\0\0\x05\0\0\x03\xff\xfe\xfd\xfc"
    at = 10
    size = int.from_bytes(sound[6:10], "big") + len(tag)
    assert max(size.to_bytes(4, "big")) < 0x80

    assert audio_facts(sound[:6] + size.to_bytes(4, "big") + tag + sound[at:]).codec == "mp3"


class CountingStorage(LocalStorage):
    """Counts the bytes that are read."""

    def __init__(self) -> None:
        super().__init__("/")
        self.read_bytes = 0

    def read(self, path: str, offset: int, size: int) -> bytes:
        self.read_bytes += size
        return super().read(path, offset, size)


@pytest.fixture
def large_video(tmp_path: Path) -> tuple[str, int]:
    """Half a GiB of video with the table of contents at its end, in a shard with other data before and after it."""
    before, behind = insert_gap(a_media_file("mp4", video="libx264", audio="aac"), HALF_A_GIB)
    path = tmp_path / "large.tar"
    with path.open("wb") as file:
        file.write(bytes(512) + before)
        file.seek(512 + len(before) + HALF_A_GIB - 8)
        file.write(behind + bytes(1024))
    return str(path), len(before) + HALF_A_GIB - 8 + len(behind)


def test_probe_of_large_video_reads_less_than_one_percent(large_video: tuple[str, int]) -> None:
    path, size = large_video
    storage = CountingStorage()

    facts = probe_media(ByteRangeFile.from_storage(storage, path, 512, size), SniffedContent("video", "mp4"))
    storage.close()
    assert isinstance(facts, VideoFacts)
    assert (facts.frames, facts.has_audio) == (8, True)
    assert 0 < storage.read_bytes < size / 100


def test_probe_of_distant_header_stops_at_read_limit(large_video: tuple[str, int]) -> None:
    path, size = large_video
    storage = CountingStorage()
    part = ByteRangeFile(lambda at, length: storage.read(path, 512 + at, length), size, max_read_bytes=PAGE_BYTES)

    facts = probe_media(part, SniffedContent("video", "mp4"))
    storage.close()
    assert facts == Unreadable(reason="its header is longer than 262,144 bytes, the limit")
    assert storage.read_bytes <= PAGE_BYTES


def test_unreadable_shard_raises_storage_error(large_video: tuple[str, int], capfd: pytest.CaptureFixture[str]) -> None:
    path, size = large_video
    with Path(path).open("r+b") as file:
        file.truncate(1 << 20)
    storage = LocalStorage("/")

    with pytest.raises(StorageError):
        probe_media(ByteRangeFile.from_storage(storage, path, 512, size), SniffedContent("video", "mp4"))
    storage.close()
    assert capfd.readouterr() == ("", "")


FILES = {
    "mp4": a_media_file("mp4", video="libx264", audio="aac"),
    "matroska": a_media_file("matroska", video="libx264", audio="libopus"),
    "avi": a_media_file("avi", video="mpeg4"),
    "mpegts": a_media_file("mpegts", video="libx264"),
    "flv": a_media_file("flv", video="flv"),
    "ogg": a_media_file("ogg", audio="libopus"),
    "mp3": add_cover_art(a_media_file("mp3", audio="libmp3lame")),
    "flac": a_media_file("flac", audio="flac"),
    "wav": a_wav(),
}


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_probe_media_never_raises_for_damaged_file(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(sorted(FILES)))
    video = bytearray(FILES[form])
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(video) - 1), st.integers(0, 255)), max_size=20)):
        video[at] = byte
    cut = data.draw(st.integers(1, len(video)))

    facts = probe_media(ByteRangeFile.from_bytes(bytes(video[:cut])), SniffedContent("video", form))
    assert isinstance(facts, AudioFacts | VideoFacts | Unreadable)
