from __future__ import annotations

from dataclasses import replace

import pytest

from wdsctl.core.media.facts import AudioFacts, ImageFacts, VideoFacts, describe_facts

AUDIO = AudioFacts(
    format="mp4",
    codec="aac",
    channels=2,
    rate_hz=48_000,
    duration_s=12.31,
    samples=590_880,
    samples_are="estimated",
)
VIDEO = VideoFacts(
    format="mp4",
    codec="h264",
    width=1280,
    height=720,
    display_width=1280,
    display_height=720,
    rotation=0,
    duration_s=12.31,
    fps=30_000 / 1001,
    fps_ratio=(30_000, 1001),
    frames=369,
    frames_are="stated",
    has_audio=True,
    audio=AUDIO,
)
IMAGE = ImageFacts(
    format="JPEG", mode="RGB", width=640, height=480, display_width=640, display_height=480, orientation=1
)


def test_describe_facts_of_video_has_size_codec_rate_duration_and_audio() -> None:
    assert describe_facts(VIDEO) == "1280x720 h264 29.97 fps 12.3 s, sound: aac 2 ch 48 kHz"


def test_describe_facts_of_video_mentions_missing_audio_and_rotation() -> None:
    assert (
        describe_facts(replace(VIDEO, audio=None, has_audio=False, fps=25.0)) == "1280x720 h264 25 fps 12.3 s, no sound"
    )
    assert describe_facts(replace(VIDEO, audio=None)).endswith(", audio: unknown codec")
    assert describe_facts(replace(VIDEO, rotation=90)) == (
        "1280x720 h264 29.97 fps 12.3 s, rotated by 90, sound: aac 2 ch 48 kHz"
    )


def test_describe_facts_omits_unknown_values() -> None:
    video = replace(VIDEO, fps=None, duration_s=None, audio=None, has_audio=False, rotation=None)

    assert describe_facts(video) == "1280x720 h264, no sound"


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.04, "0.04 s"), (0.948, "0.95 s"), (3.2, "3.2 s"), (7200, "7,200.0 s")]
)
def test_describe_facts_of_audio_has_codec_channels_rate_and_duration(seconds: float, expected: str) -> None:
    assert describe_facts(replace(AUDIO, rate_hz=44_100, duration_s=seconds)) == f"aac 2 ch 44.1 kHz {expected}"


def test_describe_facts_of_image_has_size_format_and_mode() -> None:
    assert describe_facts(IMAGE) == "640x480 JPEG RGB"
    assert describe_facts(replace(IMAGE, orientation=6)) == "640x480 JPEG RGB, EXIF orientation 6"
