"""Why a shard of another format cannot be read in place."""

from __future__ import annotations

UNSUPPORTED_CODE = "WDS167"
DAMAGED_CODE = "WDS233"


class ShardFormatError(ValueError):
    """A shard is damaged (WDS233), or uses a feature whose values are no ranges of bytes (WDS167).

    The message begins in lower case and does not name the shard.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def unsupported(message: str) -> ShardFormatError:
    return ShardFormatError(message, UNSUPPORTED_CODE)


def damaged(message: str) -> ShardFormatError:
    return ShardFormatError(message, DAMAGED_CODE)
