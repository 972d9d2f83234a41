from __future__ import annotations

import io
import json
import pickle
import random
import sys
from typing import Any

import numpy as np
import pytest
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.parts import decode_raw
from wdsctl.loader.runtime.failures import FatalSampleError

from .pictures import a_deep_png, a_jpeg, a_png, encoded, lying, pixels

DECODER = SampleDecoder("torchrgb8", av_decode=None)


def an_npy(value: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, value, allow_pickle=True)
    return stream.getvalue()


def an_npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def a_torch_file(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("part", "data", "value"),
    [
        ("txt", "größe".encode(), "größe"),
        ("en.caption", b"a cat", "a cat"),
        ("TXT", b"a cat", "a cat"),
        ("srt", b"1\n00:00", "1\n00:00"),
        ("json", b'{"a": [1]}', {"a": [1]}),
        ("meta.json", b"3", 3),
        ("jsonl", b'{"a": 1}\n\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ("cls", b"7\n", 7),
        ("id", b"-1", -1),
        ("pt", a_torch_file({"a": [1, 2]}), {"a": [1, 2]}),
        ("bin", b"\x01", b"\x01"),
    ],
)
def test_part_is_decoded_by_last_extension(part: str, data: bytes, value: Any) -> None:
    assert DECODER(part, data) == value


def test_npy_npz_and_torch_files_are_decoded() -> None:
    array = np.arange(6).reshape(2, 3)

    assert np.array_equal(DECODER("npy", an_npy(array)), array)
    assert np.array_equal(DECODER("npz", an_npz(a=array))["a"], array)
    assert torch.equal(DECODER("pth", a_torch_file(torch.arange(3))), torch.arange(3))


def test_default_image_is_channels_first_float_tensor() -> None:
    image = SampleDecoder()("jpg", a_jpeg(20, 30))

    assert (image.shape, image.dtype) == ((3, 20, 30), torch.float32)


def test_image_format_is_detected_by_content() -> None:
    assert torch.equal(DECODER("jpg", a_png()), DECODER("seg.png", a_png()))


class UnpicklingAlarm:
    """An object in a hostile dataset: fails the test when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the data was unpickled",))


@pytest.mark.parametrize("part", ["pkl", "pickle", "pyd"])
def test_pickles_stay_bytes(part: str) -> None:
    data = pickle.dumps(UnpicklingAlarm())

    assert DECODER(part, data) is data


@pytest.mark.parametrize(
    ("part", "data"), [("npy", an_npy(np.array([UnpicklingAlarm()]))), ("pth", a_torch_file(UnpicklingAlarm()))]
)
def test_files_that_need_unpickling_fail_sample(part: str, data: bytes) -> None:
    with pytest.raises(SampleFailed):
        DECODER(part, data)


def test_function_for_raw_part_is_decode_raw() -> None:
    assert DECODER.function_for("bin") is decode_raw
    assert SampleDecoder(av_decode=None).function_for("mp4") is decode_raw
    assert DECODER.function_for("txt") is not decode_raw


@pytest.mark.parametrize(
    ("part", "data", "cause"),
    [
        ("jpg", b"", ValueError),
        ("jpg", b"not an image", ValueError),
        ("jpg", a_jpeg(64, 64)[:-300], OSError),
        ("png", a_png()[:60], OSError),
        ("txt", b"\xff", UnicodeDecodeError),
        ("json", b"{", ValueError),
        ("json", b"[" * 100_000, ValueError),
        ("cls", b"cat", ValueError),
        ("npy", b"", ValueError),
        ("npz", b"PK", Exception),
        ("pt", b"\x80", Exception),
    ],
)
def test_bad_bytes_fail_sample_with_part_and_cause(part: str, data: bytes, cause: type[Exception]) -> None:
    with pytest.raises(SampleFailed) as raised:
        DECODER(part, data)

    error = raised.value
    assert (error.code, error.where) == ("WDS503", f"part '{part}'")
    assert f"cannot decode part '{part}': " in error.message
    assert "\n" not in error.message
    assert isinstance(error.__cause__, cause)


def test_image_over_max_pixels_fails_sample() -> None:
    with pytest.raises(SampleFailed, match="the limit is 100"):
        SampleDecoder("torchrgb8", max_pixels=100)("jpg", a_jpeg())


#: With all options that read more of a file.
ALL_OPTIONS = SampleDecoder("torchrgb16", exif_orientation=True, min_side=8)

SEEDS = {
    "jpg": a_jpeg(),
    "lying.jpg": lying(6),
    "png": a_png(),
    "deep.png": a_deep_png(np.arange(600, dtype=np.uint16).reshape(20, 10, 3) * 99),
    "gif": encoded(pixels(), "GIF"),
    "tif": encoded(pixels(), "TIFF"),
    "webp": encoded(pixels(), "WEBP"),
    "npy": an_npy(np.arange(9)),
    "npz": an_npz(a=np.arange(9)),
    "pt": a_torch_file({"a": torch.arange(9)}),
    "json": json.dumps({"a": [1, {"b": "c"}]}).encode(),
}


@pytest.mark.filterwarnings("ignore")  # Pillow warns of what it repairs
@pytest.mark.parametrize("part", SEEDS)
def test_fuzzed_bytes_raise_only_sample_failed(part: str) -> None:
    rng = random.Random(part)
    failed = 0

    for _ in range(200):
        data = bytearray(SEEDS[part])
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(min(len(data), rng.choice([64, 100_000])))] = rng.randrange(256)
        try:
            ALL_OPTIONS(part, bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]))
        except SampleFailed:
            failed += 1

    assert failed > 20


def test_guess_content_ignores_wrong_names() -> None:
    decoder = SampleDecoder("torchrgb8", guess_content=True, av_decode=None)

    assert torch.equal(decoder("bin", a_jpeg()), DECODER("jpg", a_jpeg()))
    assert np.array_equal(decoder("data", an_npy(np.arange(3))), np.arange(3))
    assert decoder("jpg", b"RIFF\x24\0\0\0WAVEfmt ") == b"RIFF\x24\0\0\0WAVEfmt "


def test_guess_content_still_decodes_text_by_name() -> None:
    decoder = SampleDecoder(guess_content=True)

    assert decoder("txt", b"12") == "12"
    assert decoder("bin", b"12") == b"12"
    assert decoder("json", b"12") == 12


def test_guess_content_decodes_parts_without_extension_by_their_field() -> None:
    decoder = SampleDecoder("torchrgb8", guess_content=True)

    assert decoder.function_for("prompt", kind="text")(b"hi") == "hi"
    assert decoder.function_for("class", kind="integer")(b"7") == 7
    assert decoder.function_for("txt", kind="integer")(b"7") == 7
    with pytest.raises(SampleFailed, match="not an image"):
        decoder.function_for("picture", kind="image")(b"hi")


def test_memory_for_is_none_except_for_tensor_images() -> None:
    assert SampleDecoder("torchrgb").memory_for("seg.png") is not None
    assert SampleDecoder("torchrgb").memory_for("txt") is None
    assert SampleDecoder("rgb8").memory_for("jpg") is None
    assert SampleDecoder(guess_content=True).memory_for("bin") is not None


def test_sample_decoder_refuses_unknown_image_decode() -> None:
    with pytest.raises(UsageError, match="image_decode='rgb12' is not supported") as raised:
        SampleDecoder("rgb12")

    assert "torchrgb8" in raised.value.hint


def test_sample_decoder_refuses_zero_max_pixels() -> None:
    with pytest.raises(UsageError, match="expected 1 or more"):
        SampleDecoder(max_pixels=0)


@pytest.mark.parametrize(
    "options", [{"max_bytes": 0}, {"min_side": 0}, {"decode_threads": 0}, {"skip": "image"}, {"decoders": {"png": "x"}}]
)
def test_sample_decoder_refuses_invalid_options(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        SampleDecoder(**options)

    assert raised.value.hint


def test_config_is_json_and_distinguishes_decoders() -> None:
    options: list[dict[str, Any]] = [
        {},
        {"image_decode": "rgb8"},
        {"guess_content": True},
        {"max_pixels": 9},
        {"max_bytes": 9},
        {"exif_orientation": True},
        {"min_side": 64},
        {"skip": ("jpg",)},
        {"decoders": {"jpg": len}},
        {"decoders": {"jpg": sum}},
        {"decoders": len},
    ]
    configs = [SampleDecoder(**each).config() for each in options]

    assert len({json.dumps(config, sort_keys=True) for config in configs}) == len(options)


def test_config_excludes_decode_threads() -> None:
    assert SampleDecoder(decode_threads=2).config() == SampleDecoder().config()


def test_skip_matches_part_name_or_field() -> None:
    decoder = SampleDecoder(skip=("seg.png", "image"))

    assert decoder.function_for("seg.png") is decode_raw
    assert decoder.function_for("jpg", field="image") is decode_raw
    assert decoder.memory_for("jpg", field="image") is None
    assert decoder.function_for("png") is not decode_raw
    assert decoder.function_for("jpg", field="mask") is not decode_raw


def test_part_over_max_bytes_fails_sample() -> None:
    decoder = SampleDecoder(max_bytes=5)

    assert decoder("txt", b"12345") == "12345"
    with pytest.raises(SampleFailed, match="the part has 6 bytes, the limit is 5"):
        decoder("txt", b"123456")


@pytest.mark.parametrize(
    "decoder", [SampleDecoder(max_bytes=50_000), SampleDecoder(max_bytes=50_000, guess_content=True)]
)
def test_npz_that_unpacks_over_max_bytes_fails_sample(decoder: SampleDecoder) -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.zeros(100_000))

    with pytest.raises(SampleFailed, match="unpacks to"):
        decoder("npz", stream.getvalue())


def test_msgpack_is_decoded_when_installed() -> None:
    msgpack = pytest.importorskip("msgpack")
    value = {"a": [1, 2.5, None, b"x"], 3: "y"}

    assert DECODER("msgpack", msgpack.packb(value)) == value
    with pytest.raises(SampleFailed, match="cannot decode part 'msg'"):
        DECODER("msg", msgpack.packb(value)[:-1])


def test_missing_msgpack_is_fatal_with_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)

    with pytest.raises(FatalSampleError, match="msgpack is not installed") as raised:
        DECODER("meta.msgpack", b"\x80")

    assert raised.value.where == "part 'meta.msgpack'"
    assert "pip install msgpack" in raised.value.hint


def test_sample_decoder_pickles_by_value() -> None:
    assert pickle.loads(pickle.dumps(DECODER)) == SampleDecoder("torchrgb8", av_decode=None)  # noqa: S301 - our own


@pytest.mark.parametrize("name", ["decode", "__call__"])
def test_overridden_method_that_loaders_do_not_call_is_refused(name: str) -> None:
    kind = type("Mine", (SampleDecoder,), {name: lambda *_: None})

    with pytest.raises(UsageError, match=f"Mine defines {name}, which loaders do not call"):
        kind()
