"""Prepare and manage WebDataset datasets, and feed training from them, exactly."""

from __future__ import annotations

from wdsctl.version import VERSION as __version__  # noqa: N811 - the name that tools look for

__all__ = ["__version__"]
