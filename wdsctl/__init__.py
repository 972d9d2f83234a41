"""Prepare and manage WebDataset datasets, and feed training from them, exactly."""

from __future__ import annotations

from wdsctl.version import VERSION as __version__

__all__ = ["__version__"]
