from __future__ import annotations

import pytest

from tests.build import an_image
from wdsctl.core.media.decode_check import INTACT, check_image_decodes


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_check_image_decodes_accepts_complete_and_reports_truncated_images(form: str) -> None:
    data = an_image(form)
    assert check_image_decodes(data) == INTACT
    assert check_image_decodes(data[: len(data) * 2 // 3]).outcome in ("broken", "doubtful")


def test_check_image_decodes_reports_jpeg_damage_that_pillow_conceals() -> None:
    data = an_image("JPEG")
    verdict = check_image_decodes(data[:-30] + b"\xff\xd9")
    assert verdict.outcome in ("broken", "doubtful")
    assert verdict.reason


def test_check_image_decodes_reports_flipped_bit_in_every_png_byte() -> None:
    data = an_image("PNG")
    for at in range(len(data)):
        assert check_image_decodes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) != INTACT, at


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP"])
def test_check_image_decodes_refuses_too_many_pixels(form: str) -> None:
    verdict = check_image_decodes(an_image(form), max_pixels=48 * 32 - 1)
    assert (verdict.outcome, "48 x 32 pixels" in verdict.reason) == ("too large", True)


@pytest.mark.parametrize("data", [b"", b"text", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_check_image_decodes_reports_non_image_as_broken(data: bytes) -> None:
    assert check_image_decodes(data).outcome == "broken"
