"""Files and addresses that media refer to are neither read nor connected to."""

from __future__ import annotations

import ast
import io
import socket
import struct
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import pytest

from tests import sources
from wdsctl.core.convert.parts import AudioTranscodeOptions, ImageTranscodeOptions
from wdsctl.core.convert.transcode import AUDIO_ERRORS, IMAGE_ERRORS, transcode_audio, transcode_image
from wdsctl.core.errors import SampleFailed
from wdsctl.core.media import image, thumbnail
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.decode_check import check_image_decodes, check_stream_decodes
from wdsctl.core.media.facts import Unreadable
from wdsctl.core.media.kinds import PILLOW_FORMATS
from wdsctl.core.media.stream import CONTAINER_OPTIONS, DEMUXERS
from wdsctl.loader.decoding import pillow
from wdsctl.loader.decoding.av.decoder import AVDecoder, MediaPartDecoder


def _wav() -> bytes:
    target = io.BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\1\2" * 8000)
    return target.getvalue()


def _box(kind: bytes, *children: bytes) -> bytes:
    body = b"".join(children)
    return struct.pack(">I", 8 + len(body)) + kind + body


def _mp4_with_reference(name: str) -> bytes:
    """Return an MP4 whose samples are in another file, by a `url ` and an `alis` entry as QuickTime writes them."""
    location = name.encode()
    alias = struct.pack(">I2sH", 0, b"\0\0", 2) + bytes(142) + struct.pack(">hh", 0, 0) + bytes(16)
    alias += struct.pack(">hh", 2, len(location)) + location + bytes(len(location) % 2) + struct.pack(">h", -1)
    entries = [_box(b"url ", bytes(4), location + b"\0"), _box(b"alis", bytes(4), alias)]
    sound = bytes(6) + struct.pack(">H", 1) + bytes(8) + struct.pack(">HHI", 1, 16, 0) + struct.pack(">I", 8000 << 16)
    table = [
        _box(b"stsd", bytes(4), struct.pack(">I", 1), _box(b"sowt", sound)),
        _box(b"stts", bytes(4), struct.pack(">III", 1, 8000, 1)),
        _box(b"stsc", bytes(4), struct.pack(">IIII", 1, 1, 8000, 1)),
        _box(b"stsz", bytes(4), struct.pack(">II", 2, 8000)),
        _box(b"stco", bytes(4), struct.pack(">II", 1, 44)),
    ]
    references = _box(b"dinf", _box(b"dref", bytes(4), struct.pack(">I", len(entries)), *entries))
    header = bytes(12) + struct.pack(">IIII", 8000, 8000, 0x55C40000, 0)
    media = _box(
        b"mdia",
        _box(b"mdhd", header[4:]),
        _box(b"hdlr", bytes(8), b"soun", bytes(13)),
        _box(b"minf", _box(b"smhd", bytes(8)), references, _box(b"stbl", *table)),
    )
    track = _box(b"tkhd", struct.pack(">I", 7), bytes(8), struct.pack(">I", 1), bytes(68))
    return _box(b"ftyp", b"qt  ", bytes(4)) + _box(
        b"moov", _box(b"mvhd", bytes(12), struct.pack(">II", 8000, 8000), bytes(80)), _box(b"trak", track, media)
    )


def _playlist(name: str) -> bytes:
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{name}\n#EXT-X-ENDLIST\n".encode()


def _svg(name: str) -> bytes:
    link = f'<image xlink:href="{name}" width="1" height="1"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{link}</svg>'.encode()


ATTACKS: dict[str, Callable[[str], bytes]] = {
    "concat": lambda name: f"ffconcat version 1.0\nfile '{name}'\n".encode(),
    "hls": _playlist,
    "dash": lambda name: f'<?xml version="1.0"?><MPD><BaseURL>{name}</BaseURL></MPD>'.encode(),
    "asx": lambda name: f'<asx version="3.0"><entry><ref href="{name}"/></entry></asx>'.encode(),
    "sdp": lambda name: f"v=0\no=- 0 0 IN IP4 {name}\nc=IN IP4 127.0.0.1\nm=audio 1 RTP/AVP 0\n".encode(),
    "mp4": _mp4_with_reference,
    "svg": _svg,
    "eps": lambda name: f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n({name}) run\n".encode(),
    "text": lambda name: name.encode(),
}


@contextmanager
def _serve_address() -> Iterator[tuple[str, Callable[[], bool]]]:
    """Yield an address, and a function that says whether a client has connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def was_connected() -> bool:
            try:
                server.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        yield f"http://127.0.0.1:{server.getsockname()[1]}/sound.wav", was_connected


@pytest.fixture(params=["relative", "absolute", "file", "http", "concat", "data"])
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "sound.wav").write_bytes(_wav())
    monkeypatch.chdir(tmp_path)
    with _serve_address() as (address, was_connected):
        path = tmp_path / "sound.wav"
        yield {
            "relative": "sound.wav",
            "absolute": str(path),
            "file": f"file://{path}",
            "http": address,
            "concat": f"concat:{path}|{path}",
            "data": "data:audio/wav;base64,UklGRg==",
        }[request.param]
        assert not was_connected()


@pytest.mark.parametrize("attack", ATTACKS)
def test_readers_do_not_open_files_referenced_by_media(name: str, attack: str) -> None:
    data = ATTACKS[attack](name)

    with pytest.raises(AUDIO_ERRORS):
        transcode_audio("a.wav", data, AudioTranscodeOptions("wav"))
    with pytest.raises(IMAGE_ERRORS):
        transcode_image("a.png", data, ImageTranscodeOptions("png"))
    with pytest.raises(SampleFailed):
        AVDecoder(data).get_audio()
    container = _open_with_pyav(data)
    assert container is None or sum(frame.samples for frame in container.decode(audio=0)) == 0
    assert check_image_decodes(data).outcome == "broken"
    for form in DEMUXERS:
        assert check_stream_decodes(ByteRangeFile.from_bytes(data), form).outcome != "sound"
        assert isinstance(thumbnail.make_thumbnail(ByteRangeFile.from_bytes(data), "video", form, 8, 8), Unreadable)
    for form in image.PILLOW_READERS:
        assert isinstance(thumbnail.make_thumbnail(ByteRangeFile.from_bytes(data), "image", form, 8, 8), Unreadable)


def _open_with_pyav(data: bytes) -> Any:
    try:
        return MediaPartDecoder("wav", "pyav", video_decode_audio=True, max_pixels=1000)(data)
    except SampleFailed:
        return None


def test_plain_pyav_follows_concat_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sound.wav").write_bytes(_wav())
    monkeypatch.chdir(tmp_path)
    data = ATTACKS["concat"]("sound.wav")

    with av.open(io.BytesIO(data), "r") as container:
        assert sum(frame.samples for frame in container.decode(audio=0)) == 8000


def _keyword_value(call: ast.Call, keyword: str) -> str:
    return next((ast.unparse(each.value) for each in call.keywords if each.arg == keyword), "")


def test_av_open_calls_use_format_list_and_no_protocols() -> None:
    calls = [
        (path, call)
        for path, call, name in sources.calls("av.open", "av.container.open")
        if name in ("av.open", "av.container.open")
    ]
    readers = [(path, call) for path, call in calls if ast.unparse(call.args[1]) != "'w'"]

    assert len(readers) >= 4
    assert [path for path, call in readers if _keyword_value(call, "container_options") != "CONTAINER_OPTIONS"] == []
    assert CONTAINER_OPTIONS["protocol_whitelist"] == "none"
    forbidden = {"hls", "concat", "dash", "sdp", "rtsp", "asx", "image2", "lavfi", "tty", "vobsub", "imf", "applehttp"}
    assert not forbidden & set(CONTAINER_OPTIONS["format_whitelist"].split(","))


def test_image_open_calls_use_safe_formats() -> None:
    calls = [
        (path, call) for path, call, name in sources.calls("Image.open") if name in ("Image.open", "PIL.Image.open")
    ]

    assert len(calls) >= 4
    assert [path for path, call in calls if not _keyword_value(call, "formats")] == []
    accepted = {*PILLOW_FORMATS, *pillow.COMMON_FORMATS, *image.pillow_formats()}
    accepted |= {form for _, form in image.PILLOW_READERS.values()}
    assert not accepted & {"EPS", "WMF", "FPX", "MIC", "GBR", "PDF", "SVG", "HDF5", "GRIB", "BUFR", "IM", "FITS"}


def test_image_open_table_is_used_in_one_module_only() -> None:
    files = {
        module
        for module in sources.modules_with("Image.OPEN")
        for node in ast.walk(sources.tree(module))
        if isinstance(node, ast.Subscript) and sources.dotted_name(node.value) == "Image.OPEN"
    }

    assert files == {"core/media/image.py"}
