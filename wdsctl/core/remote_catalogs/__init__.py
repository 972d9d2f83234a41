"""Catalogs of datasets at URLs, published beside the shards, in `URL/.wdsctl/`.

A catalog is built in a local folder, the *mirror*. `publish` uploads its files as immutable objects, named by content,
and then replaces one small object, the *pointer*, which names them. `pull` brings a mirror up to date with the pointer;
`evict` bounds the disk space of mirrors; `ranges` fetches large offsets files in part.

Imported for URLs only: opening a dataset pulls its catalog (`opened`), and its lock publishes it (`dataset`).
"""

from __future__ import annotations
