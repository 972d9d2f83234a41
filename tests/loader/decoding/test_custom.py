from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.parts import decode_raw
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


#: Data that wdsctl's own decoders decode to something other than its length.
PART_DATA = {
    **{part: a_png() for part in ("seg.png", "seg.PNG", "png", "jpg")},
    **dict.fromkeys(("txt", "caption", "bin", "mp4", "a.flac", "json", "lines.jsonl", "npz"), b"some bytes"),
}


def masks_only(part: str) -> Any:
    return size_of if part.endswith("seg.png") else None


@pytest.mark.parametrize(
    ("key", "part", "is_custom"),
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
def test_custom_decoder_matches_name_extension_or_content_kind(key: str, part: str, is_custom: bool) -> None:
    decode = SampleDecoder(decoders={key: size_of}).function_for(part)

    value = decode(PART_DATA[part])

    assert (isinstance(value, int) and value == len(PART_DATA[part])) is is_custom


def test_decoder_lookup_prefers_name_then_extension_then_kind() -> None:
    def other(data: bytes) -> str:
        return "other"

    assert SampleDecoder(decoders={"png": other, "seg.png": size_of})("seg.png", b"123") == 3
    assert SampleDecoder(decoders={"image": other, "png": size_of})("png", b"123") == 3


def test_field_kind_selects_decoder_for_unknown_part_name() -> None:
    decoder = SampleDecoder(decoders={"video": size_of})

    assert decoder.function_for("clip", kind="video")(b"123") == 3
    assert decoder.function_for("clip") is decode_raw


def test_guess_content_selects_custom_decoder_by_bytes() -> None:
    decoder = SampleDecoder("torchrgb8", guess_content=True, decoders={"image": size_of, "seg.png": reversed_bytes})

    assert decoder("bin", a_png()) == len(a_png())
    assert decoder("seg.png", b"12") == b"21"
    assert decoder("txt", b"12") == "12"


def test_decoders_function_chooses_decoder_by_part_name() -> None:
    decoder = SampleDecoder("torchrgb8", decoders=masks_only)

    assert decoder("seg.png", b"123") == 3
    assert torch.is_tensor(decoder("png", a_png()))


def test_part_with_custom_decoder_has_no_batch_memory() -> None:
    decoder = SampleDecoder("torchrgb8", decoders={"seg.png": size_of})

    assert decoder.memory_for("seg.png") is None
    assert decoder.memory_for("jpg") is not None


def test_skip_overrides_custom_decoder() -> None:
    assert SampleDecoder(decoders={"jpg": size_of}, skip=("jpg",)).function_for("jpg") is decode_raw


def test_custom_decoder_error_fails_sample_with_part_and_cause() -> None:
    with pytest.raises(SampleFailed, match=r"cannot decode part 'seg.png': KeyError: 'no mask in 3 bytes'") as raised:
        SampleDecoder(decoders={"seg.png": no_mask})("seg.png", b"123")

    assert raised.value.where == "part 'seg.png'"
    assert isinstance(raised.value.__cause__, KeyError)


def test_programming_error_in_custom_decoder_is_fatal() -> None:
    with pytest.raises(FatalSampleError, match="unknown_name") as raised:
        SampleDecoder(decoders={"seg.png": a_typo})("seg.png", b"123")

    assert raised.value.where == "part 'seg.png'"


def test_wrapped_decoder_error_names_outer_part() -> None:
    plain = SampleDecoder("torchrgb8")

    with pytest.raises(SampleFailed) as raised:
        SampleDecoder(decoders={"wrapped": functools.partial(plain, "jpg")})("wrapped", a_jpeg()[:99])

    assert raised.value.where == "part 'wrapped'"


def test_max_bytes_applies_to_custom_decoders() -> None:
    with pytest.raises(SampleFailed, match="the limit is 2"):
        SampleDecoder(max_bytes=2, decoders={"bin": size_of})("bin", b"123")


def test_config_contains_qualified_function_names() -> None:
    decoders: dict[str, Callable[[bytes], Any]] = {
        "png": size_of,
        "image": functools.partial(reversed_bytes),
        "bin": torch.nn.Identity(),
    }
    module = __name__

    assert SampleDecoder(decoders=decoders).config()["decoders"] == {
        "bin": "torch.nn.modules.linear.Identity",
        "image": f"{module}.reversed_bytes",
        "png": f"{module}.size_of",
    }
    assert SampleDecoder(decoders=masks_only).config()["decoders"] == f"{module}.masks_only"
    json.dumps(SampleDecoder(decoders=decoders).config())


@pytest.mark.parametrize("decoders", [{"png": None}, {3: size_of}, "png", [size_of]])
def test_sample_decoder_refuses_non_callable_decoders(decoders: Any) -> None:
    with pytest.raises(UsageError, match="not a function"):
        SampleDecoder(decoders=decoders)


def test_sample_decoder_with_functions_compares_and_pickles_by_value() -> None:
    decoder = SampleDecoder(decoders={"png": size_of})

    assert pickle.loads(pickle.dumps(decoder)) == decoder  # noqa: S301 - our own
    assert hash(decoder) == hash(SampleDecoder())
