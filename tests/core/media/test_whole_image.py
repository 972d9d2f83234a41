from __future__ import annotations

import pytest

from tests.build import an_image
from wdsctl.core.media.decode_check import INTACT, check_image_decodes


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_whole_images_are_sound_and_cut_ones_are_not(form: str) -> None:
    data = an_image(form)
    assert check_image_decodes(data) == INTACT
    assert check_image_decodes(data[: len(data) * 2 // 3]).outcome in ("broken", "doubtful")


def test_of_a_jpeg_what_pillow_paints_over_is_told() -> None:
    data = an_image("JPEG")
    verdict = check_image_decodes(data[:-30] + b"\xff\xd9")
    assert verdict.outcome in ("broken", "doubtful")
    assert verdict.reason


def test_every_flipped_bit_of_a_png_is_told() -> None:
    data = an_image("PNG")
    for at in range(len(data)):
        assert check_image_decodes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) != INTACT, at


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP"])
def test_more_pixels_than_allowed_are_refused_before_they_are_decoded(form: str) -> None:
    verdict = check_image_decodes(an_image(form), max_pixels=48 * 32 - 1)
    assert (verdict.outcome, "48 x 32 pixels" in verdict.reason) == ("too large", True)


@pytest.mark.parametrize("data", [b"", b"text", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_what_is_no_image_is_broken_whatever_it_begins_with(data: bytes) -> None:
    assert check_image_decodes(data).outcome == "broken"
