"""What says that a database is a ledger of ours, and how old. Standard library only: quick readers ask too."""

from __future__ import annotations

APPLICATION_ID = 0x5744534C  # "WDSL"
VERSION = 5
