from __future__ import annotations

import subprocess
import sys

import pytest

from tests.core.media_files import a_wav
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import AudioFacts, Unreadable
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import SniffedContent, sniff

IMPORT_SCRIPT = """
import sys
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import SniffedContent
probe_media(ByteRangeFile.from_bytes(b"nothing much"), SniffedContent({kind!r}, {form!r}))
print(*sorted({{"av", "PIL", "torch", "numpy"}} & set(sys.modules)))
"""


def test_probe_media_of_text_is_unreadable() -> None:
    assert probe_media(ByteRangeFile.from_bytes(b"words"), sniff(b"words")) == Unreadable(
        reason="text is not an image, audio or video"
    )


def test_probe_media_by_range_equals_probe_of_whole_file() -> None:
    sound = a_wav()
    part = ByteRangeFile(lambda at, size: sound[at : at + size], len(sound), head=sound[:100])

    facts = probe_media(part, sniff(part.head, part.size))
    assert isinstance(facts, AudioFacts)
    assert facts == probe_media(ByteRangeFile.from_bytes(sound), sniff(sound))


@pytest.mark.parametrize(
    ("kind", "form", "expected_modules"), [("text", "utf-8", ""), ("image", "png", "PIL"), ("image", "jxl", "PIL")]
)
def test_probe_media_imports_pillow_only_for_images(kind: str, form: str, expected_modules: str) -> None:
    program = IMPORT_SCRIPT.format(kind=kind, form=form)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.split() == expected_modules.split()


def test_probe_media_imports_only_pyav_for_audio() -> None:
    program = IMPORT_SCRIPT.format(kind="audio", form="wav")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert "av" in done.stdout.split()
    assert "PIL" not in done.stdout.split()


def test_probe_media_trusts_given_content_type() -> None:
    facts = probe_media(ByteRangeFile.from_bytes(a_wav()), SniffedContent("video", "mp4"))

    assert facts == Unreadable(reason="FFmpeg cannot read it as mp4: invalid data found when processing input")
