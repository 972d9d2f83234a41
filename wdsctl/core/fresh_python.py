"""Starts other interpreters so that they import nothing from the current folder, which may be a dataset."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SAFE = "PYTHONSAFEPATH"


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Interpreters that are started within the block do not look for modules in the current folder.

    `python -c`, by which multiprocessing starts its servers, looks there before anywhere else: a file
    `multiprocessing.py` beside the shards would run. Python 3.10 cannot be told so; there the block itself is in
    another folder, and servers go back to the first one by themselves.
    """
    if sys.version_info < (3, 11):
        before = os.getcwd()
        os.chdir(os.path.dirname(os.__file__))
        try:
            yield
        finally:
            os.chdir(before)
        return
    said = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    try:
        yield
    finally:
        if said is None:
            del os.environ[_SAFE]
        else:
            os.environ[_SAFE] = said
