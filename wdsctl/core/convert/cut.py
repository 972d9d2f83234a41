"""Cuts one stream of samples, in their order, into units: a file each."""

from __future__ import annotations

from wdsctl.core.convert.recipe import Stream
from wdsctl.core.tar_header import END

#: (stream, group, name of the file, first and last position, samples, bytes)
CutUnit = tuple[str, int, str, int, int, int, int]


class Cut:
    """A state machine, hence a class: it knows the unit under way. `suffix` takes the place of the template's .tar."""

    def __init__(self, stream: Stream, *, samples: int, size: int, template: str, suffix: str) -> None:
        self._stream = stream
        self._most_samples = samples
        self._most_size = size
        self._template = template
        self._suffix = suffix
        self._units: list[CutUnit] = []
        self._first = self._last = self._samples = self._grp = self._ordinal = 0
        self._size = len(END)

    def add(self, pos: int, grp: int, size: int) -> None:
        is_full = self._samples == self._most_samples or self._size + size > self._most_size
        if self._samples and (is_full or grp != self._grp):
            self._end()
        if grp != self._grp:
            self._grp, self._ordinal = grp, 0
        if not self._samples:
            self._first = pos
        self._last = pos
        self._samples += 1
        self._size += size

    def ended(self) -> list[CutUnit]:
        if self._samples:
            self._end()
        return self._units

    def _end(self) -> None:
        name = self._template.format(index=self._ordinal).removesuffix(".tar") + self._suffix
        if not self._suffix:  # a folder of files, which go where their keys say once all units are written
            name = f".unit-{self._ordinal:06d}"
        self._units.append((self._stream, self._grp, name, self._first, self._last, self._samples, self._size))
        self._ordinal += 1
        self._samples, self._size = 0, len(END)
