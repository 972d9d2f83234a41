"""Auxiliary stores (datasets and folders whose files are looked up by name), their caches, and cookers.

`open` opens a store and `store` is the interface. `folder` is a store of a folder, and `media_facts` has the facts of
media in stores. `cache` and `disk_cache` keep bytes. `cookers` runs user functions that build samples from crude
samples. `plan` and `pipeline` import it.
"""

from __future__ import annotations

from wdsctl.loader.stores.open import PreparedStore, open_store
from wdsctl.loader.stores.store import FileStore, StoreEntry

__all__ = ["FileStore", "PreparedStore", "StoreEntry", "open_store"]
