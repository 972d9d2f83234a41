"""Catalogs of datasets at URLs, published beside the shards, in `URL/.wdsctl/`.

A catalog is built in a local folder, the *mirror*. `publish` uploads its files as immutable objects, named by content,
and then replaces one small object, the *pointer*, which names them. `pull` brings a mirror up to date with the pointer;
`evict` bounds the disk space of mirrors; `ranges` fetches large offsets files in part.

Above `storage`, below `dataset`: `locate` pulls, and the lock of a dataset publishes. Imported only for URLs.
"""

from __future__ import annotations
