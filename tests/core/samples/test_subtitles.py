from __future__ import annotations

import pytest

from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.subtitles import has_subtitle_extension, is_subtitles, read_subtitles, spoken_text

SRT = """\ufeff1\r
00:00:01,000 --> 00:00:02,500 X1:40 Y1:20\r
{\\an8}<i>Hello</i>,\r
world\r
\r
2\r
01:00:00,000 --> 01:00:01,040\r
a < b\r
"""

VTT = """WEBVTT - a film

STYLE
::cue { color: red }

NOTE hello

intro
00:01.000 --> 00:02.500 align:start
<v Ann><c.yellow>Hello</c>, <00:01.500>world

01:00:00.000 --> 01:00:01.040
a &lt; b

00:05.000 --> 00:06.000

"""

CUES = [{"start": 1.0, "end": 2.5, "text": "Hello, world"}, {"start": 3600.0, "end": 3601.04, "text": "a < b"}]


@pytest.mark.parametrize("text", [SRT, VTT])
def test_read_subtitles_returns_seconds_and_plain_text(text: str) -> None:
    assert is_subtitles(text)
    assert read_subtitles(text) == CUES
    assert spoken_text(read_subtitles(text)) == "Hello, world a < b"


@pytest.mark.parametrize("text", ["", "a --> b", "hello", "1\nhello", "12:00:00 lunch", "WEBVTTX"])
def test_is_subtitles_rejects_other_text(text: str) -> None:
    assert not is_subtitles(text)


def test_damaged_timing_is_refused_with_line_number() -> None:
    with pytest.raises(DatasetError, match="line 4 is no timing"):
        read_subtitles("WEBVTT\n00:01.000 --> 00:02.000\nhi\n00:0x --> 00:03.000\n")


def test_has_subtitle_extension_recognises_srt_and_vtt() -> None:
    assert [has_subtitle_extension(name) for name in ("srt", "en.VTT", "txt", "vtt.txt")] == [True, True, False, False]
