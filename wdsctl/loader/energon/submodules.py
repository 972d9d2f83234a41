"""Energon's modules that hold a few names each: here, each is the module above it under another name."""

from __future__ import annotations

import sys

from wdsctl.core.energon.names import OUR_PACKAGE, SUBMODULES


def publish_submodules(module: str) -> None:
    """Make the modules of `SUBMODULES` below a module importable; for the module itself to call."""
    for name in SUBMODULES[module.removeprefix(OUR_PACKAGE).removeprefix(".")]:
        sys.modules.setdefault(f"{module}.{name}", sys.modules[module])
