"""AVDecoder: what it reads and when, open files, pickling, threads, and metadata."""

from __future__ import annotations

import io
import pickle
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from tests.loader.decoding.av.media import decode_frames, make_audio, make_video, pixels_of, samples
from tests.open_files import open_files
from wdsctl.core.errors import SampleFailed, StorageError, UsageError
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.loader.decoding.av import AVDecoder, AVMetadata, get_single_frames_uniform
from wdsctl.loader.samples.lazy_part import LazyPart

MP4 = make_video("mp4", "libx264", b_frames=3, audio="aac")
WAV = make_audio("wav", "pcm_s16le")


def test_decoder_reads_bytes_paths_files_and_lazy_parts_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(MP4)
    shard = tmp_path / "a.tar"
    shard.write_bytes(bytes(1536) + MP4 + bytes(999))
    part = LazyPart(str(shard), 1536, len(MP4), LocalStorage("/"))

    with open(path, "rb") as file:
        streams = [MP4, bytearray(MP4), io.BytesIO(MP4), path, str(path), file, part]
        clips = [AVDecoder(stream).get_video_clips([(1, 1.5)])[0][0] for stream in streams]
        assert not file.closed

    assert all(torch.equal(clip, clips[0]) for clip in clips)
    assert np.array_equal(pixels_of(clips[0])[0], decode_frames(MP4)[24].pixels)


@pytest.mark.parametrize("stream", [12, None, io.StringIO("text")])
def test_constructor_refuses_unreadable_sources(stream: object) -> None:
    with pytest.raises(UsageError):
        AVDecoder(stream)


def test_constructor_reads_nothing(tmp_path: Path) -> None:
    decoder = AVDecoder(str(tmp_path / "missing.mp4"))

    assert "missing.mp4" in repr(decoder)
    with pytest.raises(StorageError):
        decoder.get_video()


def test_frames_are_uint8_and_channels_last_in_memory() -> None:
    (clip,) = AVDecoder(MP4).get_video().video_clips

    assert (clip.dtype, clip.shape) == (torch.uint8, (60, 3, 48, 64))
    assert clip.is_contiguous(memory_format=torch.channels_last)


def test_video_out_frame_size_scales_frames_like_bilinear_ffmpeg() -> None:
    (clip,), _ = AVDecoder(MP4).get_video_clips([(5, 9)], "frames", video_out_frame_size=(30, 20))

    with av.open(io.BytesIO(MP4), "r") as container:
        frames = list(container.decode(video=0))[5:10]
    scaled = [frame.reformat(30, 20, "rgb24", interpolation="BILINEAR").to_ndarray() for frame in frames]
    assert clip.shape == (5, 3, 20, 30)
    assert np.array_equal(pixels_of(clip), scaled)


def test_rotated_videos_are_upright_and_scaled_to_display_size() -> None:
    rotated = make_video("mp4", "libx264", rotation=90)

    upright, stored = AVDecoder(rotated), AVDecoder(rotated, rotate=False)

    assert upright.get_video().video_clips[0].shape == (60, 3, 64, 48)
    assert stored.get_video().video_clips[0].shape == (60, 3, 48, 64)
    expected = np.rot90(pixels_of(stored.get_video().video_clips[0]), axes=(1, 2))
    assert np.array_equal(pixels_of(upright.get_video().video_clips[0]), expected)
    (clip,), _ = upright.get_video_clips([(0, 0)], video_out_frame_size=(30, 20))
    assert clip.shape == (1, 3, 20, 30)
    size = upright.get_metadata()
    assert (size.video_width, size.video_height) == (48, 64)


def test_get_clips_returns_video_and_audio_clips() -> None:
    decoder = AVDecoder(MP4)

    data = decoder.get_clips([(0, 0.5), (2, 2.1)], [(1, 1.25)])
    assert [len(clip) for clip in data.video_clips] == [13, 3]
    assert [clip.shape for clip in data.audio_clips] == [(2, 12_000)]
    assert data.audio_timestamps == [(1.0, 1.25)]
    assert np.array_equal(data.audio_clips[0].numpy(), samples(MP4)[:, 48_000:60_000])
    both = decoder.get_video_with_audio()
    assert (both.video_clips[0].shape[0], both.audio_clips[0].shape) == (60, samples(MP4).shape)
    assert decoder.get_frames().audio_clips == []
    assert len(decoder.get_frames(video_decode_audio=True).audio_clips) == 1
    assert len(AVDecoder(WAV).get_frames().audio_clips) == 1
    empty = decoder.get_clips()
    assert (empty.video_clips, empty.audio_clips) == ([], [])


@pytest.mark.parametrize(
    ("container", "video", "audio", "start"),
    [
        ("mp4", "libx264", "aac", 0),
        ("matroska", "libx264", "libopus", 120),
        ("webm", "libvpx-vp9", "libopus", 0),
        ("mpeg", "mpeg2video", "mp2", 0),
    ],
)
def test_metadata_matches_file(container: str, video: str, audio: str, start: int) -> None:
    decoder = AVDecoder(
        make_video(container, video, audio=audio, start=start, options={} if video == "libx264" else None)
    )

    facts = decoder.get_metadata(get_audio_num_samples=True)

    assert facts.video_duration == pytest.approx(2.5, abs=0.002)
    assert facts.audio_duration == pytest.approx(2.5, abs=0.03)
    assert (facts.video_num_frames, facts.video_fps) == (60, 24.0)
    assert (facts.video_width, facts.video_height, facts.audio_channels, facts.audio_sample_rate) == (64, 48, 2, 48_000)
    assert facts.audio_num_samples == pytest.approx(120_000, abs=1024)
    assert decoder.get_video_duration() == (facts.video_duration, None)
    assert decoder.get_video_duration(get_frame_count=True) == (facts.video_duration, 60)
    assert (decoder.get_video_fps(), decoder.get_audio_samples_per_second()) == (24.0, 48_000)
    assert decoder.get_audio_duration() == facts.audio_duration
    assert (decoder.has_video_stream(), decoder.has_audio_stream()) == (True, True)


def test_duration_of_video_without_index_is_computed_from_frames() -> None:
    flv = AVDecoder(make_video("flv", "libx264"))

    assert flv.get_metadata().video_duration == pytest.approx(2.5, abs=0.002)
    assert len(get_single_frames_uniform(flv, 5)) == 5
    broadcast = AVDecoder(make_video("mpegts", "libx264", b_frames=2, times=range(120), start=240))
    assert broadcast.get_metadata().video_duration == pytest.approx(5, abs=0.002)


def test_metadata_of_audio_has_no_video_fields() -> None:
    decoder = AVDecoder(WAV)

    assert decoder.get_metadata() == AVMetadata(audio_duration=2.5, audio_channels=2, audio_sample_rate=44_100)
    assert (decoder.has_video_stream(), decoder.has_audio_stream()) == (False, True)


@pytest.mark.parametrize("codec", ["mp3", "adts", "ogg"])
def test_duration_of_audio_without_index_is_counted(codec: str) -> None:
    data = make_audio(codec, {"mp3": "libmp3lame", "adts": "aac", "ogg": "vorbis"}[codec], rate=44_100)

    length = AVDecoder(data).get_audio_duration()

    assert length == pytest.approx(samples(data).shape[1] / 44_100, abs=0.01)


def test_decoder_pickles_with_options_and_without_open_files(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(bytes(512) + MP4)
    part = LazyPart(str(tmp_path / "a.tar"), 512, len(MP4), LocalStorage("/"), shard_size=512 + len(MP4))
    for stream in (MP4, part):
        decoder = AVDecoder(stream, part="mp4", audio_channels=1)
        decoder.get_video_clips([(3, 4)], "frames")

        for other in (pickle.loads(pickle.dumps(decoder)), deepcopy(decoder)):  # noqa: S301 - our own
            assert torch.equal(other.get_video().video_clips[0], decoder.get_video().video_clips[0])
            assert other.get_audio().audio_clips[0].shape[0] == 1


def test_decoder_of_open_file_refuses_pickling(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(MP4)
    with open(tmp_path / "a.mp4", "rb") as file, pytest.raises(UsageError, match="cannot pickle"):
        pickle.dumps(AVDecoder(file))


def test_calls_leave_no_file_open_on_success_or_failure(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(MP4)
    (tmp_path / "bad.mp4").write_bytes(MP4[: len(MP4) - 4000])
    part = pickle.loads(pickle.dumps(LazyPart(str(tmp_path / "a.mp4"), 0, len(MP4), LocalStorage("/"))))  # noqa: S301 - our own
    decoders = [AVDecoder(tmp_path / "a.mp4"), AVDecoder(part)]
    before = open_files(str(tmp_path))

    for decoder in decoders:
        decoder.get_clips([(0, 1)], [(0, 1)])
        decoder.get_metadata()
    with pytest.raises(SampleFailed):
        AVDecoder(tmp_path / "bad.mp4").get_video()

    assert open_files(str(tmp_path)) == before


def test_decoder_is_usable_from_many_threads() -> None:
    decoder = AVDecoder(MP4)
    clips: dict[int, Any] = {}

    def read_clip(number: int) -> None:
        clips[number] = decoder.get_clips([(number, number + 3)], [(0.1, 0.2)], video_unit="frames").video_clips[0]

    threads = [threading.Thread(target=read_clip, args=(number,)) for number in range(0, 48, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for number, clip in clips.items():
        expected = [frame.pixels for frame in decode_frames(MP4)[number : number + 4]]
        assert np.array_equal(pixels_of(clip), expected)
    assert len(clips) == 12


def test_ffmpeg_thread_count_does_not_change_frames() -> None:
    one, several = (AVDecoder(MP4, threads=threads).get_video_clips([(7, 40)], "frames")[0][0] for threads in (1, 3))

    assert torch.equal(one, several)


@pytest.mark.parametrize(
    "ranges", [[(2, 1)], [(-1, 1)], [(float("nan"), 1)], [(float("inf"), float("inf"))], [3], "no", [(1, 2, 3)]]
)
def test_get_clips_refuses_invalid_ranges(ranges: Any) -> None:
    for call in (AVDecoder(MP4).get_video_clips, AVDecoder(MP4).get_audio_clips):
        with pytest.raises(UsageError):
            call(ranges)


def test_decoder_refuses_unknown_units_sizes_and_options() -> None:
    decoder = AVDecoder(MP4)

    with pytest.raises(UsageError, match="video_unit"):
        decoder.get_video_clips([(0, 1)], "minutes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="audio_unit"):
        decoder.get_audio_clips([(0, 1)], "frames")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="video_out_frame_size"):
        decoder.get_video_clips([(0, 1)], video_out_frame_size=(0, 4))
    with pytest.raises(UsageError, match="no option colour"):
        decoder.using(colour="grey")
    with pytest.raises(UsageError):
        decoder.using(threads=-1)


def test_failing_storage_raises_storage_error_not_sample_failed(tmp_path: Path) -> None:
    class FailingStorage(LocalStorage):
        reads = 0

        def read(self, path: str, offset: int, size: int) -> bytes:
            self.reads += 1
            if self.reads > 1:
                raise StorageError("the disk is gone", where=path, hint="look for it")
            return super().read(path, offset, size)

    (tmp_path / "a.tar").write_bytes(MP4)
    decoder = AVDecoder(LazyPart(str(tmp_path / "a.tar"), 0, len(MP4), FailingStorage("/")))

    with pytest.raises(StorageError, match="the disk is gone"):
        decoder.get_video()
