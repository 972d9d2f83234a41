"""What a dataset without a sample type hands out."""

from __future__ import annotations

from typing import Any


class CrudeSample(dict[str, Any]):
    """The parts by name (`jpg`, `seg.png`), and `__key__`, `__restore_key__`, `__subflavors__`, `__sources__`."""

    __slots__ = ()
