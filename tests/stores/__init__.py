"""Real stores on this machine, and a proxy in front of them that fails on purpose."""

from __future__ import annotations
