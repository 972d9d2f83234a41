from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.media.catalog_facts import MediaMeasures, facts_from_columns, facts_to_columns
from wdsctl.core.media.facts import AudioFacts, ImageFacts, MediumFacts, Unreadable, VideoFacts

whole = st.integers(1, 1 << 40)
seconds = st.none() | st.floats(0.001, 1e6)
origins: st.SearchStrategy[Literal["stated", "estimated", "unknown"]] = st.sampled_from(
    ["stated", "estimated", "unknown"]
)


@st.composite
def images(draw: st.DrawFn) -> ImageFacts:
    width, height, orientation = draw(whole), draw(whole), draw(st.integers(1, 8))
    display_size = (height, width) if orientation >= 5 else (width, height)
    return ImageFacts(
        format=draw(st.sampled_from(["JPEG", "PNG"])),
        mode=draw(st.sampled_from(["RGB", "I;16"])),
        width=width,
        height=height,
        display_width=display_size[0],
        display_height=display_size[1],
        orientation=orientation,
    )


def audios(form: str) -> st.SearchStrategy[AudioFacts]:
    return st.builds(
        AudioFacts,
        format=st.just(form),
        codec=st.sampled_from(["aac", "opus"]),
        channels=st.integers(1, 8),
        rate_hz=st.integers(1, 192_000),
        duration_s=seconds,
        samples=st.none() | whole,
        samples_are=origins,
    )


@st.composite
def videos(draw: st.DrawFn) -> VideoFacts:
    width, height, rotation = draw(whole), draw(whole), draw(st.sampled_from([None, 0, 90, 180, 270]))
    display_size = (height, width) if rotation in (90, 270) else (width, height)
    ratio = draw(st.none() | st.tuples(st.integers(1, 60_000), st.integers(1, 1001)))
    sound = draw(st.none() | audios("mp4"))
    return VideoFacts(
        format="mp4",
        codec="h264",
        width=width,
        height=height,
        display_width=display_size[0],
        display_height=display_size[1],
        rotation=rotation,
        duration_s=draw(seconds),
        fps=ratio[0] / ratio[1] if ratio else None,
        fps_ratio=ratio,
        frames=draw(st.none() | whole),
        frames_are=draw(origins),
        has_audio=sound is not None or draw(st.booleans()),
        audio=sound,
    )


@given(st.one_of(images(), audios("wav"), videos(), st.builds(Unreadable, reason=st.text())))
def test_media_facts_round_trip_through_columns(facts: MediumFacts | Unreadable) -> None:
    assert facts_from_columns(*facts_to_columns(facts)) == facts


def test_facts_to_columns_drops_count_beyond_64_bits() -> None:
    absurd = AudioFacts(
        format="wav",
        codec="pcm_s16le",
        channels=1,
        rate_hz=8000,
        duration_s=1.0,
        samples=1 << 63,
        samples_are="estimated",
    )
    assert facts_to_columns(absurd)[1] == MediaMeasures(seconds=1.0)
