"""Saved states: build them, restore from them, and adopt datasets that grew or another number of ranks.

`run` and the `Loader` import this room.
"""

from __future__ import annotations
