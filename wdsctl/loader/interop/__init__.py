"""Gives loaders the interfaces of other libraries: `webdataset` pipelines.

Only the public names of `wdsctl.loader` import this room.
"""

from __future__ import annotations
