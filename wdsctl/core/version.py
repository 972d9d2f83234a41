"""The version, in a module that imports nothing: the build and `wdsctl --version` both read it."""

from __future__ import annotations

VERSION = "0.1.0"
