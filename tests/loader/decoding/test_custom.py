from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.decoding import SampleDecoder, decode_raw
from wdsctl.loader.runtime.failures import FatalSampleError

from .pictures import a_jpeg, a_png


def size_of(data: bytes) -> int:
    return len(data)


def reversed_bytes(data: bytes) -> bytes:
    return data[::-1]


def no_mask(data: bytes) -> Any:
    raise KeyError(f"no mask in {len(data)} bytes")


def a_typo(data: bytes) -> Any:
    return unknown_name(data)  # type: ignore[name-defined]  # noqa: F821


#: What the decoders that come with wdsctl make something else of than its length.
WITNESS = {
    **{part: a_png() for part in ("seg.png", "seg.PNG", "png", "jpg")},
    **dict.fromkeys(("txt", "caption", "bin", "mp4", "a.flac", "json", "lines.jsonl", "npz"), b"some bytes"),
}


def masks_only(part: str) -> Any:
    return size_of if part.endswith("seg.png") else None


@pytest.mark.parametrize(
    ("key", "part", "is_own"),
    [
        ("seg.png", "seg.png", True),
        ("SEG.png", "seg.PNG", True),
        ("seg.png", "png", False),
        ("png", "seg.png", True),
        ("png", "jpg", False),
        ("bin", "bin", True),
        ("image", "seg.png", True),
        ("image", "txt", False),
        ("video", "mp4", True),
        ("audio", "a.flac", True),
        ("text", "caption", True),
        ("json", "json", True),
        ("json", "lines.jsonl", True),
        ("array", "npz", True),
    ],
)
def test_a_decoder_is_for_a_name_an_extension_or_a_content(key: str, part: str, is_own: bool) -> None:
    decode = SampleDecoder(decoders={key: size_of}).function_for(part)

    value = decode(WITNESS[part])

    assert (isinstance(value, int) and value == len(WITNESS[part])) is is_own


def test_the_name_goes_before_the_extension_and_that_before_the_content() -> None:
    def other(data: bytes) -> str:
        return "other"

    assert SampleDecoder(decoders={"png": other, "seg.png": size_of})("seg.png", b"123") == 3
    assert SampleDecoder(decoders={"image": other, "png": size_of})("png", b"123") == 3


def test_a_field_tells_the_content_where_a_name_does_not() -> None:
    decoder = SampleDecoder(decoders={"video": size_of})

    assert decoder.function_for("clip", kind="video")(b"123") == 3
    assert decoder.function_for("clip") is decode_raw


def test_content_is_told_by_the_bytes_where_it_is_guessed() -> None:
    decoder = SampleDecoder("torchrgb8", guess_content=True, decoders={"image": size_of, "seg.png": reversed_bytes})

    assert decoder("bin", a_png()) == len(a_png())
    assert decoder("seg.png", b"12") == b"21"
    assert decoder("txt", b"12") == "12"


def test_one_function_may_choose_by_the_name_of_a_part() -> None:
    decoder = SampleDecoder("torchrgb8", decoders=masks_only)

    assert decoder("seg.png", b"123") == 3
    assert torch.is_tensor(decoder("png", a_png()))


def test_a_part_with_a_decoder_of_its_own_has_no_memory() -> None:
    decoder = SampleDecoder("torchrgb8", decoders={"seg.png": size_of})

    assert decoder.memory_for("seg.png") is None
    assert decoder.memory_for("jpg") is not None


def test_what_is_skipped_stays_bytes_whatever_decoder_there_is() -> None:
    assert SampleDecoder(decoders={"jpg": size_of}, skip=("jpg",)).function_for("jpg") is decode_raw


def test_an_error_fails_the_sample_and_names_the_part_and_the_cause() -> None:
    with pytest.raises(SampleFailed, match=r"cannot decode part 'seg.png': KeyError: 'no mask in 3 bytes'") as raised:
        SampleDecoder(decoders={"seg.png": no_mask})("seg.png", b"123")

    assert raised.value.where == "part 'seg.png'"
    assert isinstance(raised.value.__cause__, KeyError)


def test_what_no_other_sample_will_cure_ends_the_run() -> None:
    with pytest.raises(FatalSampleError, match="unknown_name") as raised:
        SampleDecoder(decoders={"seg.png": a_typo})("seg.png", b"123")

    assert raised.value.where == "part 'seg.png'"


def test_a_decoder_that_calls_another_fails_under_its_own_part() -> None:
    plain = SampleDecoder("torchrgb8")

    with pytest.raises(SampleFailed) as raised:
        SampleDecoder(decoders={"wrapped": functools.partial(plain, "jpg")})("wrapped", a_jpeg()[:99])

    assert raised.value.where == "part 'wrapped'"


def test_the_limit_of_bytes_is_for_all_decoders() -> None:
    with pytest.raises(SampleFailed, match="the limit is 2"):
        SampleDecoder(max_bytes=2, decoders={"bin": size_of})("bin", b"123")


def test_the_config_has_functions_by_name() -> None:
    mine: dict[str, Callable[[bytes], Any]] = {
        "png": size_of,
        "image": functools.partial(reversed_bytes),
        "bin": torch.nn.Identity(),
    }
    here = __name__

    assert SampleDecoder(decoders=mine).config()["decoders"] == {
        "bin": "torch.nn.modules.linear.Identity",
        "image": f"{here}.reversed_bytes",
        "png": f"{here}.size_of",
    }
    assert SampleDecoder(decoders=masks_only).config()["decoders"] == f"{here}.masks_only"
    json.dumps(SampleDecoder(decoders=mine).config())


@pytest.mark.parametrize("decoders", [{"png": None}, {3: size_of}, "png", [size_of]])
def test_what_cannot_be_called_is_refused(decoders: Any) -> None:
    with pytest.raises(UsageError, match="not a function"):
        SampleDecoder(decoders=decoders)


def test_a_decoder_with_functions_is_a_value() -> None:
    decoder = SampleDecoder(decoders={"png": size_of})

    assert pickle.loads(pickle.dumps(decoder)) == decoder  # noqa: S301 - our own
    assert hash(decoder) == hash(SampleDecoder())
