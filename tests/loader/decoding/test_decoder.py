from __future__ import annotations

import io
import json
import pickle
import random
from typing import Any

import numpy as np
import pytest
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.decoding import SampleDecoder, as_bytes

from .pictures import a_jpeg, a_png, encoded, pixels

DECODER = SampleDecoder("torchrgb8")


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
        ("mp4", b"\0\0\0\x18ftyp", b"\0\0\0\x18ftyp"),
        ("wav", b"RIFF", b"RIFF"),
        ("bin", b"\x01", b"\x01"),
    ],
)
def test_a_part_becomes_what_its_last_extension_says(part: str, data: bytes, value: Any) -> None:
    assert DECODER(part, data) == value


def test_arrays_are_read() -> None:
    array = np.arange(6).reshape(2, 3)

    assert np.array_equal(DECODER("npy", an_npy(array)), array)
    assert np.array_equal(DECODER("npz", an_npz(a=array))["a"], array)
    assert torch.equal(DECODER("pth", a_torch_file(torch.arange(3))), torch.arange(3))


def test_the_default_is_a_float_tensor_channels_first() -> None:
    image = SampleDecoder()("jpg", a_jpeg(20, 30))

    assert (image.shape, image.dtype) == ((3, 20, 30), torch.float32)


def test_an_image_is_told_from_others_by_its_content_whatever_image_its_name_says() -> None:
    assert torch.equal(DECODER("jpg", a_png()), DECODER("seg.png", a_png()))


class Boom:
    """What a hostile dataset would hold."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("the data was unpickled",))


@pytest.mark.parametrize("part", ["pkl", "pickle", "pyd"])
def test_pickles_stay_bytes(part: str) -> None:
    data = pickle.dumps(Boom())

    assert DECODER(part, data) is data


@pytest.mark.parametrize(("part", "data"), [("npy", an_npy(np.array([Boom()]))), ("pth", a_torch_file(Boom()))])
def test_what_would_be_unpickled_is_refused(part: str, data: bytes) -> None:
    with pytest.raises(SampleFailed):
        DECODER(part, data)


def test_a_part_that_stays_bytes_costs_no_call() -> None:
    assert DECODER.function_for("mp4") is as_bytes
    assert DECODER.function_for("txt") is not as_bytes


@pytest.mark.parametrize(
    ("part", "data", "cause"),
    [
        ("jpg", b"", ValueError),
        ("jpg", b"not an image", ValueError),
        ("jpg", a_jpeg(64, 64)[:-300], OSError),
        ("png", a_png()[:60], OSError),
        ("txt", b"\xff", UnicodeDecodeError),
        ("json", b"{", ValueError),
        ("json", b"[" * 100_000, RecursionError),
        ("cls", b"cat", ValueError),
        ("npy", b"", ValueError),
        ("npz", b"PK", Exception),
        ("pt", b"\x80", Exception),
    ],
)
def test_bad_bytes_fail_the_sample_and_name_the_part_and_the_cause(
    part: str, data: bytes, cause: type[Exception]
) -> None:
    with pytest.raises(SampleFailed) as raised:
        DECODER(part, data)

    error = raised.value
    assert (error.code, error.where) == ("WDS503", f"part '{part}'")
    assert f"part '{part}' cannot be decoded: " in error.message
    assert "\n" not in error.message
    assert isinstance(error.__cause__, cause)


def test_an_image_that_promises_too_much_fails_the_sample() -> None:
    with pytest.raises(SampleFailed, match="at most 100 are allowed"):
        SampleDecoder("torchrgb8", max_pixels=100)("jpg", a_jpeg())


SEEDS = {
    "jpg": a_jpeg(),
    "png": a_png(),
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
def test_whatever_is_wrong_with_the_bytes_only_the_sample_fails(part: str) -> None:
    rng = random.Random(part)
    failed = 0

    for _ in range(300):
        data = bytearray(SEEDS[part])
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(min(len(data), rng.choice([64, 100_000])))] = rng.randrange(256)
        try:
            DECODER(part, bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]))
        except SampleFailed:
            failed += 1

    assert failed > 30


def test_content_can_be_guessed_where_names_lie() -> None:
    decoder = SampleDecoder("torchrgb8", guess_content=True)

    assert torch.equal(decoder("bin", a_jpeg()), DECODER("jpg", a_jpeg()))
    assert np.array_equal(decoder("data", an_npy(np.arange(3))), np.arange(3))
    assert decoder("jpg", b"RIFF\x24\0\0\0WAVEfmt ") == b"RIFF\x24\0\0\0WAVEfmt "


def test_text_has_no_mark_and_goes_by_name_even_where_content_is_guessed() -> None:
    decoder = SampleDecoder(guess_content=True)

    assert decoder("txt", b"12") == "12"
    assert decoder("bin", b"12") == b"12"
    assert decoder("json", b"12") == 12


def test_only_images_that_become_tensors_have_a_memory() -> None:
    assert SampleDecoder("torchrgb").memory_for("seg.png") is not None
    assert SampleDecoder("torchrgb").memory_for("txt") is None
    assert SampleDecoder("rgb8").memory_for("jpg") is None
    assert SampleDecoder(guess_content=True).memory_for("bin") is not None


def test_an_unknown_spec_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="image_decode='rgb16' is not known") as raised:
        SampleDecoder("rgb16")

    assert "torchrgb8" in raised.value.hint


def test_a_limit_of_no_pixels_is_refused() -> None:
    with pytest.raises(UsageError, match="allows no image"):
        SampleDecoder(max_pixels=0)


def test_the_config_is_json_and_tells_decoders_apart() -> None:
    configs = [SampleDecoder(), SampleDecoder("rgb8"), SampleDecoder(guess_content=True), SampleDecoder(max_pixels=9)]

    assert len({json.dumps(decoder.config(), sort_keys=True) for decoder in configs}) == 4


def test_a_decoder_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(DECODER)) == SampleDecoder("torchrgb8")  # noqa: S301 - our own
