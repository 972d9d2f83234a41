"""Member names as rows of zero-padded bytes: where the key ends, which part follows, by the rule of `naming.py`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.plain_members import Bytes, Ints

_DOT, _SLASH, _META = ord("."), ord("/"), ord("_")


def lengths(names: Bytes) -> Ints:
    """How many bytes each name has."""
    used: Ints = (names != 0).sum(axis=1)
    return used


def first_dots(names: Bytes) -> Ints:
    """Where the key ends in each name: the first dot of the file name. 0 where there is none or it begins with one."""
    dots = names == _DOT
    slashes = names == _SLASH
    if slashes.any():
        width = names.shape[1]
        start = np.where(slashes.any(axis=1), width - slashes[:, ::-1].argmax(axis=1), 0)
        dots &= np.arange(width) >= start[:, None]
        dots &= (dots.argmax(axis=1) > start)[:, None]
    found: Ints = dots.argmax(axis=1)
    return found


def is_meta(names: Bytes, dots: Ints) -> NDArray[np.bool_]:
    """WebDataset's own members, `__name__...`."""
    meta = np.zeros(len(names), np.bool_)
    if names.shape[1] >= 4:
        for row in np.flatnonzero((names[:, 0] == _META) & (names[:, 1] == _META)):
            meta[row] = b"__" in names[row, 2 : dots[row]].tobytes()
    return meta


def shifted(names: Bytes, starts: Ints, ends: Ints) -> Bytes:
    """Each row from its own start to its own end, padded with zeros."""
    widths = ends - starts
    across = np.arange(int(widths.max()))
    columns = np.minimum(starts[:, None] + across, names.shape[1] - 1)
    return np.where(across < widths[:, None], np.take_along_axis(names, columns, axis=1), 0).astype(np.uint8)


def strings(matrix: Bytes) -> list[bytes]:
    """The rows as bytes, their zero padding gone."""
    rows: list[bytes] = np.ascontiguousarray(matrix).view(f"S{matrix.shape[1]}").ravel().tolist()
    return rows


class Extensions:
    """Part names by number, in order of first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: bytes) -> int:
        """By the text, not the bytes: two odd names that read alike are one."""
        return self.numbers.setdefault(name.decode("utf-8", "backslashreplace"), len(self.numbers))

    def encode(self, matrix: Bytes) -> NDArray[np.uint32]:
        """Numbers for names in rows of zero-padded bytes. A handful of distinct names is the case to be quick at."""
        width = matrix.shape[1]
        if width > 8:
            return np.array([self.number(name) for name in strings(matrix)], np.uint32)
        words = np.zeros((len(matrix), 8), np.uint8)
        words[:, :width] = matrix
        codes = words.view(np.uint64).ravel()
        numbers = np.empty(len(codes), np.uint32)
        left = np.ones(len(codes), np.bool_)
        while left.any():
            code = codes[int(left.argmax())]
            same = codes == code
            numbers[same] = self.number(code.tobytes().rstrip(b"\0"))
            left &= ~same
        return numbers

    def list(self) -> tuple[str, ...]:
        return tuple(self.numbers)
