from __future__ import annotations

import io
import wave
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.build import an_image
from tests.loader.decoding.pictures import a_lossless_jpeg, a_tiff
from wdsctl.core.convert.parts import (
    AudioTranscodeOptions,
    ImageTranscodeOptions,
    is_selected_part,
    list_unmatched_options,
    parse_audio,
    parse_image,
    transcoded_name,
)
from wdsctl.core.convert.transcode import transcode_image, transcode_part
from wdsctl.core.errors import InputError, SampleFailed, UsageError


def open_image(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def encode_image(image: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def a_sound(rate: int = 8000, seconds: float = 0.5, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(bytes(range(256)) * int(rate * seconds * channels * 2 / 256))
    return file.getvalue()


@pytest.mark.parametrize(
    ("text", "form", "part"), [("jpeg:70", "JPEG", "jpg"), ("webp:80", "WEBP", "webp"), ("png", "PNG", "png")]
)
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"])
def test_every_image_mode_is_written_in_every_format(mode: str, text: str, form: str, part: str) -> None:
    name, data = transcode_part("png", encode_image(Image.new(mode, (40, 20)), "PNG"), parse_image(text, 30), None)

    assert (name, open_image(data).format, open_image(data).size) == (part, form, (30, 15))


def test_transcoding_image_is_reproducible() -> None:
    options = ImageTranscodeOptions("jpeg", 80)
    assert transcode_image("png", an_image("PNG"), options) == transcode_image("png", an_image("PNG"), options)


def test_small_image_is_copied_if_only_max_side_is_given() -> None:
    image = an_image("JPEG")
    assert transcode_image("jpg", image, ImageTranscodeOptions(max_side=100)) == ("jpg", image)
    assert open_image(transcode_image("jpg", image, ImageTranscodeOptions(max_side=24))[1]).size == (24, 16)


def test_lossless_jpeg_is_resized_after_full_decoding() -> None:
    lossless = a_lossless_jpeg(np.full((64, 96, 3), 77, np.uint8), adobe=True)
    small = open_image(transcode_image("jpg", lossless, ImageTranscodeOptions(max_side=12))[1])
    assert (small.size, small.getpixel((5, 5))) == ((12, 8), (77, 77, 77))


@pytest.mark.parametrize("form", ["jpeg", "webp", "png"])
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.float32])
def test_numbers_without_a_range_become_no_image(form: str, dtype: Any) -> None:
    numbers = a_tiff(np.full((8, 8), 1800, dtype), 1, tags={339: (3 if dtype is np.float32 else 2,)})
    with pytest.raises(ValueError, match="has no defined range of values"):
        transcode_image("tif", numbers, ImageTranscodeOptions(form))


def test_channel_without_a_name_is_not_blended() -> None:
    pixels = np.full((8, 8, 4), (10, 20, 30, 40), np.uint8)
    unnamed, alpha = a_tiff(pixels, 2), a_tiff(pixels, 2, tags={338: (2,)})
    for data, expected in ((unnamed, (10, 20, 30)), (alpha, (217, 218, 220))):
        image = open_image(transcode_image("tif", data, ImageTranscodeOptions("jpeg", 100))[1])
        assert np.abs(np.asarray(image)[0, 0].astype(int) - expected).max() <= 2


@pytest.mark.parametrize("form", ["GIF", "BMP", "TIFF"])
def test_small_image_of_format_that_cannot_be_written_is_copied(form: str) -> None:
    small = encode_image(Image.new("L", (10, 20)), form)
    options = parse_image("", 20)
    assert options is not None
    assert transcode_image("x", small, options) == ("x", small)
    with pytest.raises(ValueError, match="cannot write the format"):
        transcode_image("x", small, parse_image("", 19) or options)


def test_rotated_image_is_turned_upright_or_keeps_orientation_tag() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    image = encode_image(Image.new("RGB", (40, 20), "red"), "JPEG", exif=exif.tobytes())

    upright = open_image(transcode_image("jpg", image, ImageTranscodeOptions("jpeg"))[1])
    unturned = open_image(transcode_image("jpg", image, ImageTranscodeOptions("jpeg", orientation="keep"))[1])

    assert (upright.size, upright.getexif().get(0x0112)) == ((20, 40), None)
    assert (unturned.size, unturned.getexif().get(0x0112)) == ((40, 20), 6)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_image_of_any_format_is_turned_once(form: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.new("RGB", (40, 20), "red")
    image.paste("blue", (0, 0, 20, 20))  # the left half, which is the upper one after turning

    upright = open_image(transcode_image("tif", encode_image(image, form, exif=exif), ImageTranscodeOptions("png"))[1])

    assert (upright.size, upright.getexif().get(0x0112)) == ((20, 40), None)
    red, _, blue = upright.convert("RGB").getpixel((10, 5))  # type: ignore[misc]
    assert blue > red


@pytest.mark.parametrize("source_format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("text", ["jpeg", "png", "webp"])
def test_orientation_tag_is_kept_between_all_formats(source_format: str, text: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    image = encode_image(Image.new("RGB", (40, 20)), source_format, exif=exif)

    transcoded = open_image(transcode_image("png", image, parse_image(text, 0, "keep") or ImageTranscodeOptions())[1])

    assert (transcoded.size, transcoded.getexif().get(0x0112)) == ((40, 20), 6)


def test_transparent_pixels_become_white_in_jpeg() -> None:
    _, data = transcode_image(
        "png", encode_image(Image.new("RGBA", (8, 8), (0, 0, 0, 0)), "PNG"), ImageTranscodeOptions("jpeg", 95)
    )
    assert open_image(data).getpixel((4, 4)) == (255, 255, 255)


def test_grey_of_16_bits_keeps_its_range() -> None:
    image = Image.new("I;16", (8, 8), 32_768)
    _, jpeg = transcode_image("png", encode_image(image, "PNG"), ImageTranscodeOptions("jpeg", 95))
    _, png = transcode_image("tiff", encode_image(image, "TIFF"), ImageTranscodeOptions("png"))
    _, from_pgm = transcode_image("pgm", encode_image(image, "PPM"), ImageTranscodeOptions("png"))

    assert open_image(jpeg).getpixel((4, 4)) == 128
    assert (open_image(png).mode, open_image(png).getpixel((4, 4))) == ("I;16", 32_768)
    assert (open_image(from_pgm).mode, open_image(from_pgm).getpixel((4, 4))) == ("I;16", 32_768)


@pytest.mark.parametrize(
    ("text", "size", "expected"), [("png", (8, 8), 32_769), ("png", (4, 4), 32_769), ("jpeg:95", (8, 8), 128)]
)
def test_big_endian_grey_of_16_bits_keeps_its_range(text: str, size: tuple[int, int], expected: int) -> None:
    tiff = encode_image(Image.frombytes("I;16B", (8, 8), b"\x80\x01" * 64), "TIFF")
    assert open_image(tiff).mode == "I;16B"
    _, data = transcode_image("tiff", tiff, parse_image(text, max(size)) or ImageTranscodeOptions())
    assert (open_image(data).size, open_image(data).getpixel((2, 2))) == (size, expected)


def test_failed_transcoding_reports_reason() -> None:
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    animation = encode_image(frames[0], "GIF", save_all=True, append_images=frames[1:])
    bomb = bytearray(an_image("BMP"))
    bomb[18:26] = (60_000).to_bytes(4, "little") * 2

    for data, reason in (
        (b"nothing", "not an image of a supported format"),
        (animation, "animation of 2"),
        (bytes(bomb), "pixels|bomb"),
    ):
        with pytest.raises(SampleFailed, match=reason) as caught:
            transcode_part("gif", data, ImageTranscodeOptions("png"), None)
        assert caught.value.code == "WDS341"


def test_masks_are_transcoded_only_if_named() -> None:
    assert is_selected_part("png", ImageTranscodeOptions("jpeg"))
    assert not is_selected_part("seg.png", ImageTranscodeOptions("jpeg"))
    assert is_selected_part("seg.png", ImageTranscodeOptions("jpeg", parts=("*.png",)))
    assert not is_selected_part("json", ImageTranscodeOptions("jpeg"))


@pytest.mark.parametrize("name", ["png", "jpeg", "JPG", "webp", "wav", "mp3", "txt", "left.png"])
def test_transcoded_name_is_known_without_reading(name: str) -> None:
    image, audio = ImageTranscodeOptions("jpeg", parts=("*png", "jpeg", "JPG", "webp")), AudioTranscodeOptions("flac")
    data = a_sound() if name in ("wav", "mp3") else an_image("PNG")
    assert transcode_part(name, data, image, audio)[0] == transcoded_name(name, image, audio)


@pytest.mark.parametrize(
    ("text", "rate", "codec"), [("flac", 16000, "flac"), ("wav", 0, "pcm_s16le"), ("opus:32k", 0, "opus")]
)
def test_transcoding_audio_is_reproducible(text: str, rate: int, codec: str) -> None:
    options = parse_audio(text, rate)
    name, data = transcode_part("wav", a_sound(), None, options)

    assert transcode_part("wav", a_sound(), None, options) == (name, data)
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.audio[0]
        samples = sum(int(frame.samples) for frame in container.decode(stream))
        assert (name, stream.codec.name) == (text.partition(":")[0], codec)
        assert samples / stream.rate == pytest.approx(0.5, abs=0.03)
        assert stream.rate == (rate or {"wav": 8000}.get(name, 48000))


def test_flac_and_wav_are_lossless() -> None:
    _, flac = transcode_part("wav", a_sound(channels=2), None, AudioTranscodeOptions("flac"))
    _, restored = transcode_part("flac", flac, None, AudioTranscodeOptions("wav"))

    assert restored.endswith(a_sound(channels=2)[44:])


@pytest.mark.parametrize("text", ["gif", "jpeg:0", "jpeg:101", "jpeg:", "png:9", "jpeg:x"])
def test_unknown_image_formats_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_image(text)


@pytest.mark.parametrize("text", ["mp3", "opus:64", "opus:999k", "flac:8k"])
def test_unknown_audio_formats_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_audio(text)


def test_options_without_their_main_option_are_refused() -> None:
    for call in (
        lambda: parse_audio("", 16000),
        lambda: parse_image("", parts=("jpg",)),
        lambda: parse_audio("opus", 44100),
    ):
        with pytest.raises(UsageError):
            call()


def test_options_without_matching_media_are_listed() -> None:
    image, audio = (
        ImageTranscodeOptions("jpeg", parts=("jpg", "*.png")),
        AudioTranscodeOptions("flac", parts=("wav", "mp3")),
    )

    assert list_unmatched_options(["jpg", "wav"], image=image, audio=audio) == [
        "--image-parts *.png",
        "--audio-parts mp3",
    ]
    jpeg, flac = ImageTranscodeOptions("jpeg"), AudioTranscodeOptions("flac")
    assert list_unmatched_options(["jpg", "wav"], image=jpeg, audio=flac) == []
    assert list_unmatched_options(["txt"], image=ImageTranscodeOptions(max_side=9)) == ["--max-side (jpg, png, ...)"]
    png, wav = ImageTranscodeOptions("png"), AudioTranscodeOptions("wav")
    assert list_unmatched_options(["seg.png"], image=png, audio=wav) == [
        "--image (jpg, png, ...)",
        "--audio (wav, mp3, ...)",
    ]


def test_named_parts_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="no sample has a part") as caught:
        list_unmatched_options(["txt", "jpg"], audio=AudioTranscodeOptions("flac", parts=("wave", "*.mp3")))
    assert (caught.value.code, caught.value.where) == ("WDS003", "--audio-parts wave,*.mp3")
    assert caught.value.hint == "the parts are jpg, txt"


@pytest.mark.parametrize("options", [{"parts": ("jpg",)}, {"orientation": "keep"}])
def test_image_options_without_image_or_max_side_are_refused(options: Any) -> None:
    with pytest.raises(UsageError, match="needs --image or --max-side"):
        parse_image("", **options)
