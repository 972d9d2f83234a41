"""`megatron.energon.savable_loader`: every loader can be saved."""

from __future__ import annotations

from wdsctl.loader.loader import Loader as BasicDataLoader
from wdsctl.loader.loader import Loader as SavableDataLoader
from wdsctl.loader.resume.state import LoaderState as SavableDataLoaderState

__all__ = ["BasicDataLoader", "SavableDataLoader", "SavableDataLoaderState"]
