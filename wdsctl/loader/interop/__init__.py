"""Loaders in the interfaces of other libraries: `webdataset` pipelines.

Nothing imports this room but the public names of `wdsctl.loader`.
"""

from __future__ import annotations
