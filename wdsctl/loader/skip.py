"""How a hook says that it does not want a sample."""

from __future__ import annotations


class SkipSample(Exception):  # noqa: N818 - it is a request, not an error
    """Raise it in a hook to leave this sample out. It is counted, and the next sample takes its place."""
