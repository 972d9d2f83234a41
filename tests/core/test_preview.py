from __future__ import annotations

import io

import pytest

from wdsctl.core.preview import WIDTH, preview


def a_picture(format_name: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (30, 20)).save(file, format_name)
    return file.getvalue()


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_its_format_and_size(format_name: str) -> None:
    data = a_picture(format_name)

    assert preview(data, len(data)) == f"{format_name}, 30 x 20, RGB"


def test_a_damaged_picture_is_its_format_alone() -> None:
    data = a_picture("PNG")[:20]

    assert "x" not in preview(data, len(data))


@pytest.mark.parametrize(
    ("data", "shown"),
    [(b"", "empty"), (b"two  words\nand\tmore ", "two words and more"), (b"42", "42"), ("é漢".encode(), "é漢")],
)
def test_text_is_one_line(data: bytes, shown: str) -> None:
    assert preview(data, len(data)) == shown


def test_long_text_is_cut_at_the_width() -> None:
    shown = preview(b"word " * 100, 500)

    assert len(shown) == WIDTH
    assert shown.endswith("…")


def test_what_would_steer_a_terminal_is_not_shown() -> None:
    assert "\x1b" not in preview(b"red \x1b[31m text and more of it", 28)
