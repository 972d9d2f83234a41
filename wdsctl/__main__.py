"""`python -m wdsctl` is `wdsctl`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from wdsctl.cli.start import run

# `python -m` looks for modules in the current folder first, which may be a dataset with a yaml.py in it. It stays where
# wdsctl itself is found there alone.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with suppress(FileNotFoundError):  # the current folder has been removed, and no module is found there
    if sys.path[:1] == [os.getcwd()] != [_HOME] and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]


if __name__ == "__main__":
    run()
