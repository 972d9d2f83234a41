from __future__ import annotations

import subprocess
import sys

import pytest

from tests.core.films import a_wav
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import AudioFacts, Unreadable
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import SniffedContent, sniff

IMPORTED = """
import sys
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import SniffedContent
probe_media(ByteRangeFile.from_bytes(b"nothing much"), SniffedContent({kind!r}, {form!r}))
print(*sorted({{"av", "PIL", "torch", "numpy"}} & set(sys.modules)))
"""


def test_what_is_no_medium_is_said_to_be_none() -> None:
    assert probe_media(ByteRangeFile.from_bytes(b"words"), sniff(b"words")) == Unreadable(
        reason="text is not an image, audio or video"
    )


def test_a_head_and_the_rest_by_range_give_what_the_whole_gives() -> None:
    sound = a_wav()
    part = ByteRangeFile(lambda at, size: sound[at : at + size], len(sound), head=sound[:100])

    facts = probe_media(part, sniff(part.head, part.size))
    assert isinstance(facts, AudioFacts)
    assert facts == probe_media(ByteRangeFile.from_bytes(sound), sniff(sound))


@pytest.mark.parametrize(
    ("kind", "form", "imported"), [("text", "utf-8", ""), ("image", "png", "PIL"), ("image", "jxl", "PIL")]
)
def test_pyav_and_pillow_are_imported_when_there_is_something_for_them(kind: str, form: str, imported: str) -> None:
    program = IMPORTED.format(kind=kind, form=form)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.split() == imported.split()


def test_pyav_is_imported_for_a_sound() -> None:
    program = IMPORTED.format(kind="audio", form="wav")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert "av" in done.stdout.split()
    assert "PIL" not in done.stdout.split()


def test_content_is_what_the_caller_says() -> None:
    facts = probe_media(ByteRangeFile.from_bytes(a_wav()), SniffedContent("video", "mp4"))

    assert facts == Unreadable(reason="FFmpeg cannot read it as mp4: invalid data found when processing input")
