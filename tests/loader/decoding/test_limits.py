from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from wdsctl.loader.decoding.limits import check_part_size, check_pixel_count, check_unpacked_size


def a_zip(size: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(size))
    return stream.getvalue()


def test_check_pixel_count_allows_up_to_limit() -> None:
    check_pixel_count(30, 20, 600)
    with pytest.raises(ValueError, match="30 x 20 pixels, the limit is 599"):
        check_pixel_count(30, 20, 599)


def test_check_part_size_allows_up_to_limit() -> None:
    check_part_size(bytes(10), 10)
    with pytest.raises(ValueError, match="has 10 bytes, the limit is 9"):
        check_part_size(bytes(10), 9)


def test_check_unpacked_size_counts_unpacked_bytes() -> None:
    data = a_zip(100_000)
    assert len(data) < 1000

    check_unpacked_size(data, 100_000)
    with pytest.raises(ValueError, match="unpacks to 100,000 bytes, the limit is 99,999"):
        check_unpacked_size(data, 99_999)


def test_check_unpacked_size_ignores_non_archives() -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros(100))

    check_unpacked_size(stream.getvalue(), 10)
