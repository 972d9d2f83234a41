"""What a command says when the user stops it. Imports nothing, because Ctrl-C may come during the imports."""

from __future__ import annotations

INTERRUPTED_MESSAGE = "interrupted; run the same command again to continue"
INTERRUPTED_UNWRITTEN_MESSAGE = "interrupted; wdsctl wrote nothing"


class InterruptedBeforeWrite(Exception):  # noqa: N818 - the user leaves; nothing is wrong
    """Ctrl-C or Ctrl-D at a question that comes before the first write."""
