"""Hashes on disk, divided by their bits: what is alike lies in one file, and each file fits into memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

import numpy as np

from wdsctl.core.split_hashes import Records

MOST_FILES = 256  # that are open at once


@contextmanager
def divided(count: int) -> Iterator[list[BinaryIO]]:
    """Files for so many parts of the hashes."""
    with tempfile.TemporaryDirectory(prefix="wdsctl-leaks-") as folder, ExitStack() as opened:
        paths = [os.path.join(folder, str(i)) for i in range(min(count, MOST_FILES))]
        yield [opened.enter_context(open(path, "w+b")) for path in paths]


def spread(records: Records, files: Sequence[BinaryIO]) -> None:
    """Every hash to the file that its first bits name."""
    if len(files) == 1:
        files[0].write(records.tobytes())
        return
    which = records["high"] % np.uint64(len(files))
    for i in np.unique(which).tolist():
        files[i].write(records[which == i].tobytes())
