"""How parts that nobody decodes are handed out: as bytes of their own, or as views of mapped shards."""

from __future__ import annotations

from typing import Literal

Raw = Literal["bytes", "view"]
